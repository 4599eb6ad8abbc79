"""Arguments of operations: accepted forms, and the line that rejects another."""

import datetime as dt
from typing import Any

import pytest

from rmqlab.cluster.operate.errors import InvalidOperationError, unknown
from rmqlab.cluster.operate.groups import GroupChange
from rmqlab.cluster.operate.session import Connection
from rmqlab.cluster.operate.topicchanges import TopicChange
from rmqlab.cluster.operate.values import (
    FIRST,
    NOW,
    QueueAt,
    parse_permission,
    parse_queue,
    parse_queue_at,
    parse_settings,
    parse_time,
    permission_text,
)

PRESENT = 1_700_000_000_000


@pytest.mark.parametrize(
    ("value", "bits"),
    [("rw", 6), ("RW", 6), ("r", 4), ("w", 2), ("rwx", 7), ("none", 0), ("6", 6), (4, 4), ("0", 0), (7, 7)],
)
def test_permissions(value: str | int, bits: int) -> None:
    assert parse_permission(value) == bits
    assert parse_permission(permission_text(bits)) == bits


@pytest.mark.parametrize("value", ["9", 8, "-1", "", "rr", "read", True, "66"])
def test_permissions_out_of_range_are_rejected(value: str | int) -> None:
    with pytest.raises(InvalidOperationError, match=r"expected a number from 0 to 7 .*or rw, r, w, none"):
        parse_permission(value)


@pytest.mark.parametrize(
    ("value", "millis"),
    [
        ("first", FIRST),
        ("now", NOW),
        ("-10m", PRESENT - 600_000),
        ("-10 min", PRESENT - 600_000),
        ("-1.5h", PRESENT - 5_400_000),
        ("-250ms", PRESENT - 250),
        ("-2d", PRESENT - 2 * 86_400_000),
        ("-99999d", FIRST),
        ("1700000000123", 1_700_000_000_123),
        (1_700_000_000_123, 1_700_000_000_123),
        ("1960-01-01T00:00Z", FIRST),
        ("2023-11-14T22:13:20Z", PRESENT),
        ("2023-11-14T23:13:20.5+01:00", PRESENT + 500),
    ],
)
def test_times(value: str | int, millis: int) -> None:
    assert parse_time(value, PRESENT) == millis


@pytest.mark.parametrize("text", ["2023-11-14T22:13:20.250", "2023-11-14 22:13:20.250", "2023-11-14#22:13:20:250"])
def test_times_without_a_zone_are_local_also_in_the_form_of_mqadmin(text: str) -> None:
    local = dt.datetime(2023, 11, 14, 22, 13, 20, 250_000).astimezone()
    assert parse_time(text, PRESENT) == int(local.timestamp() * 1000)


@pytest.mark.parametrize(
    "value", ["tomorrow", "", "-5", "-5 weeks", "10m", "2023-13-01", "9" * 30, "9" * 5000, True, -7]
)
def test_other_times_are_rejected(value: str | int) -> None:
    with pytest.raises(InvalidOperationError, match="time "):
        parse_time(value, PRESENT)


def test_queues() -> None:
    queue = parse_queue("orders@broker-a:3")
    assert (queue.topic, queue.broker_name, queue.queue_id) == ("orders", "broker-a", 3)
    assert parse_queue_at("broker-a:3") == QueueAt("broker-a", 3)


@pytest.mark.parametrize("text", ["orders", "orders:3", "orders@broker-a", "orders@broker-a:x", "a b@broker-a:1"])
def test_other_queues_are_rejected(text: str) -> None:
    with pytest.raises(InvalidOperationError, match=r"orders@broker-a:0|a character other than"):
        parse_queue(text)


def test_settings() -> None:
    assert parse_settings(["a=1", "b = x=y"]) == {"a": "1", "b": "x=y"}


@pytest.mark.parametrize(
    ("pairs", "text"),
    [
        (["a"], "expected KEY=VALUE"),
        (["=1"], "expected KEY=VALUE"),
        (["a=1", "a=2"], "a is given twice"),
        ([], "no setting is given"),
        (["a=1\nb=2"], "line break"),
        (["a b=2"], "letters and digits"),
    ],
)
def test_other_settings_are_rejected(pairs: list[str], text: str) -> None:
    with pytest.raises(InvalidOperationError, match=text):
        parse_settings(pairs)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"queues": "0"}, "number of read queues '0': expected a whole number from 1 to 32768"),
        ({"queues": "many"}, "number of read queues 'many'"),
        ({"write_queues": 40_000}, "number of write queues 40000"),
        ({"queues": 1, "read_queues": 2}, "expected either `queues` or these"),
        ({"permission": 8}, "permission 8"),
    ],
)
def test_changes_of_topics_are_checked(values: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOperationError, match=text):
        TopicChange.of("orders", **values)


def test_names_are_checked() -> None:
    with pytest.raises(InvalidOperationError, match="has a character other than"):
        TopicChange.of("a b")
    with pytest.raises(InvalidOperationError, match="the group is blank"):
        GroupChange.of(" ")
    with pytest.raises(InvalidOperationError, match="broker id -1"):
        GroupChange.of("shop", broker_id=-1)


@pytest.mark.parametrize(
    "address", ["", "foo", "1.2.3.4:0", "1.2.3.4:99999", "1.2.3.4:9876;", "a b:9876", "a..b:9876", "a" * 70 + ":1"]
)
def test_addresses_of_name_servers_are_checked(address: str) -> None:
    with pytest.raises(InvalidOperationError, match="expected HOST:PORT"):
        Connection(namesrv_addr=address)


def test_accounts_are_checked_and_never_shown() -> None:
    with pytest.raises(InvalidOperationError, match="the secret key is missing"):
        Connection(namesrv_addr="1.2.3.4:9876", access_key="operator")
    account = Connection(namesrv_addr="1.2.3.4:9876", access_key="operator", secret_key="12345678")
    assert "12345678" not in repr(account)
    assert account.nodes == {}


def test_an_unknown_name_has_the_near_miss_or_the_known_names() -> None:
    assert str(unknown("topic", "ordrs", ["orders", "x"])) == "unknown topic 'ordrs'; did you mean orders?"
    assert str(unknown("topic", "zzz", ["orders", "x"])) == "unknown topic 'zzz'; there are: orders, x"
    assert str(unknown("topic", "zzz", [])) == "unknown topic 'zzz'; there are none"
    assert str(unknown("topic", "zzz", map(str, range(20)))).endswith(", and 12 more")
