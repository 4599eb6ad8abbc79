"""Which processes' gaps concern a finding."""

import pytest

from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.gaps import Gap
from rmqlab.verdict.metrics import Source
from rmqlab.verdict.weakening import weaken

NAMES = {"broker-a": {"broker-a"}, "broker-b": {"broker-b"}, "broker-b-s": {"broker-b"}}


def value_with(metric: str, value: float, gap: Gap) -> object:
    (found,) = weaken([Finding(metric=metric, unit="messages", value=value)], [gap], METRICS, NAMES)
    return found.value


def of_broker(name: str) -> Gap:
    return Gap(process=name, sources=frozenset({Source.BROKERS}), text="cut", brokers=frozenset({name}))


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("unqueued broker-b-s", 2),
        ("topics_missing broker-b-s", 2),
        ("groups_missing broker-b", 2),
        ("offset_file_behind broker-b-s", 2),
        ("replication_lag broker-b-s", 0),
        ("replication_lag_left broker-b-s", 7),
        ("own_offsets_overwritten broker-b-s", 0),
    ],
)
def test_a_metric_of_a_node_needs_the_journals_of_its_broker_name(metric: str, value: float) -> None:
    assert value_with(metric, value, of_broker("broker-a")) == value
    assert value_with(metric, value, of_broker("broker-b")) is None


def test_a_node_without_a_known_broker_name_may_need_any_journal() -> None:
    assert value_with("unqueued broker-c", 2, of_broker("broker-a")) is None


@pytest.mark.parametrize("metric", ["order.delivered shop", "group_read_unavailable shop"])
def test_a_metric_of_a_group_needs_the_journals_of_its_consumers(metric: str) -> None:
    for groups, value in ((("bank",), 2), (("shop",), None), (("bank", "shop"), None), ((), None)):
        consumers = frozenset({Source.CONSUMERS})
        gap = Gap(process="consume-1", sources=consumers, text="cut", groups=frozenset(groups))
        assert value_with(metric, 2, gap) == value


def test_a_metric_of_all_groups_needs_the_journals_of_all_consumers() -> None:
    gap = Gap(process="consume-1", sources=frozenset({Source.CONSUMERS}), text="cut", groups=frozenset({"bank"}))
    assert value_with("offset_rollbacks", 0, gap) is None
