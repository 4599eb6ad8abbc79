"""The remark about a denied request names one of its resources, as 4.9.8 does."""

import pytest

from rmqlab.broker.acl.account import SUB, Account, _first_in_map
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

    def java_hash(name: str) -> int:
        hashed.append(name)
        return len(hashed)

    monkeypatch.setattr("rmqlab.broker.acl.account.java_hash", java_hash)
    account = Account("an access key", "a secret key", lambda _address: False, perms={"T7": SUB})
    with pytest.raises(AclDenied, match="for topic:T0"):
        account.check(RequestCode.HEART_BEAT, {f"T{number}": SUB for number in range(10)})
    assert len(hashed) == 9
    with pytest.raises(AclDenied, match="for topic:T0"):
        account.check(RequestCode.HEART_BEAT, {f"T{number}": SUB for number in range(20_000)})
    assert len(hashed) == 9
