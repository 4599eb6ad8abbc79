"""A slave with `ha_verify_received` keeps only whole, correct records."""

import pytest

from tests.broker.ha.precheckpair import Pair, log_bytes, send


async def test_in_4_9_a_slave_writes_what_is_no_record_and_its_queues_stop_there(pair: Pair) -> None:
    """Section 4.9, 3.4: the commit log grows, the queues do not."""
    send(pair.master, 10, "good")
    good = pair.source.max_commit_log_offset
    send(pair.master, 10, "bad")
    pair.source.log.files.files[-1].map[good + 4 : good + 8] = b"oops"  # the magic
    pair.follow()
    await pair.until_caught_up()
    assert pair.copy.dispatched_offset == good


async def test_in_4_9_a_slave_refuses_a_record_of_another_file_as_the_first_of_a_file(pair: Pair) -> None:
    send(pair.master, 3, "good")
    pair.source.log.files.files[0].map[28:36] = (2**40).to_bytes(8, "big")  # its physical offset
    pair.follow()
    await pair.until(lambda: "ha_client_disconnected" in pair.recorder.kinds)
    assert pair.copy.max_commit_log_offset == 0
    reason = pair.recorder.reasons("ha_client_disconnected")[0]
    assert reason.startswith("it sent bytes from 0 on that cannot begin a file")
    assert reason.endswith(f"would begin with the record of commit log offset {2**40}")


@pytest.mark.parametrize("at", [0, 3, 5, 8, 30, 90, 500])
async def test_with_ha_verify_received_nothing_is_kept_that_is_no_record(pair: Pair, at: int) -> None:
    """Size, magic, checksum, offset, lengths, body: the link closes, good bytes stay."""
    send(pair.master, 10, "good")
    good = pair.source.max_commit_log_offset
    send(pair.master, 10, "bad")
    pair.source.log.files.files[-1].map[good + at] ^= 0x40
    pair.follow(ha_verify_received=True)
    await pair.until(lambda: "ha_client_disconnected" in pair.recorder.kinds)
    assert pair.copy.max_commit_log_offset == pair.copy.dispatched_offset == good
    reason = pair.recorder.reasons("ha_client_disconnected")[0]
    assert reason.startswith(f"its bytes from {good} on are not a valid record")
    assert max(pair.recorder.acks, default=0) <= good


async def test_with_ha_verify_received_a_good_log_passes_whole(pair: Pair) -> None:
    """Files, blanks and frames that cut records included."""
    send(pair.master, 30, "good", size=5000)
    pair.follow(ha_verify_received=True)
    await pair.until(lambda: pair.copy.max_commit_log_offset >= pair.source.max_commit_log_offset)
    start = pair.copy.min_commit_log_offset
    assert log_bytes(pair.copy, start) == log_bytes(pair.source, start)
