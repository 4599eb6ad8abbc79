"""Roles over time: promotions, demotions, and masters beside each other."""

from collections.abc import Mapping
from typing import Any

from rmqlab.verdict.roles import Pair, Roles

A, S, S2 = "broker-a", "broker-a-s", "broker-a-s2"


def ready(at: int, node: str, broker_id: int) -> tuple[int, str, str, Mapping[str, Any]]:
    return at, node, "node_ready", {"broker_name": "broker-a", "broker_id": broker_id}


def killed(at: int, node: str) -> tuple[int, str, str, Mapping[str, Any]]:
    return at, node, "node_killed", {}


STARTED = [ready(10, A, 0), ready(20, S, 1), (5, "namesrv-1", "node_ready", {})]
PROMOTED = [*STARTED, killed(100, A), ready(200, S, 0)]


def test_without_changes_there_is_one_pair_from_the_beginning_whatever_restarts() -> None:
    roles = Roles.of([*STARTED, killed(100, A), ready(200, A, 0), killed(300, S), ready(400, S, 1)])
    assert roles.pairs == (Pair(S, A, 0),)
    assert roles.followers == {S: A}
    assert (roles.id_at(S, 0), roles.id_at(A, 999), roles.id_at("namesrv-1", 10)) == (1, 0, None)
    assert roles.contested == frozenset()


def test_names_are_those_of_all_times_and_need_no_broker_id() -> None:
    renamed = (30, A, "node_ready", {"broker_name": "broker-c", "broker_id": 0})
    member = (40, S2, "member_role_changed", {"broker_name": "raft", "broker_id": 1})
    roles = Roles.of([*STARTED, renamed, member, (50, "broker-d", "node_ready", {"broker_name": "broker-x"})])
    names = {A: {"broker-a", "broker-c"}, S: {"broker-a"}, S2: {"raft"}, "broker-d": {"broker-x"}}
    assert roles.names == names
    assert roles.names_of(A) == names[A]
    assert roles.names_of("unstarted") == {"unstarted"}
    assert roles.renamed == names[A]


def test_a_promotion_ends_a_pair_and_makes_the_old_master_a_follower() -> None:
    roles = Roles.of(PROMOTED)
    assert roles.pairs == (Pair(S, A, 0, 200),)
    assert (roles.master_at("broker-a", 199), roles.master_at("broker-a", 200)) == (A, S)
    assert (roles.slaves_at("broker-a", 199), roles.slaves_at("broker-a", 200)) == ([S], [])
    assert roles.followers == {A: S}
    assert roles.contested == frozenset()


def test_masters_act_one_after_the_other() -> None:
    assert Roles.of(STARTED).masters_over_time("broker-a") == [(A, 0, None)]
    assert Roles.of(PROMOTED).masters_over_time("broker-a") == [(A, 0, 200), (S, 200, None)]
    back = Roles.of([*PROMOTED, ready(300, A, 1), ready(400, S, 1), ready(500, A, 0)])
    assert back.masters_over_time("broker-a") == [(A, 0, 200), (S, 200, 400), (A, 500, None)]


def test_a_target_means_the_nodes_that_have_the_role_at_the_time() -> None:
    roles = Roles.of(PROMOTED)
    assert roles.resolve_target("broker-a:slave", 199) == [S]
    assert roles.resolve_target("broker-a:master", 199) == [A]
    assert roles.resolve_target("broker-a:slave", 200) == []
    assert roles.resolve_target("broker-a:master", 200) == [A, S]
    assert roles.resolve_target("namesrv-1", 200) == ["namesrv-1"]
    assert roles.resolve_target("broker-a:*", 199) == [A, S]
    assert roles.resolve_target("namesrv-1,broker-a:slave broker-a:*", 199) == ["namesrv-1", S, A]


def test_a_demoted_master_is_the_slave_of_the_new_one() -> None:
    roles = Roles.of([*PROMOTED, ready(300, A, 1)])
    assert roles.pairs == (Pair(S, A, 0, 200), Pair(A, S, 300))
    assert roles.followers == {A: S}
    assert roles.contested == frozenset()


def test_the_other_slave_gets_another_master_at_once() -> None:
    roles = Roles.of([*STARTED, ready(30, S2, 2), killed(100, A), ready(200, S, 0)])
    assert set(roles.pairs) == {Pair(S, A, 0, 200), Pair(S2, A, 0, 200), Pair(S2, S, 200)}
    assert roles.followers == {A: S, S2: S}


def test_a_former_master_that_runs_after_the_promotion_is_a_second_one() -> None:
    assert Roles.of([*PROMOTED, ready(300, A, 0)]).contested == {"broker-a"}
    assert Roles.of([*PROMOTED, ready(300, A, 0), killed(400, A)]).contested == {"broker-a"}
    never_gone = [*STARTED, ready(200, S, 0)]  # a paused master was passed over
    assert Roles.of(never_gone).contested == {"broker-a"}
    assert Roles.of([*never_gone, killed(900, A)]).contested == {"broker-a"}
    assert Roles.of([*PROMOTED, ready(300, A, 0), killed(310, A), ready(320, A, 1)]).contested


def test_a_group_without_a_master_has_no_pairs() -> None:
    roles = Roles.of([*STARTED, killed(100, A), ready(200, A, 2)])
    assert roles.pairs == (Pair(S, A, 0, 200),)
    assert roles.followers == {}
    assert roles.master_at("broker-a", 200) is None
