"""Random schedules of faults: no invariant of Raft breaks.

Each of some planted bugs breaks one.
"""

from collections.abc import Callable

import msgspec
import pytest

from rmqlab.dledger.bodies import VoteRequest
from rmqlab.dledger.codes import VoteResult
from rmqlab.dledger.elector import Elector
from rmqlab.dledger.member import Member
from tests.dledger.faultschedule import play
from tests.dledger.raftinvariants import InvariantError
from tests.dledger.volatiledisk import VolatileDisk

Plant = Callable[[pytest.MonkeyPatch], None]
decide = Elector._decide


@pytest.mark.parametrize("seed", range(8))
def test_a_schedule_of_faults_breaks_nothing(seed: int) -> None:
    """dledger#20, #41: `python -m tests.dledger.faultschedule` plays thousands."""
    assert play(seed).group.invariants.acknowledged > 0


@pytest.mark.parametrize("seed", [2, 5, 6])
def test_files_may_expire_at_any_time(seed: int) -> None:
    """Also with entries that no quorum has acknowledged yet."""
    assert play(seed, expires=True).group.invariants.acknowledged > 0


def lead_again(patch: pytest.MonkeyPatch) -> None:
    """A restarted member leads its old term again, as in DLedger."""
    patch.setattr(Member, "may_have_led", False)


def forget_ballots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tests.dledger.faultynode.save_ballot", lambda *_arguments: None)


def leave_ballots_unsynced(patch: pytest.MonkeyPatch) -> None:
    """A power loss brings an earlier ballot back, as in DLedger."""
    patch.setattr(VolatileDisk, "sync_directory", lambda *_arguments: None)


def vote_for_shorter_logs(patch: pytest.MonkeyPatch) -> None:
    def decide_by_terms(elector: Elector, request: VoteRequest, candidate: str, *, is_own: bool) -> VoteResult:
        longest = msgspec.structs.replace(request, ledger_end_term=2**40)
        return decide(elector, longest, candidate, is_own=is_own)

    patch.setattr(Elector, "_decide", decide_by_terms)


@pytest.mark.parametrize(
    ("plant", "seed", "found"),
    [
        (lead_again, 1, "term 2 has two leaders: n1#1 and n1#2"),
        (forget_ballots, 1, "term 2 has two leaders: n1#1 and n1#2"),
        (leave_ballots_unsynced, 2, "term 3 has two leaders"),
        (vote_for_shorter_logs, 1, "leads without entry"),
    ],
)
def test_a_planted_bug_breaks_an_invariant(
    plant: Plant, seed: int, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(InvariantError, match=found):
        play(seed)
