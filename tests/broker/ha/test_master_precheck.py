"""A slave's check of its master before it follows, on real stores.

The tests also run without the check: on pairs of 4.9, and of the switches.
"""

import threading
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from rmqlab.broker.ha.master_precheck import (
    Identity,
)
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.codes import RequestCode
from rmqlab.store.files.diskcalls import run_calls
from rmqlab.store.files.logfile import LogFile
from rmqlab.store.messagestore import MessageStore
from rmqlab.store.truncate import deletion_of_all
from tests.broker.ha.precheckpair import FILE, Pair, log_bytes, lose, part_ways, replicate, send

Opener = Callable[..., TalkingBroker]


# ---- ha_truncate_diverged ------------------------------------------------------------------------------------


async def test_in_4_9_a_slave_ahead_of_its_master_diverges_silently(pair: Pair) -> None:
    """Scenario 16, section 4.9: caught up and acknowledged, but with other bytes."""
    part_ways(pair, master_adds=15)
    pair.follow()
    await pair.until_caught_up()
    assert log_bytes(pair.copy) != log_bytes(pair.source)


@pytest.mark.parametrize("master_adds", [0, 3, 15, 200])
async def test_with_ha_truncate_diverged_it_is_cut_to_the_common_part_and_follows(pair: Pair, master_adds: int) -> None:
    """Whether the master has passed its end yet or not, files later too.

    What was cut is kept beside.
    """
    common = part_ways(pair, master_adds=master_adds)
    had, ours = pair.copy.max_commit_log_offset, log_bytes(pair.copy)
    pair.follow(ha_truncate_diverged=True)
    await pair.until_caught_up()
    assert log_bytes(pair.copy) == log_bytes(pair.source)
    for queue_id in range(4):
        ends = [store.max_queue_offset("T", queue_id) for store in (pair.copy, pair.source)]
        assert ends[0] == ends[1]
    ((_, fields),) = [event for event in pair.recorder.events if event[0] == "log_truncated"]
    assert (fields["had"], fields["end"]) == (had, common)
    assert pair.ends_before_cuts == [had]
    assert (pair.copy.config.store_path_root_dir / fields["kept"]).read_bytes() == ours[common:]
    send(pair.master, 5, "later")
    pair.ha.push()
    await pair.until_caught_up()
    assert log_bytes(pair.copy) == log_bytes(pair.source)


@pytest.mark.parametrize("upstream_has", [0, 20])
async def test_a_slave_waits_for_a_slave_that_is_behind(pair: Pair, upstream_has: int) -> None:
    """A slave of a slave rightly has records that its own has not copied yet."""
    part_ways(pair, master_keeps=upstream_has)
    ours = log_bytes(pair.copy)
    pair.master.broker.take_role("SLAVE", 1)
    for _ in range(2):
        assert not await pair.is_fit(ha_truncate_diverged=True)
    assert log_bytes(pair.copy) == ours
    assert pair.ends_before_cuts == []
    assert "is a slave that has not copied our log up to" in pair.recorder.events[-1][1]["verdict"]
    pair.source.append_raw(pair.source.max_commit_log_offset, ours[pair.source.max_commit_log_offset :])
    pair.source.dispatch()
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert log_bytes(pair.copy) == ours


async def test_a_slave_whose_slave_has_other_records_cuts_those(pair: Pair) -> None:
    """Its upstream is behind and differs."""
    common = part_ways(pair, master_adds=3)
    pair.master.broker.take_role("SLAVE", 1)
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert pair.copy.max_commit_log_offset == common


async def test_a_slave_that_diverged_before_the_switch_was_on_is_mended_at_its_end(pair: Pair) -> None:
    """Its last records are master records cut in two, and its dispatch is stuck.

    A real 4.9 slave has the same fate.
    """
    common = part_ways(pair, master_adds=3)
    pair.copy.append_raw(pair.copy.max_commit_log_offset, b"\x11" * 700)
    pair.copy.dispatch()
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert pair.copy.max_commit_log_offset == common


async def test_equal_logs_are_left_alone_for_two_requests(pair: Pair) -> None:
    send(pair.master, 20, "common")
    replicate(pair.source, pair.copy)
    send(pair.master, 20, "news")
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert [code for _, code in pair.line.asked] == [
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.VIEW_MESSAGE_BY_ID,
    ]
    assert pair.recorder.events == []
    assert pair.ends_before_cuts == []


async def test_a_record_cut_in_two_is_fetched_again(pair: Pair) -> None:
    """It is unknown whether the master has the rest of that record."""
    send(pair.master, 20, "common")
    whole = pair.source.max_commit_log_offset
    send(pair.master, 1, "last")
    replicate(pair.source, pair.copy, whole + 300)
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert pair.copy.max_commit_log_offset == whole


async def test_half_of_the_very_first_record_is_fetched_again(pair: Pair) -> None:
    send(pair.master, 3, "first")
    replicate(pair.source, pair.copy, 300)
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert (pair.copy.max_commit_log_offset, pair.copy.log.files.files) == (0, [])


async def test_the_empty_rest_of_a_file_is_fetched_again_and_no_difference(pair: Pair) -> None:
    """It is no record, so the master cannot be asked for it (found by a hunt)."""
    send(pair.master, 100, "x")
    replicate(pair.source, pair.copy, FILE)
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert FILE - 1000 < pair.copy.max_commit_log_offset < FILE
    assert pair.recorder.events == []
    assert pair.ends_before_cuts == [FILE]


async def test_a_slave_whose_last_whole_record_expired_begins_at_the_master_s_first_byte(pair: Pair) -> None:
    send(pair.master, 100, "x")
    replicate(pair.source, pair.copy, FILE + 300)
    pair.source.log.files.drop_first()
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert pair.copy.max_commit_log_offset == FILE


@pytest.mark.parametrize("master_has", [0, 2, 50])
async def test_a_log_with_nothing_in_common_is_not_touched(pair: Pair, master_has: int) -> None:
    """A wiped master, or a foreign one: the slave may have the only copy.

    It waits for a person to decide.
    """
    send(pair.master, 20, "old")
    replicate(pair.source, pair.copy)
    ours = log_bytes(pair.copy)
    run_calls(deletion_of_all(pair.source))
    pair.source.queues.recover_counters()
    send(pair.master, master_has, "new")
    assert not await pair.is_fit(ha_truncate_diverged=True, ha_restart_expired_slave=True)
    assert log_bytes(pair.copy) == ours
    ((kind, fields),) = pair.recorder.events
    assert kind == "ha_master_examined"
    assert "has nothing in common with its own" in fields["verdict"]


def expire_all_but_an_empty_file(pair: Pair) -> int:
    """Roll the log on a full disk, expire all older files, and return the new offset.

    The new file gets no byte, and begins at this offset.
    """
    send(pair.master, 150, "before")
    copy = pair.copy
    end = 2 * FILE
    while (at := copy.max_commit_log_offset) < end:
        assert copy.append_raw(at, pair.source.read_log(at, end - at))
    copy.dispatch()
    copy.append_raw(end, b"")
    for _ in range(2):
        copy.log.files.drop_first()
    assert (copy.min_commit_log_offset, copy.max_commit_log_offset) == (end, end)
    assert copy.queues.record_before(end) is not None
    return end


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_slave_whose_files_all_expired_follows_on_where_it_was(pair: Pair, is_restarted: bool) -> None:  # noqa: FBT001
    """Issue 12.10: its queues name records that it no longer has.

    4.9 follows, and so must the switches.
    """
    end = expire_all_but_an_empty_file(pair)
    if is_restarted:
        config = pair.copy.config
        pair.copy.close()
        pair.slave.broker.store = MessageStore.open(config, now_millis=pair.source.now_millis, is_slave=True)
    pair.follow(ha_truncate_diverged=True, ha_restart_expired_slave=True, ha_verify_received=True)
    await pair.until_caught_up()
    assert log_bytes(pair.copy, end) == log_bytes(pair.source, end)
    assert not {"ha_master_examined", "log_dropped", "log_truncated"} & set(pair.recorder.kinds)
    for queue_id in range(4):
        assert pair.copy.max_queue_offset("T", queue_id) == pair.source.max_queue_offset("T", queue_id)
    pair.copy.close()


async def test_half_a_record_behind_expired_files_is_fetched_again_from_there(pair: Pair) -> None:
    """From the start of the master's last file, the bytes before it would be missing."""
    end = expire_all_but_an_empty_file(pair)
    pair.copy.append_raw(end, pair.source.read_log(end, 300))
    assert await pair.is_fit(ha_truncate_diverged=True)
    assert (pair.copy.min_commit_log_offset, pair.copy.max_commit_log_offset) == (end, end)


async def test_an_empty_log_beyond_its_masters_end_begins_again(pair: Pair) -> None:
    expire_all_but_an_empty_file(pair)
    run_calls(deletion_of_all(pair.source))
    pair.source.queues.recover_counters()
    send(pair.master, 3, "new")
    pair.follow(ha_truncate_diverged=True)
    await pair.until_caught_up()
    assert log_bytes(pair.copy) == log_bytes(pair.source)
    assert "log_dropped" in pair.recorder.kinds


async def test_of_a_log_that_expired_in_part_only_what_is_left_is_compared(pair: Pair) -> None:
    """Its first files are gone and the rest differs: they may never have been equal."""
    send(pair.master, 80, "ours")
    replicate(pair.source, pair.copy)
    pair.copy.log.files.drop_first()
    ours = log_bytes(pair.copy, FILE)
    lose(pair.master, 0)
    send(pair.master, 40, "other")
    send(pair.master, 60, "another")
    assert not await pair.is_fit(ha_truncate_diverged=True)
    assert log_bytes(pair.copy, FILE) == ours


# ---- ha_restart_expired_slave --------------------------------------------------------------------------------


async def test_in_4_9_a_slave_whose_data_expired_never_advances(pair: Pair, mock_clock: MockClock) -> None:
    """Scenario 10, store-ha#57."""
    send(pair.master, 20, "old")
    replicate(pair.source, pair.copy)
    send(pair.master, 200, "new")
    pair.source.log.files.drop_first()
    had = pair.copy.max_commit_log_offset
    pair.follow()
    await pair.recorder.wait_until(lambda: "ha_first_report" in pair.recorder.kinds)
    mock_clock.autojump_threshold = 0.01
    await trio.sleep(60)
    assert pair.copy.max_commit_log_offset == had
    assert pair.ha.connection_count == 1


async def test_with_ha_restart_expired_slave_it_resets_its_store(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what its master still has: its last file, unless that gives all.

    Deleting a file of 1 GB takes 100 ms, so a thread does it.
    """
    threads: list[threading.Thread] = []
    unlink = LogFile.unlink

    def unlink_noted(file: LogFile) -> None:
        threads.append(threading.current_thread())
        unlink(file)

    pair.ha.settings = HaSettings(ha_bootstrap_from_first_byte=True)
    send(pair.master, 20, "old")
    replicate(pair.source, pair.copy)
    send(pair.master, 200, "new")
    pair.source.log.files.drop_first()
    monkeypatch.setattr(LogFile, "unlink", unlink_noted)
    pair.follow(ha_restart_expired_slave=True)
    await pair.until_caught_up()
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
    assert pair.copy.min_commit_log_offset == FILE
    assert log_bytes(pair.copy, FILE) == log_bytes(pair.source, FILE)
    assert pair.copy.max_queue_offset("T", 0) == pair.source.max_queue_offset("T", 0)
    assert "log_dropped" in pair.recorder.kinds
    assert pair.ends_before_cuts == [0]
    pair.copy.close()


# ---- ha_check_master -----------------------------------------------------------------------------------------


async def test_in_4_9_an_empty_slave_copies_any_master(pair: Pair) -> None:
    pair.identity = Identity("DefaultCluster", "broker-b")
    send(pair.master, 5, "foreign")
    pair.follow()
    await pair.until_caught_up()


async def test_with_ha_check_master_only_one_of_its_own_group(pair: Pair) -> None:
    pair.identity = Identity("DefaultCluster", "broker-b")
    send(pair.master, 5, "foreign")
    pair.follow(ha_check_master=True)
    await pair.until(lambda: "ha_master_examined" in pair.recorder.kinds)
    assert pair.copy.max_commit_log_offset == 0
    (said,) = [fields["verdict"] for kind, fields in pair.recorder.events if kind == "ha_master_examined"]
    assert said == (
        f"master {pair.ha_address} is not followed: "
        "it belongs to broker-a in DefaultCluster, we to broker-b in DefaultCluster"
    )
    assert "ha_client_connected" not in pair.recorder.kinds


async def test_with_ha_check_master_its_own_is_followed(pair: Pair) -> None:
    send(pair.master, 5, "ours")
    pair.follow(ha_check_master=True)
    await pair.until_caught_up()
