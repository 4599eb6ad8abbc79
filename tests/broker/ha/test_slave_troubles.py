"""What slaves reported about themselves, as a master remembers it."""

import attrs
import pytest

from rmqlab.broker.ha.slave_troubles import LEAST_INTERVAL, LIFETIME, MAX_TEXT, SlaveTroubles
from rmqlab.broker.ha.testing import Recorder


@attrs.define
class Known:
    """The troubles of a master, whose clock a test sets."""

    recorder: Recorder = attrs.field(factory=Recorder)
    seconds: float = 100.0
    troubles: SlaveTroubles = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.troubles = SlaveTroubles(self.recorder.emit, lambda: self.seconds)

    def shown(self) -> list[str]:
        return list(map(str, self.troubles.current()))


@pytest.fixture
def known() -> Known:
    return Known()


def test_the_newest_report_of_a_slave_counts(known: Known) -> None:
    known.troubles.note(1, "broker-a-s", "10.0.0.1", "the disk is full")
    known.troubles.note(2, "broker-a-s2", "10.0.0.2", "the disk fails")
    known.troubles.note(1, "broker-a-s", "10.0.0.1", "its log differs")
    assert known.shown() == ["slave broker-a-s2: the disk fails", "slave broker-a-s: its log differs"]


def test_a_repeated_report_is_logged_and_emitted_once(known: Known, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        known.troubles.note(1, "broker-a-s", "10.0.0.1", "the disk is full")
    assert known.recorder.events == [("slave_trouble", {"slave": "broker-a-s", "text": "the disk is full"})]
    assert len(caplog.records) == 1


def test_a_text_is_one_line_of_limited_length(known: Known) -> None:
    known.troubles.note(1, "s\n" * 100, "10.0.0.1", "full\n\x1b[31m" + "x" * 5000)
    ((name, text),) = [(one["slave"], one["text"]) for one in known.troubles.snapshot()]
    assert name == "s\\n" * 20
    assert text.startswith("full\\n\\x1b[31mxxx")
    assert len(text) == MAX_TEXT


def test_a_later_connection_from_the_same_host_ends_it(known: Known) -> None:
    known.troubles.note(1, "broker-a-s", "10.0.0.1", "the disk is full")
    known.troubles.forget("10.0.0.1", since=known.seconds - 1)  # the connection that it was reported on
    known.troubles.forget("10.0.0.2", since=known.seconds + 1)
    assert known.shown() == ["slave broker-a-s: the disk is full"]
    known.troubles.forget("10.0.0.1", since=known.seconds + 1)
    assert known.shown() == []
    assert known.recorder.kinds == ["slave_trouble", "slave_recovered"]


def test_a_report_that_is_not_repeated_expires(known: Known) -> None:
    """For example of a slave that was removed for good."""
    known.troubles.note(1, "broker-a-s", "10.0.0.1", "the disk is full")
    known.seconds += LIFETIME - 1
    assert known.troubles.snapshot() == [
        {"broker_id": 1, "slave": "broker-a-s", "text": "the disk is full", "seconds": LIFETIME - 1}
    ]
    known.seconds += 1
    assert known.shown() == []


def test_reports_of_one_slave_are_limited(known: Known) -> None:
    assert known.troubles.admit("10.0.0.1", 1)
    assert not known.troubles.admit("10.0.0.1", 1)
    assert known.troubles.admit("10.0.0.1", 2)  # another slave on the same host
    known.seconds += LEAST_INTERVAL
    assert known.troubles.admit("10.0.0.1", 1)


def test_the_number_of_reporting_slaves_is_limited(known: Known) -> None:
    """A peer chooses its ids, and each may cost a request to a nameserver."""
    assert sum(known.troubles.admit("10.0.0.1", broker_id) for broker_id in range(1, 1000)) == 64
    for broker_id in range(1, 1000):
        known.troubles.note(broker_id, f"broker-a-s{broker_id}", "10.0.0.1", "the disk is full")
    assert len(known.shown()) == 64
    assert known.troubles.remark().count("the disk is full") == 4
    assert known.troubles.remark("10.0.0.2") == ""
