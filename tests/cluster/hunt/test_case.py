"""Cases of a hunt: drawn from seeds, and written as scenario files."""

import tomllib

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.hunt.case import FIRST_FAULT, ORDERLY, PLAIN, SHORT, Case, draw_case
from rmqlab.cluster.hunt.casefile import scenario_of
from rmqlab.cluster.hunt.claims import CLAIMS
from rmqlab.cluster.hunt.faults import KINDS, MEMBERS, Fault, kinds_for, kinds_in
from rmqlab.cluster.hunt.groupclaims import claims_in
from rmqlab.cluster.hunt.possible import is_possible
from rmqlab.cluster.hunt.tomlfile import scenario_text
from rmqlab.cluster.hunt.trial import bind_case, claims_for
from rmqlab.cluster.scenario.binding import bind_scenario
from rmqlab.cluster.scenario.review import review
from rmqlab.cluster.supervisor.plan.topology import DLEDGER, MODES

seeds = st.integers(0, 2**32)


def scenario_values(case: Case) -> dict[str, object]:
    expectations = [one for claim in claims_for(case, CLAIMS) for one in claim.expectations_for(case)]
    return scenario_of(case, expectations, name="drawn", claim="a claim")


@given(seeds, st.sampled_from(MODES))
def test_a_drawn_case_can_be_played(seed: int, mode: str) -> None:
    case = draw_case(seed, "4.9", kinds_in(mode), mode=mode)

    assert case.faults
    assert is_possible(case.faults)
    assert {fault.target for fault in case.faults} <= {*case.brokers, "namesrv-1", "shop"}
    review(bind_case(case, claims_for(case, claims_in(mode))), is_single=False)


@given(seeds)
def test_a_seed_draws_the_same_case_again(seed: int) -> None:
    assert draw_case(seed, "4.9", KINDS) == draw_case(seed, "4.9", [*reversed(list(KINDS))])


@given(seeds)
def test_a_short_case_has_few_faults_that_end_soon(seed: int) -> None:
    case = draw_case(seed, "hardened", KINDS, is_short=True)

    assert len(case.faults) <= SHORT.most_faults
    assert all(fault.seconds <= SHORT.longest for fault in case.faults)
    assert case.load in SHORT.loads


def test_faults_without_a_protecting_switch_are_not_drawn_for_the_hardened_profile() -> None:
    assert set(kinds_for("4.9")) == set(KINDS)
    assert set(KINDS) - set(kinds_for("hardened")) == {"corruption"}


@given(seeds)
def test_a_case_is_the_same_as_a_file(seed: int) -> None:
    values = scenario_values(draw_case(seed, "hardened", KINDS))
    text = scenario_text(values, ("drawn", "by a test"))

    assert tomllib.loads(text) == values
    assert bind_scenario(tomllib.loads(text)) == bind_scenario(values)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_moves_can_be_played(kind: str) -> None:
    for target in KINDS[kind].targets:
        case = Case(seed=1, faults=(Fault(kind, target, FIRST_FAULT, 5.0),))
        review(bind_case(case, claims_for(case, CLAIMS)), is_single=False)


def test_a_target_has_one_fault_at_a_time() -> None:
    kill, pause = Fault("kill", "broker-a", 20, 10), Fault("pause", "broker-a", 25, 1)

    assert is_possible([kill, attrs.evolve(pause, target="broker-a-s")])
    assert not is_possible([kill, pause])
    assert is_possible([kill, attrs.evolve(pause, at=33)])


def test_a_link_has_one_fault_at_a_time_beside_those_of_its_brokers() -> None:
    cut, slow = Fault("replication-cut", "broker-a", 20, 10), Fault("one-way", "broker-a-s", 25, 1)

    assert is_possible([cut, Fault("kill", "broker-a-s", 25, 1)])
    assert not is_possible([cut, slow])


def test_only_one_disk_loses_something() -> None:
    faults = [Fault("wipe", "broker-a-s", 20, 1), Fault("power-loss", "broker-a", 60, 1)]

    assert not is_possible(faults)


def test_a_claim_that_asynchronous_flushes_do_not_make_is_not_judged() -> None:
    lossy = Case(seed=1, flush="ASYNC_FLUSH", faults=(Fault("power-loss", "broker-a", 20, 1),))

    assert "nothing-lost" not in [claim.name for claim in claims_for(lossy, CLAIMS)]
    assert "nothing-lost" in [claim.name for claim in claims_for(attrs.evolve(lossy, flush="SYNC_FLUSH"), CLAIMS)]


@pytest.mark.parametrize(
    ("kind", "target", "is_promised"),
    [
        ("kill", "broker-a-s", True),
        ("slow-link", "broker-a", True),
        ("pause", "broker-a-s", False),
        ("one-way", "broker-a-s", False),
        ("kill", "broker-a", False),
    ],
)
def test_quick_sends_are_expected_where_the_master_detects_the_fault(kind: str, target: str, is_promised: bool) -> None:  # noqa: FBT001
    faults = (Fault("consumer", "shop", 20, 1.0), Fault(kind, target, 30, 1.0))

    (expectation,) = CLAIMS["quick-sends"].expectations_for(Case(seed=1, faults=faults))
    assert expectation.get("before") == (None if is_promised else f"2: {kind}")


def test_a_slave_is_expected_to_notice_a_silent_master_only_after_a_while() -> None:
    long = Case(seed=1, faults=(Fault("isolate", "broker-a", 20, 50),))
    short = Case(seed=1, faults=(Fault("isolate", "broker-a", 20, 30),))

    assert [claim.name for claim in claims_for(long, ["slave-notices"])] == ["slave-notices"]
    assert claims_for(short, ["slave-notices"]) == []


@pytest.mark.parametrize("disk", ["slow-sync", "failing-sync"])
def test_offsets_may_go_back_if_a_power_loss_removes_read_messages(disk: str) -> None:
    late, loss = Fault(disk, "broker-a", 20, 2), Fault("power-loss", "broker-a", 22, 1.0)
    lost, kept = (Case(seed=1, flush="SYNC_FLUSH", faults=faults) for faults in ((late, loss), (loss,)))

    assert claims_for(lost, ["offsets-advance", "progress-kept"]) == []
    assert len(claims_for(kept, ["offsets-advance", "progress-kept"])) == 2


@pytest.mark.parametrize(
    ("at", "seconds", "load", "is_promised"),
    [
        (21.0, 1.0, PLAIN, False),  # its last commits find no master
        (26.0, 1.0, PLAIN, True),
        (18.0, 8.0, PLAIN, False),  # the master has not saved them, and the next consumer asks it
        (18.0, 4.0, PLAIN, True),  # the next one reads on at the slave
        (18.0, 4.0, ORDERLY, False),
        (14.0, 12.0, PLAIN, True),
    ],
)
def test_offsets_may_go_back_if_no_broker_has_the_last_commits(
    at: float,
    seconds: float,
    load: str,
    is_promised: bool,  # noqa: FBT001
) -> None:
    """examples/limits/last-commits-lost.toml shows one."""
    faults = (Fault("kill", "broker-a", 20.0, 5.0), Fault("consumer", "shop", at, seconds))
    claims = claims_for(Case(seed=1, load=load, faults=faults), ["offsets-advance"])

    assert bool(claims) is is_promised


@pytest.mark.parametrize(("killed_at", "is_promised"), [(15.0, True), (19.0, False), (21.0, False), (23.0, True)])
def test_offsets_may_go_back_if_the_next_consumer_finds_no_slave(killed_at: float, is_promised: bool) -> None:  # noqa: FBT001
    """Without both brokers, nameservers have no route until the master returns."""
    faults = (
        Fault("kill", "broker-a", 20.0, 5.0),
        Fault("consumer", "shop", 18.0, 4.0),
        Fault("kill", "broker-a-s", killed_at, 2.0),
    )
    claims = claims_for(Case(seed=1, faults=faults), ["offsets-advance"])

    assert bool(claims) is is_promised


@pytest.mark.parametrize(
    ("seconds", "other", "cut_at", "is_promised"),
    [
        (12.0, None, None, True),
        (12.0, None, 37.0, False),  # the slave has not reconnected yet
        (12.0, None, 60.0, True),
        (12.0, Fault("isolate", "broker-a-s", 30.0, 60.0), 60.0, False),  # and it cannot
        (60.0, None, 40.0, True),  # the master is still without power: it has written nothing else
    ],
)
def test_a_run_may_end_before_the_slave_follows_a_master_that_lost_records(
    seconds: float,
    other: Fault | None,
    cut_at: float | None,
    is_promised: bool,  # noqa: FBT001
) -> None:
    lost = Fault("power-loss", "broker-a", 20.0, seconds)
    case = Case(seed=1, profile="hardened", faults=(lost, other) if other else (lost,), cut_at=cut_at)

    assert bool(claims_for(case, ["same-log"])) is is_promised


def test_no_broker_starts_while_its_nameserver_is_away() -> None:
    away = Fault("kill", "namesrv-1", 20, 20)

    assert not is_possible([away, Fault("kill", "broker-a", 15, 10)])
    assert not is_possible([away, Fault("restart", "broker-a", 30, 0.0)])
    assert is_possible([away, Fault("kill", "broker-a", 25, 30), Fault("pause", "broker-a-s", 25, 10)])


def test_no_broker_stops_while_its_disk_is_slow() -> None:
    slow = Fault("slow-sync", "broker-a", 20, 20)

    assert not is_possible([slow, Fault("restart", "broker-a", 30, 0.0)])
    assert is_possible([slow, Fault("restart", "broker-a-s", 30, 0.0), Fault("kill", "broker-a", 30, 5.0)])


def test_a_member_starts_while_another_one_has_no_fault() -> None:
    kill = Fault("kill", "broker-a-n0", 20, 10)
    away = Fault("pause", "broker-a-n1", 25, 10)

    assert is_possible([kill, away])
    assert not is_possible([kill, away, Fault("isolate", "broker-a-n2", 40, 5)])
    assert not is_possible([kill, away, Fault("one-way", "broker-a-n0", 40, 5)])
    assert is_possible([kill, away, Fault("isolate", "broker-a-n2", 46, 5)])


def test_no_broker_starts_while_its_syncs_fail() -> None:
    failing = Fault("failing-sync", "broker-a", 20, 20)

    assert not is_possible([failing, Fault("kill", "broker-a", 15, 10)])
    assert not is_possible([failing, Fault("power-loss", "broker-a", 25, 16)])
    assert is_possible([failing, Fault("kill", "broker-a-s", 15, 10), Fault("kill", "broker-a", 25, 30)])


def test_a_case_may_end_with_its_faults_in_force() -> None:
    faults = (
        Fault("kill", "broker-a", 20, 10),
        Fault("consumer", "shop", 35, 20),
        Fault("isolate", "broker-a-s", 38, 60),
    )
    steps = scenario_values(Case(seed=1, faults=faults, cut_at=40))["step"]
    assert isinstance(steps, list)

    assert [step.get("at") for step in steps if "at" in step] == ["20 s", "30 s", "35 s", "38 s", "40 s"]
    assert [step["kill"] for step in steps[-2:]] == ["broker-a", "broker-a-s"]
    assert steps[-4]["stop-workload"] == "orders"
    assert not any("heal" in step or step.get("consume") == "shop-2" for step in steps)


def test_only_brokers_that_run_are_killed_at_the_end_of_a_cut_case() -> None:
    faults = (Fault("kill", "broker-a", 20, 60), Fault("pause", "broker-a-s", 20, 60))
    steps = scenario_values(Case(seed=1, faults=faults, cut_at=40))["step"]
    assert isinstance(steps, list)

    assert [step["kill"] for step in steps if "kill" in step] == ["broker-a", "broker-a-s"]
    assert steps[-1] == {"kill": "broker-a-s"}


def test_claims_about_the_end_are_not_judged_if_faults_are_in_force() -> None:
    wiped = Case(seed=1, faults=(Fault("wipe", "broker-a-s", 20, 10),), cut_at=25)

    names = {claim.name for claim in claims_for(wiped, CLAIMS)}
    assert not names & {"replicated", "same-log", "all-queued", "writes-return"}
    assert names >= {"nothing-lost", "queues-match", "no-crash"}


@pytest.mark.parametrize(
    ("load", "claims"),
    [
        ("plain", {"all-consumed", "reads-survive"}),
        ("orderly", {"all-consumed", "in-order"}),
        ("delayed", {"all-consumed", "reads-survive", "delays-end", "none-overdue"}),
        ("committed", {"all-consumed", "reads-survive", "halves-decided", "none-overdue"}),
        ("asked", {"all-consumed", "reads-survive", "halves-decided", "none-overdue"}),
    ],
)
def test_each_load_has_its_claims(load: str, claims: set[str]) -> None:
    about = {"all-consumed", "in-order", "reads-survive", "delays-end", "halves-decided", "none-overdue"}
    case = Case(seed=1, load=load, faults=(Fault("kill", "broker-a", FIRST_FAULT, 5.0),))

    judged = claims_for(case, CLAIMS)
    assert {claim.name for claim in judged} & about == claims
    review(bind_case(case, judged), is_single=False)


def test_a_sync_master_acknowledges_nothing_while_its_slave_is_dead() -> None:
    faults = (Fault("forged-report", "broker-a", 20, 0.0), Fault("kill", "broker-a-s", 25, 10))
    undone = Case(seed=1, faults=faults)
    cut = attrs.evolve(undone, cut_at=30.0)

    spans = [
        [(one["after"], one["before"]) for one in CLAIMS["not-alone"].expectations_for(case)] for case in (undone, cut)
    ]
    assert spans == [[("2: kill", "2: kill ends")], [("2: kill", "cut")]]
    assert claims_for(undone, ["not-alone"])
    assert not claims_for(attrs.evolve(undone, role="ASYNC_MASTER"), ["not-alone"])
    for case in (undone, cut):
        review(bind_case(case, claims_for(case, CLAIMS)), is_single=False)


def test_a_slave_that_lacks_the_common_part_need_not_follow() -> None:
    """Its full disk deletes the files that it would compare with its master's."""
    full, lost = Fault("disk-full", "broker-a-s", 20, 10), Fault("power-loss", "broker-a", 40, 5)

    assert claims_for(Case(seed=1, faults=(full,)), ["same-log", "writes-return"])
    assert not claims_for(Case(seed=1, faults=(full, lost)), ["same-log", "writes-return"])


def test_a_restarted_nameserver_must_have_routes_to_both_brokers() -> None:
    away, consumer = Fault("kill", "namesrv-1", 20, 5), Fault("consumer", "shop", 20, 15)
    case = Case(seed=1, faults=(away, consumer))

    expected = CLAIMS["routes-return"].expectations_for(case)
    assert [(one["where"]["broker_id"], one["after"]) for one in expected] == [(0, "1: kill ends"), (1, "1: kill ends")]
    review(bind_case(case, claims_for(case, CLAIMS)), is_single=False)
    for faults in (
        (away, attrs.evolve(consumer, seconds=14)),  # it ends before they have registered
        (away, Fault("kill", "broker-a", 40, 5)),
        (away, Fault("pause", "namesrv-1", 30, 10)),
        (consumer,),
    ):
        assert not claims_for(attrs.evolve(case, faults=faults), ["routes-return"])
    assert not claims_for(attrs.evolve(case, cut_at=90.0), ["routes-return"])


def test_some_long_cases_have_a_pair_of_moves_and_no_others() -> None:
    cases = [draw_case(seed, "hardened", KINDS) for seed in range(1, 61)]
    pairs = [case for case in cases if sorted(fault.kind for fault in case.faults) == ["consumer", "kill"]]

    assert {fault.target for case in pairs for fault in case.faults} == {"shop", "broker-a", "namesrv-1"}
    assert any(claims_for(case, ["offsets-copied"]) for case in pairs)
    assert any(claims_for(case, ["routes-return"]) for case in pairs)
    assert all(case.cut_at is None for case in pairs)


def test_a_pair_is_drawn_only_of_kinds_that_are_asked_for() -> None:
    cases = [draw_case(seed, "hardened", ["kill"]) for seed in range(1, 61)]
    assert {fault.kind for case in cases for fault in case.faults} == {"kill"}


OF_ACKNOWLEDGED = {"nothing-lost", "members-complete", "all-consumed", "explained"}
"""Claims about acknowledged messages of a DLedger group with plain messages."""


@pytest.mark.parametrize(
    ("profile", "kind", "judged"),
    [
        ("4.9", "kill", OF_ACKNOWLEDGED),
        ("4.9", "power-loss", set()),
        ("hardened", "power-loss", OF_ACKNOWLEDGED),
        ("hardened", "disk-full", {"nothing-lost", "explained"}),
    ],
)
def test_claims_about_acknowledged_messages_of_a_group(profile: str, kind: str, judged: set[str]) -> None:
    """Hardened members sync first. One whose disk is full deletes files."""
    case = Case(seed=1, profile=profile, mode=DLEDGER, faults=(Fault(kind, MEMBERS[0], 20.0, 10.0),))
    names = {claim.name for claim in claims_for(case, claims_in(DLEDGER))}
    assert names & OF_ACKNOWLEDGED == judged
