"""Tags codes: the hash of a message's tags, or when a delayed message is due."""

from rmqlab.remoting.message import java_hash


def property_of(text: bytes, name: bytes) -> bytes:
    """Value of a property, b"" without one; of several the last.

    Text and name have separators around them.
    """
    at = text.rfind(name)
    if at < 0:
        return b""
    at += len(name)
    return text[at : text.index(b"\x02", at)]


known_codes: dict[bytes, int] = {}


def tags_code_in(text: bytes) -> int:
    """Tags code of a record; 0 without tags (store-ha#19)."""
    found = text.rfind(b"\x02TAGS\x01") + 6
    if found < 6:
        return 0
    tags = text[found : text.index(b"\x02", found)]
    code = known_codes.get(tags)
    if code is None:
        if len(known_codes) >= 4096:
            known_codes.clear()
        code = known_codes[tags] = java_hash(tags.decode("utf-8", "replace"))
    return code


def deliver_at(delay: str | bytes, stored_at: int, delay_millis: tuple[int, ...]) -> int | None:
    """Tags code of an entry in the schedule topic: when it is due (store-ha#20).

    None without a delay.
    """
    try:
        level = int(delay or 0)
    except ValueError:
        return None
    if level <= 0:
        return None
    return stored_at + (delay_millis[min(level, len(delay_millis)) - 1] if delay_millis else 1000)
