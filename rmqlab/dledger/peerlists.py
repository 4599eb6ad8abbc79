"""Compares the lists of peers that the members of a group were configured with.

DLedger never compares them: members with different lists reject each other's votes and heartbeats (401), and nothing
names the cause. Every member serves its list as METADATA, so ours requests it from each peer periodically.
"""

from collections.abc import Mapping
from typing import Final

import attrs

from rmqlab.dledger.bodies import MetadataRequest, MetadataResponse
from rmqlab.dledger.codes import DLedgerCode
from rmqlab.dledger.group import GroupSettings

LONGEST_LIST: Final = 300
"""Characters of a peer's list that are shown."""
RETRY_MS: Final = 2000
"""Time until the next request to a peer that did not respond."""
REPEAT_MS: Final = 30_000
"""Time until the next request to a peer that responded: it may have restarted with another list."""


@attrs.define
class PeerLists:
    """Faults of the lists of peers, by the id of the peer."""

    settings: GroupSettings
    faults: dict[str, str] = attrs.field(factory=dict)
    _due: dict[str, int] = attrs.field(init=False)
    """When to ask each peer."""

    def __attrs_post_init__(self) -> None:
        self._due = {peer: 0 for peer in self.settings.peers if peer != self.settings.self_id}

    @property
    def wake_at(self) -> int | None:
        """Time of the next `take_due`. None without peers."""
        return min(self._due.values(), default=None)

    def take_due(self, now: int) -> list[str]:
        """Return the peers to ask now."""
        due = [peer for peer, at in self._due.items() if at <= now]
        for peer in due:
            self._due[peer] = now + REPEAT_MS
        return due

    def request(self, peer: str) -> MetadataRequest:
        """Return the request for a peer's list."""
        settings = self.settings
        return MetadataRequest(group=settings.group, local_id=settings.self_id, remote_id=peer)

    def note(self, peer: str, response: MetadataResponse | None, now: int) -> None:
        """Compare a peer's list with the own one.

        None after an error: it is asked again soon.
        """
        if response is None:
            self._due[peer] = now + RETRY_MS
            return
        fault = self._fault(peer, response)
        if fault is None:
            self.faults.pop(peer, None)
        else:
            self.faults[peer] = fault

    def _fault(self, peer: str, response: MetadataResponse) -> str | None:
        settings = self.settings
        match response.dledger_code:
            case DLedgerCode.SUCCESS if response.peers == settings.peers:
                return None
            case DLedgerCode.SUCCESS:
                there, here = _text(response.peers or {}), _text(settings.peers)
                return f"d_leger_peers of {peer} differs: {there} there, {here} here; expected one list on all members"
            case DLedgerCode.UNKNOWN_MEMBER:
                return f"d_leger_peers names {settings.peers[peer]} as {peer}; another member listens there"
            case DLedgerCode.UNKNOWN_GROUP:
                return f"the member at {settings.peers[peer]} is not of group {settings.group}: d_leger_group differs"
            case _:
                return None  # it serves no list


def _text(peers: Mapping[str, str]) -> str:
    """Return a list as a setting has it, quoted, escaped and cut to a limit."""
    text = ";".join(f"{peer}-{address}" for peer, address in sorted(peers.items()))
    return repr(text if len(text) <= LONGEST_LIST else f"{text[:LONGEST_LIST]}...")
