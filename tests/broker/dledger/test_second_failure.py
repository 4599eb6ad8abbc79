"""A start of a member that makes a queue again loses power before the flush."""

import shutil
from pathlib import Path

import pytest

from rmqlab.broker.dledger.groupstore import group_log
from rmqlab.remoting.message import decode_message
from rmqlab.store.files.disk import Disk
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.testing import ManualClock, small_config
from tests.broker.dledger.test_store import ALONE, Member
from tests.store.forgetfuldisk import ForgetfulDisk, Forgets, forgets_all, forgets_even, forgets_odd

COUNT = 600
"""Messages of two queues: each has six files."""


def opened(root: Path, disk: Disk | None = None) -> Member:
    now, clock = [1_000_000], ManualClock(step=1)
    kind = group_log(ALONE, lambda: now[0], lambda limit: limit - 1)
    store = MessageStore.open(small_config(root), now_millis=clock, is_slave=True, log_kind=kind, disk=disk)
    return Member(root, store, now, clock)


@pytest.mark.parametrize("keeps_names", [False, True])
@pytest.mark.parametrize("forgets", [forgets_all, forgets_even, forgets_odd])
def test_the_next_start_makes_it_again(tmp_path: Path, forgets: Forgets, *, keeps_names: bool) -> None:
    member = opened(tmp_path)
    member.lead()
    for number in range(COUNT):
        member.put(b"%d" % number, queue_id=number % 2)
    member.store.close()
    shutil.rmtree(tmp_path / "consumequeue" / "orders" / "0")
    disk = ForgetfulDisk(root=tmp_path)
    opened(tmp_path, disk).kill()
    disk.lose_power(forgets, keeps_names=keeps_names)
    store = opened(tmp_path).store
    for number in range(COUNT):
        (record,) = store.get_message("orders", number % 2, number // 2, 1).buffers
        assert decode_message(record).body == b"%d" % number
    assert store.max_queue_offset("orders", 0) == COUNT // 2
    store.close()
