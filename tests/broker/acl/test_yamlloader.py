"""The YAML of ACL files beyond what PyYAML reads.

Expected values are those of AclUtils 4.9.8, with SnakeYAML 2.0.
"""

import pathlib
from typing import Any

import pytest

from rmqlab.broker.acl.denial import AclDenied
from rmqlab.broker.acl.files import AclFile, _document_of

TYPE = "!!org.apache.rocketmq.common.PlainAccessConfig"


def read(text: str) -> Any:
    return _document_of(pathlib.Path("plain_acl.yml"), text)


def account(members: str) -> Any:
    return read(f"accounts: [{TYPE} {members}]")["accounts"][0]


def test_an_account_may_have_its_java_type() -> None:
    """Programs that write accounts with AclUtils.writeDataObject make such files."""
    text = f"accounts:\n- {TYPE}\n  accessKey: RocketMQ\n  secretKey: 12345678\n  topicPerms:\n  - T=PUB\n"
    (found,) = AclFile.of(read(text), 1).accounts.values()
    assert (found.access_key, found.secret_key, found.is_admin, dict(found.perms)) == (
        "RocketMQ",
        "12345678",
        False,
        {"T": 4},
    )


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ("{secretKey: 0123456789, accessKey: 1.50}", {"secretKey": "0123456789", "accessKey": "1.50"}),
        ("{secretKey: ~, defaultTopicPerm: ''}", {"secretKey": None, "defaultTopicPerm": ""}),
        ("{admin: yes}", {"admin": True}),
        ("{admin: 'TRUE'}", {"admin": True}),
        ("{topicPerms: [T=PUB, 7, ~], groupPerms: ~}", {"topicPerms": ["T=PUB", "7", None], "groupPerms": None}),
        ("{<<: {accessKey: one}, secretKey: two}", {"accessKey": "one", "secretKey": "two"}),
        ("{}", {}),
    ],
)
def test_members_of_the_java_type_have_their_types(members: str, found: dict[str, object]) -> None:
    assert account(members) == found


@pytest.mark.parametrize(
    "members",
    ["{other: 1}", "{accesskey: one}", "{admin: 1}", "{admin: ~}", "{topicPerms: T=PUB}", "{[a]: b}", "[a]", "text"],
)
def test_what_the_java_type_does_not_have_is_rejected(members: str) -> None:
    with pytest.raises(AclDenied, match="line 1, column"):
        account(members)


@pytest.mark.parametrize("text", ["accounts: !!java.util.ArrayList []", "accounts: [!other {accessKey: one}]"])
def test_other_types_are_rejected(text: str) -> None:
    with pytest.raises(AclDenied, match="could not determine a constructor"):
        read(text)


@pytest.mark.parametrize(
    ("scalar", "value"),
    [("1234567e8", 1234567e8), ("1.5e3", 1500.0), ("-1E+2", -100.0), ("12345e678", float("inf")), ("=", "=")],
)
def test_plain_scalars_are_those_of_snakeyaml(scalar: str, value: object) -> None:
    assert read(f"accessKey: {scalar}") == {"accessKey": value}


@pytest.mark.parametrize(
    "value",
    ['!!int ""', '!!float ""', "!!bool x", "!!timestamp x", "0x" + "f" * 5000, "0000-01-01", "1:" * 5000 + "1"],
)
def test_a_value_that_is_not_of_its_type_is_rejected_with_its_place(value: str) -> None:
    """PyYAML raises IndexError, KeyError, AttributeError or ValueError."""
    with pytest.raises(AclDenied, match="line 1, column 24: not a value of type"):
        read(f"accounts: [{{accessKey: {value}, secretKey: 12345678}}]")
