"""A wall clock that is wrong, as the clock faults in force demand."""

import pytest

from rmqlab.faults import ClockSkew, ClockStep, DropRequest, FaultError
from rmqlab.faults.clock.hook import ClockFaults
from rmqlab.faults.process import faults_of_process
from rmqlab.faults.rules import NodeRules, OwnRule
from rmqlab.faults.specification import Fault
from rmqlab.runtime.clock import ClockSettings, RatedClock


def rules(**by_id: Fault) -> NodeRules:
    return NodeRules(own=tuple(OwnRule(id=fault_id, fault=fault) for fault_id, fault in by_id.items()))


def ahead(clock: RatedClock) -> float:
    return clock.wall_millis() - clock.cluster_millis()


def test_steps_add_up_and_other_faults_leave_the_clock_alone() -> None:
    clock = RatedClock(ClockSettings.starting_now())
    hook, step = ClockFaults(clock), ClockStep(target="a", millis=60_000)
    hook.follow(rules(f1=step, f2=step))
    assert ahead(clock) == pytest.approx(120_000, abs=1000)
    hook.follow(rules(f1=step, f2=step, f3=DropRequest(target="a", code="1")))
    hook.follow(rules(f1=step))
    assert ahead(clock) == pytest.approx(60_000, abs=1000)
    hook.follow(NodeRules())
    assert ahead(clock) == pytest.approx(0, abs=1000)


def test_a_process_starts_with_the_wrong_clock_of_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    clock = RatedClock(ClockSettings(rate=1, monotonic_epoch=0, wall_epoch=0))
    faults = faults_of_process(clock, rules(f1=ClockSkew(target="a", ppm=100_000)).to_plain())
    now = 110.0
    assert ahead(clock) == 1000
    faults.set({})
    assert ahead(clock) == 0


def test_a_skew_keeps_its_gain_when_other_clock_faults_begin_or_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    clock = RatedClock(ClockSettings(rate=2, monotonic_epoch=0, wall_epoch=0))
    hook, skew = ClockFaults(clock), ClockSkew(target="a", ppm=100_000)
    hook.follow(rules(f1=skew))
    now = 110.0
    hook.follow(rules(f1=skew, f2=skew, f3=ClockStep(target="a", millis=-5000)))
    assert ahead(clock) == pytest.approx(2000 - 5000, abs=1)
    now = 120.0
    hook.follow(rules(f2=skew))
    assert ahead(clock) == pytest.approx(2000, abs=1)


@pytest.mark.parametrize("millis", [2**53, -(2**53), 9.2e18])
def test_a_step_of_more_than_a_century_is_refused(millis: float) -> None:
    """A broker could not store the time of a message."""
    with pytest.raises(FaultError, match=r"expected at (most|least) -?3155760000000$"):
        ClockStep(target="a", millis=millis)
