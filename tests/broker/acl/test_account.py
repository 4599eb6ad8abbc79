"""Accounts as 4.9.8 reads them, and the remarks about denied requests."""

import pytest

from rmqlab.broker.acl.account import DENY, PUB, SUB, Account, _first_in_map, text_of
from rmqlab.broker.acl.denial import AclDenied
from rmqlab.remoting.codes import RequestCode


def test_resources_are_in_the_order_of_a_java_hash_map() -> None:
    left = ["%RETRY%groupA", *(f"T{number}" for number in range(20))]
    order = "T4 T5 T6 T7 T8 T9 %RETRY%groupA T10 T12 T11 T14 T13 T16 T15 T18 T17 T0 T1 T19 T2 T3"
    for first in order.split():
        assert _first_in_map(left, 21) == first
        left.remove(first)


def test_the_remark_about_many_denied_resources_is_made_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = list[str]()

    def spread_hash(name: str) -> int:
        hashed.append(name)
        return len(hashed)

    monkeypatch.setattr("rmqlab.broker.acl.account.spread_hash", spread_hash)
    account = Account("an access key", "a secret key", lambda _address: False, perms={"T7": SUB})
    with pytest.raises(AclDenied, match="for topic:T0"):
        account.check(RequestCode.HEART_BEAT, {f"T{number}": SUB for number in range(10)})
    assert len(hashed) == 9
    with pytest.raises(AclDenied, match="for topic:T0"):
        account.check(RequestCode.HEART_BEAT, {f"T{number}": SUB for number in range(20_000)})
    assert len(hashed) == 9


def read(**members: object) -> Account:
    return Account.of({"accessKey": "RocketMQ", "secretKey": "12345678", "defaultTopicPerm": "PUB", **members})


@pytest.mark.parametrize("key", ["topicPerms", "groupPerms"])
def test_permissions_are_a_list(key: str) -> None:
    """4.9.8 does not start with a single one, either."""
    assert list(read(**{key: ["T=DENY"]}).perms.values()) == [DENY]
    assert not read(**{key: None}).perms
    assert not read(**{key: ""}).perms
    for invalid in ("T=DENY", {"T": "DENY"}, 5, False, ["T"]):
        with pytest.raises(AclDenied):
            read(**{key: invalid})


def test_names_and_permissions_are_trimmed_as_in_java() -> None:
    account = read(topicPerms=["A\t=\x01PUB ", "B=PUB\u00a0", "C\u00a0=SUB"])
    assert account.perms == {"A": PUB, "B": DENY, "C\u00a0": SUB}


@pytest.mark.parametrize("value", [True, 1, 1.0, 1.5, 2**32 + 1, "true", "True", "1", "Y", "y", "T"])
def test_an_administrator_is_marked_by_what_fastjson_reads_as_true(value: object) -> None:
    assert read(admin=value).is_admin


@pytest.mark.parametrize("value", [False, None, 0, 2, 0.5, float("nan"), "false", "False", "N", "f", "null", ""])
def test_other_accounts_are_no_administrators(value: object) -> None:
    assert not read(admin=value).is_admin


@pytest.mark.parametrize("value", ["yes", "t", "n", " true", "on", [True]])
def test_what_fastjson_reads_as_no_boolean_is_rejected(value: object) -> None:
    """4.9.8 does not start with it."""
    with pytest.raises(AclDenied):
        read(admin=value)


def test_members_are_found_by_the_names_that_fastjson_accepts() -> None:
    account = Account.of(
        {"access_key": "RocketMQ", "Secret-Key": "12345678", "isAdmin": True, "topic_perms": ["T=PUB"]}
    )
    assert (account.access_key, account.secret_key, account.is_admin) == ("RocketMQ", "12345678", True)
    assert account.perms == {"T": PUB}


@pytest.mark.parametrize(
    ("name", "is_admin"), [("isAdmin", True), ("is_admin", True), ("ADMIN", True), ("IsAdmin", False)]
)
def test_an_administrator_is_named_as_fastjson_matches_names(name: str, *, is_admin: bool) -> None:
    assert read(**{name: True}).is_admin is is_admin


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (100000000.0, "1.0E8"),
        (12345678.125, "1.2345678125E7"),
        (-1.5e-7, "-1.5E-7"),
        (9.999e22, "9.999E22"),
        (1234567.5, "1234567.5"),
        (0.001, "0.001"),
        (-0.0, "-0.0"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_a_number_has_the_text_that_java_gives_it(value: float, text: str) -> None:
    assert text_of(value) == text
