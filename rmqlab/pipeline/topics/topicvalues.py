"""Parse values of the options of the source `rocketmq`. No I/O."""

import re

from rmqlab.client.namespace import SEPARATOR
from rmqlab.client.subscription import ALL
from rmqlab.pipeline.options import boolean
from rmqlab.remoting.bodies.heartbeat import tags_of
from rmqlab.remoting.names import topic_fault

_HOST_AND_PORT = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_NOT_IN_TAGS = re.compile(r"[\s|,;&*'\"]")
_PART_OF_CLIENT_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TXN_APP_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}")


def name_servers(value: str) -> str:
    """Validate addresses of nameservers, separated by `;`. Raises ValueError."""
    for part in value.split(";"):
        found = _HOST_AND_PORT.fullmatch(part.strip())
        if found is None or not 0 < int(found[1]) < 2**16:
            hint = f"; did you mean {';'.join(re.split('[, ]+', value.strip()))}?" if "," in value else ""
            raise ValueError(f"expected host:port, several separated by `;`{hint}")
    return value


def tag_expression(value: str) -> tuple[str, ...]:
    """Return the tags of `a || b`, a subscription expression; empty for `*`, all tags.

    Raises ValueError.
    """
    expected = "expected tags separated by `||`, such as a || b, or * alone for all"
    if value.strip() == ALL:
        return ()
    tags = tags_of(value)
    if not tags:
        raise ValueError(expected)
    for tag in tags:
        if _NOT_IN_TAGS.search(tag):
            raise ValueError(f"{expected}; {tag!r} is not a valid tag. For unusual tags filter by the column tags")
    return tuple(tags)


def txn_app_id(value: str) -> str:
    if not _TXN_APP_ID.fullmatch(value.strip()):
        raise ValueError("expected 1 to 128 letters, digits, `.`, `_`, `:`, `/` and `-`")
    return value.strip()


def without_tls(value: str) -> bool:
    """Accept false alone. Raises ValueError."""
    if boolean(value):
        raise ValueError(
            "TLS is not supported. Leave the option out: servers accept plain connections too, unless their "
            "tls.server.mode is enforcing"
        )
    return False


def part_of_client_id(value: str) -> str:
    if not _PART_OF_CLIENT_ID.fullmatch(value.strip()):
        raise ValueError("expected 1 to 64 letters, digits, `.`, `_` and `-`")
    return value.strip()


def namespace(value: str) -> str:
    if SEPARATOR in value or topic_fault(value.strip()) is not None:
        raise ValueError("expected letters, digits, `|`, `_` and `-`")
    return value.strip()
