"""White lists: expressions such as `10.1.2.*` that match client addresses.

Class RemoteAddressStrategyFactory.

    empty               no address
    *  or  *.*.*.*      every address
    10.1.2.3            one
    10.1.2.3,10.1.2.4   several
    10.1.2.{3,4}        several that differ at the end
    10.1.2.*            all that begin so
    10.1.2.3-9          a range; the text after that part is ignored

IPv6 has the same forms, with a star or a range in one of its last two groups.
"""

import ipaddress
from collections.abc import Callable

from rmqlab.broker.acl.denial import AclDenied
from rmqlab.runtime.text.digits import number_of

Matcher = Callable[[str], bool]
"""Returns True when an IP address, as text, is on the list."""

_EVERYBODY = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_GROUPS = 8


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
    try:
        version = ipaddress.ip_address(address).version
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
    if index is None or any((value := number_of(part)) is None or value > 255 for part in parts[:index]):
        raise _out_of_scope(text)
    first, last = _bounds(parts[index], 10, 255)
    head = parts[:index]

    def matches(address: str) -> bool:
        octets = address.split(".")
        return len(octets) == 4 and octets[:index] == head and first <= int(octets[index]) <= last

    return matches


def _ipv6_range(text: str) -> Matcher:
    parts = [part.strip() for part in text.split(":") if part]
    ranged = next((part for part in parts[1:] if _is_range(part)), None)
    if ranged is None:
        raise _out_of_scope(text)
    tail = text[text.index(ranged) + len(ranged) :]
    if tail not in ("", ":*"):  # a star ends the expression; a range may have one star behind it
        raise _out_of_scope(text)
    first, last = _bounds(ranged, 16, 0xFFFF)
    index = _GROUPS - 1 - tail.count(":")
    head = _expanded(text[: text.index(ranged)].removesuffix(":"), index).split(":")
    if len(head) != index or any(_hex(group) is None for group in head):
        raise _out_of_scope(text)

    def matches(address: str) -> bool:
        groups = _expanded(address, _GROUPS).split(":")
        value = _hex(groups[index]) if len(groups) == _GROUPS and groups[:index] == head else None
        return value is not None and first <= value <= last

    return matches


def _is_range(part: str) -> bool:
    return part == "*" or "-" in part


def _bounds(part: str, base: int, highest: int) -> tuple[int, int]:
    if part == "*":
        return 0, highest
    low, dash, high = part.partition("-")
    try:
        first, last = int(low, base), int(high, base)
    except ValueError:
        raise AclDenied(f"RangeRemoteAddressStrategy netaddress examine scope Exception value {part} ") from None
    if not dash or not 0 <= first <= last <= highest:
        raise AclDenied(
            f"RangeRemoteAddressStrategy netaddress examine scope Exception start is {first} , end is {last}"
        )
    return first, last


def _expanded(address: str, groups: int) -> str:
    """Return an IPv6 address, or its beginning, as `groups` groups of four digits.

    The digits are capital, as in Java.
    """
    missing = groups - address.count(":")
    whole = address.upper().replace("::", ":" * (missing + 1)) if missing > 0 else address.upper()
    return ":".join(group.rjust(4, "0") for group in whole.split(":"))


def _hex(text: str) -> int | None:
    try:
        value = int(text, 16)
    except ValueError:
        return None
    return value if 0 <= value <= 0xFFFF else None


def _out_of_scope(text: str) -> AclDenied:
    return AclDenied(f"Netaddress examine scope Exception netaddress is {text}")
