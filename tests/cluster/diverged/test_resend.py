"""Messages that a slave cut, sent again through a running cluster."""

import functools
from pathlib import Path

import pytest
import trio

from rmqlab.cluster.blocking import BlockingCluster
from rmqlab.cluster.diverged.listing import DivergedMessage, list_diverged
from rmqlab.cluster.diverged.resend import resend
from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.files.nodestore import store_config
from rmqlab.cluster.supervisor.plan.targets import find_targets
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.offline.scan import LogScan
from rmqlab.store.testing import new_message, small_config
from rmqlab.store.truncate import save_from

pytestmark = pytest.mark.timeout(300)

KEYS = ("k-0", "k-1", "k-2")


def save_cut(root: Path, copy: Path) -> None:
    """Save three messages in a store's `diverged/`, as if its broker had cut them."""
    store = MessageStore.open(small_config(copy), now_millis=lambda: 1)
    for number, key in enumerate(KEYS):
        store.put(new_message(b"m%d" % number, unique_key=key, keys=f"key-{number}"))
    path = save_from(store, 0)
    store.close()
    assert path is not None
    (root / "diverged").mkdir(parents=True)
    path.rename(root / "diverged" / path.name)


def test_cut_messages_are_sent_once_and_skipped_then_unless_all_are_wanted(tmp_path: Path) -> None:
    place = ClusterDirectory(tmp_path / "lab", is_lasting=False)

    def cut() -> tuple[DivergedMessage, ...]:
        record = place.read_record()
        assert record is not None
        nodes = record.nodes()
        (slave,) = find_targets("broker-a-s", nodes)
        return list_diverged(place, slave, nodes).messages

    with BlockingCluster(ClusterSpec(name="x"), place) as cluster:

        def outcomes(*, even_if_stored: bool = False) -> dict[str, str]:
            send = functools.partial(resend, cluster.namesrv_addr, cut(), even_if_stored=even_if_stored)
            return {one.message_id: one.outcome for one in trio.run(send)}

        cluster.wait_until("slave-in-sync broker-a")
        cluster.produce("orders", 1)
        save_cut(store_config(place, "broker-a-s").store_path_root_dir, tmp_path / "copy")
        assert [one.in_logs for one in cut()] == [()] * 3
        assert outcomes() == dict.fromkeys(KEYS, "SEND_OK")
        assert all("broker-a" in one.in_logs for one in cut())
        assert outcomes() == dict.fromkeys(KEYS, "skipped")
        assert outcomes(even_if_stored=True) == dict.fromkeys(KEYS, "SEND_OK")
        assert messages_of(store_config(place, "broker-a").store_path_commit_log) == [
            (key, f"m{number}".encode(), f"key-{number}") for number, key in enumerate(KEYS) for _ in range(2)
        ]


def messages_of(log: Path) -> list[tuple[str, bytes, str]]:
    """Return unique key, body and keys of the cut messages that a log has, sorted."""
    found = LogScan(log).messages()
    return sorted(
        (key, message.body, message.properties["KEYS"])
        for message in found
        if (key := message.properties.get("UNIQ_KEY", "")) in KEYS
    )
