"""A slave's checks with masters whose replies are missing or invalid."""

import pytest

from rmqlab.broker.ha.known_master import KnownMaster
from rmqlab.broker.ha.master_precheck import (
    TIMEOUT,
    CheckUnsupported,
    identity_of,
    log_span_of,
)
from rmqlab.broker.ha.settings import HaSettings
from rmqlab.remoting.codes import RequestCode
from rmqlab.runtime.net.remoting_errors import ConnectError, RequestTimeoutError
from tests.broker.ha.precheckpair import Pair, log_bytes, part_ways

ALL = {"ha_check_master": True, "ha_truncate_diverged": True, "ha_restart_expired_slave": True}


@pytest.mark.parametrize(
    "failure", [ConnectError("nobody there"), RequestTimeoutError(f"no answer within {TIMEOUT} s")]
)
async def test_a_master_that_does_not_answer_is_not_followed_yet_and_that_is_said_once(
    pair: Pair, failure: Exception
) -> None:
    pair.line.fails_with = failure
    examination = pair.examination()
    for _ in range(3):
        assert not await examination.is_fit(pair.ha_address, HaSettings(**ALL))  # type: ignore[arg-type]
    said = f"master {pair.ha_address} is not followed: {failure}"
    assert [fields["verdict"] for _, fields in pair.recorder.events] == [said]
    assert examination.verdict == said
    pair.line.fails_with = None
    assert await examination.is_fit(pair.ha_address, HaSettings(**ALL))  # type: ignore[arg-type]
    assert examination.verdict == ""


@pytest.mark.parametrize("refused", [RequestCode.GET_BROKER_CONFIG, RequestCode.GET_BROKER_RUNTIME_INFO])
async def test_a_master_that_refuses_such_questions_is_followed_as_in_4_9(pair: Pair, refused: RequestCode) -> None:
    part_ways(pair, master_adds=15)
    had = log_bytes(pair.copy)
    pair.line.refuses.add(refused)
    assert await pair.is_fit(**ALL)
    assert log_bytes(pair.copy) == had
    ((_, fields),) = pair.recorder.events
    assert fields["verdict"].startswith(f"master {pair.ha_address} is followed unchecked, as by 4.9: code 16")


async def test_without_switches_nothing_is_asked(pair: Pair) -> None:
    assert await pair.is_fit()
    assert pair.line.asked == []


async def test_the_known_master_or_the_ha_host_is_asked(pair: Pair) -> None:
    """What the nameservers say of the master.

    The port below, as 4.9 has it, where its address was set by hand.
    """
    known_master = KnownMaster("10.0.0.9:10911")
    examination = pair.examination(known_master)
    await examination.is_fit("10.0.0.1:10912", HaSettings(ha_check_master=True))
    known_master.is_ha_address_fixed = True
    await examination.is_fit("10.0.0.1:10912", HaSettings(ha_check_master=True))
    known_master.address = None
    await examination.is_fit("10.0.0.2:10912", HaSettings(ha_check_master=True))
    assert [address for address, _ in pair.line.asked] == ["10.0.0.9:10911", "10.0.0.1:10911", "10.0.0.2:10911"]


async def test_an_ha_address_in_new_settings_counts_from_the_next_start(pair: Pair) -> None:
    """As in 4.9.8: the slave goes on to follow the broker that nameservers name."""
    examination = pair.examination(KnownMaster("10.0.0.9:10911"))
    await examination.is_fit("10.0.0.1:10912", HaSettings(ha_check_master=True, ha_master_address="10.0.0.7:10912"))
    assert [address for address, _ in pair.line.asked] == ["10.0.0.9:10911"]


SPANS = [
    b'{"table":{"commitLogMinOffset":"%s","commitLogMaxOffset":"%s"}}' % span
    for span in ((b"x", b"9"), (b"9", b"x"), (b"9" * 5000, b"9" * 5000), (b"9" * 30, b"9" * 31), (b"9000000000", b"5"))
]
"""A slave that believed them would drop its log, for it ends before the master's begins."""


@pytest.mark.parametrize("body", [b"", b"brokerName=b\n", b"\xff\xfe", b"{}", *SPANS])
def test_a_response_without_facts_is_unsupported(body: bytes) -> None:
    with pytest.raises(CheckUnsupported):
        identity_of(body)
    with pytest.raises(CheckUnsupported):
        log_span_of(body)
