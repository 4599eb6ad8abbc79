"""Rates from a sequence of status documents."""

from typing import Any

from rmqlab.cluster.cli.live.rates import DOCUMENTS, Rates

Document = dict[str, Any]


def at(millis: int, sent: int | None, end: int | None) -> Document:
    nodes: list[Document] = [
        {"name": "broker-a", "kind": "broker", "commit_log": {"max": end}},
        {"name": "namesrv-1", "kind": "nameserver"},
    ]
    if sent is not None:
        messages = {"sent.SEND_OK": sent, "attempt_failed.refused": 99, "committed": 5}
        nodes.append({"name": "produce-1", "kind": "workload", "messages": messages})
    return {"clock_millis": millis, "nodes": nodes}


def test_totals_grow_by_so_much_a_second() -> None:
    rates = Rates()
    assert rates.by_node() == {}
    for document in (at(0, None, 100), at(1000, 10, 300), at(3000, 60, 700)):
        rates.add(document)
    assert rates.by_node() == {"broker-a": 200, "produce-1": 25}


def test_a_rate_is_of_the_latest_documents_and_unknown_after_a_new_begin() -> None:
    rates = Rates()
    for second in range(2 * DOCUMENTS):
        rates.add(at(1000 * second, 0 if second < DOCUMENTS else second - DOCUMENTS + 1, None))
    assert rates.by_node() == {"produce-1": 1}
    rates.add(at(10**6, 0, None))
    assert rates.by_node() == {}
