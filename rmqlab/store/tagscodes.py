"""Tags codes: the hash of a message's tags, or when a delayed message is due."""

from rmqlab.remoting.message import PROPERTY_DELAY, PROPERTY_TAGS, StoredMessage, java_hash
from rmqlab.remoting.names import SCHEDULE_TOPIC


def property_of(text: bytes, name: bytes) -> bytes:
    """Return the value of a property; b"" if it is missing.

    If a name occurs several times, the last value that is not empty counts; empty values are ignored (store-ha#13).
    `text` and `name` must begin and end with separators.
    """
    at = text.rfind(name)
    while at >= 0:
        start = at + len(name)
        if value := text[start : text.index(b"\x02", start)]:
            return value
        at = text.rfind(name, 0, at)
    return b""


known_codes: dict[bytes, int] = {}


def tags_code_in(text: bytes) -> int:
    """Return the tags code of a record; 0 without tags (store-ha#19)."""
    tags = property_of(text, b"\x02TAGS\x01")
    if not tags:
        return 0
    code = known_codes.get(tags)
    if code is None:
        if len(known_codes) >= 4096:
            known_codes.clear()
        code = known_codes[tags] = java_hash(tags.decode("utf-8", "replace"))
    return code


def expected_code(message: StoredMessage) -> int | None:
    """Return the tags code of a record's entry, from its properties.

    None for a delayed message: its entry has a time of delivery, which depends on the broker's settings.
    """
    if message.topic == SCHEDULE_TOPIC and PROPERTY_DELAY in message.properties:
        return None
    return java_hash(message.properties.get(PROPERTY_TAGS, ""))


def is_code_of(code: int, expected: int | None, stored_at: int) -> bool:
    """Return True if an entry may have a tags code.

    `expected` is that of `expected_code`. Without one, the code is a time: no message is due before it was stored.
    """
    return code >= stored_at if expected is None else code == expected


def deliver_at(delay: str | bytes, stored_at: int, delay_millis: tuple[int, ...]) -> int | None:
    """Return the tags code of an entry in the schedule topic (store-ha#20).

    It is the delivery time in ms. None without a delay level.
    """
    try:
        level = int(delay or 0)
    except ValueError:
        return None
    if level <= 0:
        return None
    return stored_at + (delay_millis[min(level, len(delay_millis)) - 1] if delay_millis else 1000)
