"""White lists: expressions such as `10.1.2.*` that match client addresses.

Class RemoteAddressStrategyFactory.

    empty               no address
    *  or  *.*.*.*      every address
    10.1.2.3            one
    10.1.2.3,10.1.2.4   several
    10.1.2.{3,4}        several that differ at the end
    10.1.2.*            all that begin so
    10.1.2.3-9          a range; the text after that part is ignored

An IPv6 expression may end with a star or a range behind any number of groups, and with a star behind a range:
`fe80:*` has all addresses whose first group is fe80.

4.9.8 does not check the part before a range, nor what follows the second number of one: `10.1.x.*` and `1::/64` are
valid, and match no address.
"""

import ipaddress
import re
from collections.abc import Callable

from rmqlab.broker.acl.denial import AclDenied

Matcher = Callable[[str], bool]
"""Returns True when an IP address, as text, is on the list."""

_EVERYBODY = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_GROUPS = 8
_HIGHEST_GROUP = 0xFFFF
_DIGITS = {10: re.compile("[+]?[0-9]{1,9}"), 16: re.compile("[+]?[0-9a-fA-F]{1,7}")}
"""By base. Python reads `1_0` and ` 1` as numbers, too; Java does not."""
_PREFIX_LENGTH = re.compile("[0-9]{1,2}|1[01][0-9]|12[0-8]")


def address_matcher(expression: str | None) -> Matcher:
    """Return the matcher of one expression. AclDenied if the expression is invalid."""
    text = expression or ""
    if not text.strip():
        return lambda _address: False
    if text in _EVERYBODY:
        return lambda _address: True
    if text.endswith("}"):
        return _among(_braced(text))
    if "," in text:
        return _among([part for part in text.split(",") if part])
    if "*" in text or "-" in text:
        return _ipv6_range(text) if ":" in text else _ipv4_range(text)
    return _among([text])


def _among(addresses: list[str]) -> Matcher:
    known = {_normal(address) for address in addresses}

    def matches(address: str) -> bool:
        return (_expanded(address, _GROUPS) if ":" in address else address) in known

    return matches


def _normal(address: str) -> str:
    plain, _, length = address.partition("/")
    has_prefix = ":" in plain and _PREFIX_LENGTH.fullmatch(length) is not None  # 4.9.8 compares it with the address
    try:
        version = ipaddress.ip_address(plain if has_prefix else address).version
    except ValueError:
        raise AclDenied(f"Netaddress examine Exception netaddress is {address}") from None
    return _expanded(address, _GROUPS) if version == 6 else address


def _braced(text: str) -> list[str]:
    """Expand `10.1.2.{3,4}` into its addresses."""
    separator = ":" if ":" in text else "."
    parts = [part for part in text.split(separator) if part]
    if separator == "." and len(parts) < 4:
        raise AclDenied("MultipleRemoteAddressStrategy has got a/some wrong format IP(s) ")
    if not parts[-1].startswith("{"):
        raise AclDenied("MultipleRemoteAddressStrategy netaddress examine scope Exception netaddress")
    head = text[: text.index("{")]
    return [head + one for one in parts[-1][1:-1].split(",") if one]


def _ipv4_range(text: str) -> Matcher:
    parts = [part.strip() for part in text.split(".") if part]
    index = next((place for place in (1, 2, 3) if place < len(parts) and _is_range(parts[place])), None)
    if index is None or len(parts) != 4 or any(_number(part, 10, 255) is None for part in parts[: index - 1]):
        raise _out_of_scope(text)
    first, last = _bounds(parts[index], 10, 255)
    head = parts[:index]

    def matches(address: str) -> bool:
        octets = address.split(".")
        return len(octets) == 4 and octets[:index] == head and first <= int(octets[index]) <= last

    return matches


def _ipv6_range(text: str) -> Matcher:
    parts = [part.strip() for part in text.split(":") if part]
    place = next((place for place in range(1, len(parts)) if _is_range(parts[place])), None)
    if place is None or "-" in parts[0] or "*" in text[:-1]:
        raise _out_of_scope(text)
    ranged = parts[place]
    tail = text[text.index(ranged) + len(ranged) :]
    if tail not in ("", ":*"):  # a star ends the expression; a range may have one star behind it
        raise _out_of_scope(text)
    first, last = _bounds(ranged, 16, _HIGHEST_GROUP)
    most = _GROUPS - 1 - tail.count(":")
    head = _expanded(text[: text.index(ranged)].removesuffix(":"), most).split(":")
    index = len(head)
    if any(_number(group, 16, _HIGHEST_GROUP) is None for group in head[: place - 1]):
        raise _out_of_scope(text)

    def matches(address: str) -> bool:
        groups = _expanded(address, _GROUPS).split(":")
        is_below = len(groups) == _GROUPS > index and groups[:index] == head
        value = _number(groups[index], 16, _HIGHEST_GROUP) if is_below else None
        return value is not None and first <= value <= last

    return matches


def _is_range(part: str) -> bool:
    return part == "*" or "-" in part


def _bounds(part: str, base: int, highest: int) -> tuple[int, int]:
    if part == "*":
        return 0, highest
    numbers = [None if part.startswith("-") else _number(text, base, highest) for text in part.split("-") if text]
    first, last, *_ = *numbers, None, None
    if first is None or not last or first > last:  # 4.9.8 does not accept `0-0` as a range
        raise AclDenied(f"RangeRemoteAddressStrategy netaddress examine scope Exception value {part} ")
    return first, last


def _expanded(address: str, groups: int) -> str:
    """Return an IPv6 address, or its beginning, as `groups` groups of four digits.

    The digits are capital, as in Java.
    """
    missing = groups - address.count(":")
    whole = address.upper().replace("::", ":" * (missing + 1)) if missing > 0 else address.upper()
    return ":".join(group.rjust(4, "0") for group in whole.split(":"))


def _number(text: str, base: int, highest: int) -> int | None:
    """Return the number that digits form; None for other text and for larger numbers."""
    value = int(text, base) if _DIGITS[base].fullmatch(text) else None
    return None if value is None or value > highest else value


def _out_of_scope(text: str) -> AclDenied:
    return AclDenied(f"Netaddress examine scope Exception netaddress is {text}")
