"""Names in a namespace, as NamespaceUtil of 4.9.8 writes them."""

import pytest

from rmqlab.client.namespace import with_namespace, without_namespace


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "NS%orders"),
        ("%RETRY%billing", "%RETRY%NS%billing"),
        ("%DLQ%billing", "%DLQ%NS%billing"),
        ("NS2%orders", "NS%NS2%orders"),
    ],
)
def test_a_name_round_trips_through_its_namespace_prefix(name: str, wrapped: str) -> None:
    assert with_namespace("NS", name) == wrapped
    assert with_namespace("NS", wrapped) == wrapped
    assert without_namespace("NS", wrapped) == name


@pytest.mark.parametrize("name", ["TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x", "CID_RMQ_SYS_TRANS", ""])
def test_names_of_the_system_are_in_no_namespace(name: str) -> None:
    assert with_namespace("NS", name) == without_namespace("NS", name) == name


def test_without_a_namespace_and_in_another_one_names_stay() -> None:
    assert with_namespace(None, "orders") == with_namespace("", "orders") == "orders"
    assert without_namespace("NS", "NS2%orders") == "NS2%orders"
    assert without_namespace(None, "NS%orders") == "NS%orders"
