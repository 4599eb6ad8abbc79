"""A status document as the supervisor gives it, small enough to be read."""

from collections.abc import Callable
from typing import Any

import pytest

Document = dict[str, Any]
Change = Callable[..., Document]
SOME_DAY = 1_795_200_000_000


def node(name: str, kind: str = "broker", state: str = "ready", **fields: Any) -> Document:
    slot = {"namesrv-1": 1, "broker-a": 20, "broker-a-s": 21, "produce-1": 240, "consume-2": 241}.get(name, 99)
    port = {"broker": ":10911", "nameserver": ":9876"}.get(kind, "")
    common = {"name": name, "kind": kind, "state": state, "address": f"127.77.1.{slot}{port}"}
    return {**common, "role": None, "group": None, "broker_id": None, "pid": 1, **fields}


@pytest.fixture
def document() -> Document:
    """A master, its slave, a nameserver, a producer and a consumer; all is well."""
    master, slave = "127.77.1.20:10911", "127.77.1.21:10911"
    replication = {"master": "broker-a", "slave": "broker-a-s", "group": "broker-a", "lag": 0, "connected": True}
    sent = {"attempt_failed.indeterminate": 3, "sent.SEND_OK": 1200, "sent.refused": 31}
    return {
        "name": "default",
        "rate": 10.0,
        "clock_millis": SOME_DAY,
        "namesrv_addr": "127.77.1.1:9876",
        "nodes": [
            node("namesrv-1", "nameserver"),
            node("broker-a", role="SYNC_MASTER", group="broker-a", broker_id=0, commit_log={"max": 1234567}),
            node("broker-a-s", role="SLAVE", group="broker-a", broker_id=1, commit_log={"max": 1234567}),
            node("produce-1", "workload", messages=sent),
            node("consume-2", "workload", messages={"delivered": 1200, "committed": 40}),
        ],
        "masters": {"broker-a": ["broker-a"]},
        "replication": [replication],
        "routes": {"namesrv-1": {"broker-a": {"0": master, "1": slave}}},
        "faults": [],
    }
