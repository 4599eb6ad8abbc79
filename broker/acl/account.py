"""An account and its permissions.

Classes PlainAccessResource, Permission; PlainPermissionManager.checkPerm. A resource is a topic or a group. A group is
listed under its retry topic, `%RETRY%group`, as in 4.9.
"""

import decimal
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from rmqlab.broker.acl.addresses import Matcher, address_matcher
from rmqlab.broker.acl.denial import AclDenied
from rmqlab.remoting.acl import SHORTEST_KEY
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.hashmap import bucket_count, spread_hash
from rmqlab.remoting.names import RETRY_PREFIX
from rmqlab.runtime.config.validators import shown

DENY, ANY, PUB, SUB = 1, 2, 4, 8
_MOST_HASHED: Final = 2**16
"""Characters of denied resources that are hashed for a remark."""
_INT_BITS: Final = 0xFFFFFFFF
"""The bits that Java keeps of a longer number."""
_LEAST_PLAIN, _LEAST_LARGE = 1e-3, 1e7
"""Between them Java shows a number without exponent."""
_BLANKS: Final = "".join(map(chr, range(33)))
"""Characters that Java trims. Python strips others, such as no-break spaces, with which a name is another one."""
PERMISSIONS = {"PUB": PUB, "SUB": SUB, "PUB|SUB": PUB | SUB, "SUB|PUB": PUB | SUB, "DENY": DENY}

ADMIN_CODES = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.DELETE_TOPIC_IN_BROKER,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
    }
)
"""Codes for administrators only. 4.9 omits others, such as the requests that change these accounts."""


@attrs.frozen
class Account:
    """One account of an ACL file."""

    access_key: str
    secret_key: str = attrs.field(repr=False)
    is_white: Matcher
    """Returns True when requests from an address need no signature."""
    is_admin: bool = False
    default_topic_perm: int = DENY
    default_group_perm: int = DENY
    perms: Mapping[str, int] = attrs.Factory(dict)
    """By resource."""

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "Account":
        """Return the account of an entry in a file. AclDenied if the entry is invalid."""
        entry = {_plain_name(name): value for name, value in entry.items()}
        access_key, secret_key = text_of(entry.get("accesskey")), text_of(entry.get("secretkey"))
        check_keys(access_key, secret_key)
        assert access_key is not None  # checked by check_keys
        assert secret_key is not None
        groups = _resource_perms(entry.get("groupperms"), "group")
        topics = _resource_perms(entry.get("topicperms"), "topic")
        return cls(
            access_key,
            secret_key,
            address_matcher(text_of(entry.get("whiteremoteaddress"))),
            _boolean(entry.get("admin")),
            permission(text_of(entry.get("defaulttopicperm"))),
            permission(text_of(entry.get("defaultgroupperm"))),
            {**{RETRY_PREFIX + name: perm for name, perm in groups.items()}, **topics},
        )

    def check(self, code: int, needed: Mapping[str, int]) -> None:
        """Check that this account may send a request with this code on these resources.

        AclDenied if not.
        """
        if code in ADMIN_CODES and not self.is_admin:
            raise AclDenied(
                f"Need admin permission for request code={code}, but accessKey={self.access_key} is not",
                "checkPerm",
                581,
            )
        if self.is_admin and not self.perms:
            return
        denied = [resource for resource, perm in needed.items() if not _allows(self._perm_of(resource), perm)]
        if denied:
            resource = _first_in_map(denied, len(needed))
            is_group = resource.startswith(RETRY_PREFIX)
            shown = f"group:{resource.removeprefix(RETRY_PREFIX)}" if is_group else f"topic:{resource}"
            line = 611 if resource in self.perms else 606
            raise AclDenied(f"No default permission for {shown}", "checkPerm", line)

    def _perm_of(self, resource: str) -> int:
        default = self.default_group_perm if resource.startswith(RETRY_PREFIX) else self.default_topic_perm
        return self.perms.get(resource, default)


def _first_in_map(resources: Sequence[str], size: int) -> str:
    """Return the one that comes first in a Java HashMap of this size.

    The remark names it. Of very long names, which would take seconds to hash, it is the first that arrived.
    """
    if sum(map(len, resources)) > _MOST_HASHED:
        return resources[0]
    last = bucket_count(size) - 1
    return min(resources, key=lambda name: spread_hash(name) & last)


def check_keys(access_key: str | None, secret_key: str | None) -> None:
    """Check the lengths of an access key and a secret key.

    AclDenied if one is too short.

    4.9.8 repeats the secret here. The text goes into remarks and logs, so that only its absence is shown.
    """
    if min(len(access_key or ""), len(secret_key or "")) < SHORTEST_KEY:
        raise AclDenied(
            f"The accessKey={'null' if access_key is None else access_key} "
            f"and secretKey={'null' if secret_key is None else '******'} "
            "cannot be null and length should longer than 6"
        )


def permission(text: str | None) -> int:
    """Parse a permission; an invalid one counts as DENY."""
    return PERMISSIONS.get((text or "").strip(_BLANKS), DENY)


def check_resource_perms(perms: Sequence[str] | None) -> None:
    """Check that `resource=permission` entries can be written to a file.

    AclDenied if not.
    """
    for entry in perms or ():
        parts = [part for part in entry.split("=") if part]
        if len(parts) != 2:
            raise AclDenied(
                f"Parse Resource format error for {entry}.\n"
                "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
            )
        if parts[1].strip(_BLANKS) not in PERMISSIONS:
            raise AclDenied(
                f"Parse resource permission error for {entry}.\n"
                "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
            )


def _resource_perms(entries: object, kind: str) -> dict[str, int]:
    """Return the permissions of a list of `resource=permission`.

    AclDenied for anything but a list.
    """
    perms: dict[str, int] = {}
    if entries is None or entries == "":
        return perms
    if not isinstance(entries, list):
        raise AclDenied(f"{kind}Perms: expected a list of resource=permission")
    for entry in entries:
        parts = [part for part in (text_of(entry) or "").split("=") if part]
        if len(parts) != 2:
            raise AclDenied(f"Parse resource permission failed for {kind}:{entry}")
        perms[parts[0].strip(_BLANKS)] = permission(parts[1])
    return perms


def _allows(owned: int, needed: int) -> bool:
    if owned & DENY:
        return False
    return bool(owned & (PUB | SUB) if needed & ANY else owned & needed)


def _plain_name(name: object) -> str:
    """Return the name by which fastjson finds a member.

    `access_key`, `Access-Key` and `isAdmin` are known, too.
    """
    plain = str(name).replace("_", "").replace("-", "")
    known = plain.lower()
    return "admin" if known == "isadmin" and plain.startswith("is") else known


def _boolean(value: object) -> bool:
    """Return the boolean of a YAML scalar, as fastjson does.

    It accepts 1 and some words in quotes, too. AclDenied for other words, such as "yes" in quotes: fastjson raises, and
    4.9.8 does not start.
    """
    if isinstance(value, int):
        return value & _INT_BITS == 1
    if isinstance(value, float):
        return 1 <= value < 2
    text = text_of(value) or ""
    if text.lower() == "true" or text in ("1", "Y", "y", "T"):
        return True
    if text.lower() == "false" or text in ("", "null", "NULL", "0", "F", "f", "N"):
        return False
    raise AclDenied(f"admin: expected true or false, not {shown(text)}")


def text_of(value: object) -> str | None:
    """Convert a YAML scalar to text as Java does: an unquoted 12345678 is a valid key.

    AclDenied for a list or a mapping: through YAML aliases, a few lines of them can expand to an enormous text.
    """
    if isinstance(value, (list, dict, set)):
        raise AclDenied(f"expected a text, not a {type(value).__name__}")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _double_text(value)
    return None if value is None else str(value)


def _double_text(value: float) -> str:
    """Return Java's text of a number: `1.0E8` for 100000000.0."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _LEAST_PLAIN <= abs(value) < _LEAST_LARGE:
        return repr(value)
    _, digits, exponent = decimal.Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits))
    power = len(text) + int(exponent) - 1
    sign = "-" if value < 0 else ""
    return f"{sign}{text[0]}.{text[1:].rstrip('0') or '0'}E{power}"
