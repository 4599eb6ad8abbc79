"""The state of one member: role, term, vote, end of its log.

Section 4.1, class MemberState.
"""

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from rmqlab.dledger import keyvalues
from rmqlab.dledger.bodies import Message
from rmqlab.dledger.codes import DLedgerCode, DLedgerError
from rmqlab.dledger.group import GroupSettings
from rmqlab.store.files.disk import Disk, StoreCorrupt

TERM_FILE: Final = "currterm"
FAR_TERM: Final = 2**62
"""No group reaches this term: only a damaged or hostile member reports a greater one."""
LEAP: Final = 2**20
"""Maximum step to a term beyond `FAR_TERM`.

DLedger enters any term at once. After 2**63 - 1 its terms become negative, and its group never elects a leader again.
"""


class Role(enum.StrEnum):
    """Role of a member in its group. Every member starts as candidate."""

    CANDIDATE = "CANDIDATE"
    LEADER = "LEADER"
    FOLLOWER = "FOLLOWER"


@attrs.frozen
class Ballot:
    """Persistent state of a member: its term, and its vote in it."""

    term: int = 0
    voted_for: str | None = None


def load_ballot(disk: Disk, directory: Path) -> Ballot:
    """Return the ballot of the file `currterm`, or that of a new member.

    StoreCorrupt if the file is there and has no term; DLedger starts with term 0 then, and may vote twice.
    """
    path = directory / TERM_FILE
    if not disk.exists(path):
        return Ballot()
    pairs = keyvalues.load(disk, path)
    term = keyvalues.number(pairs, "currTerm", path, -1)
    if not 0 <= term < 2**63:
        found = pairs.get("currTerm", "")[:40] or "missing"
        raise StoreCorrupt(f"{path}: currTerm is {found}, expected a term; {path.name}.bak has the one before")
    return Ballot(term, pairs.get("voteLeader") or None)


def save_ballot(disk: Disk, directory: Path, ballot: Ballot) -> None:
    """Write and sync the file `currterm` (dledger#6). OSError.

    DLedger does not sync it: a member that forgets its vote in a power loss may vote twice in a term.
    """
    pairs: dict[str, str | int] = {"voteLeader": ballot.voted_for or "", "currTerm": ballot.term}
    keyvalues.save(disk, directory / TERM_FILE, pairs, is_synced=True)


@attrs.define
class Member:
    """Shared by the elector, the pusher and the owner of the log, who updates its end."""

    settings: GroupSettings
    save: Callable[[Ballot], None]
    """Receives each new ballot. Its owner sends nothing before it is durable (dledger#7)."""
    ballot: Ballot = Ballot()
    end_index: int = -1
    end_term: int = -1
    role: Role = Role.CANDIDATE
    leader_id: str | None = None
    known_max_term: int = -1
    """The greatest term that another member reported."""
    transferee: str | None = None
    """The member that a leader transfers its leadership to; appends fail meanwhile."""
    term_to_take: int = -1
    """The term in which this member was asked to become leader."""
    is_live: dict[str, bool] = attrs.field(factory=dict)
    """Whether the last heartbeat to a peer had a response."""
    _candidacy_before_start: int = attrs.field(init=False)
    """The term for which this member voted for itself before it started; -1 if there is none."""

    def __attrs_post_init__(self) -> None:
        self._candidacy_before_start = self.term if self.ballot.voted_for == self.self_id else -1

    @property
    def term(self) -> int:
        return self.ballot.term

    @property
    def self_id(self) -> str:
        return self.settings.self_id

    @property
    def is_leader(self) -> bool:
        return self.role is Role.LEADER

    @property
    def is_taking_leadership(self) -> bool:
        """True for a preferred leader in the term that it was asked to take (section 4.5)."""
        return self.term_to_take == self.term and self.self_id in self.settings.preferred_leader_ids

    @property
    def may_have_led(self) -> bool:
        """True if this member may have led the current term before it started.

        A power loss may have cost it entries of the term that others have. A second entry of the same index and term
        would count as equal in elections, so acknowledged entries could be replaced by lost ones.
        """
        return self._candidacy_before_start == self.term

    @property
    def has_voted_for_itself(self) -> bool:
        """True if this member's vote in its current term is its own."""
        return self.ballot.voted_for == self.self_id

    def check_recipient(self, request: Message) -> None:
        """Check that a request is for this member and group (dledger#13).

        DLedgerServer does so first. DLedgerError: UNKNOWN_MEMBER, UNKNOWN_GROUP.
        """
        if request.remote_id != self.self_id:
            raise DLedgerError(DLedgerCode.UNKNOWN_MEMBER, f"{request.remote_id} != {self.self_id}")
        if request.group != self.settings.group:
            raise DLedgerError(DLedgerCode.UNKNOWN_GROUP, f"{request.group} != {self.settings.group}")

    def vote_for(self, peer: str) -> None:
        """Vote in the current term."""
        self._set_ballot(Ballot(self.term, peer))

    def next_term(self) -> int:
        """Enter the next term, or the greatest that is known (dledger#16)."""
        if self.role is not Role.CANDIDATE:
            raise DLedgerError(DLedgerCode.ILLEGAL_MEMBER_STATE, f"{self.role} != CANDIDATE")
        self._set_ballot(Ballot(max(self.known_max_term, self.term + 1)))
        return self.term

    def _set_ballot(self, ballot: Ballot) -> None:
        self.ballot = ballot
        self.save(ballot)

    def become_leader(self) -> None:
        self.role, self.leader_id = Role.LEADER, self.self_id
        self.is_live.clear()

    def become_follower(self, leader_id: str) -> None:
        self.role, self.leader_id, self.transferee = Role.FOLLOWER, leader_id, None

    def become_candidate(self, term: int) -> None:
        """Stop leading or following. The term itself is raised later, by `next_term`."""
        reachable = max(FAR_TERM, self.term + LEAP)
        self.known_max_term = max(self.known_max_term, min(term, reachable))
        self.role, self.leader_id, self.transferee = Role.CANDIDATE, None, None
