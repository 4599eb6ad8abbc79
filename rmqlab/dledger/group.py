"""Settings of a group and its members, with DLedger's defaults.

Sections 4.1, 5.1; class DLedgerConfig.
"""

import attrs


class PeersError(ValueError):
    """The list of peers does not describe a group with this member."""


def parse_peers(text: str) -> dict[str, str]:
    """Return addresses by id from `n0-host:port;n1-host:port` (dledger#15).

    The id ends at the first `-`. PeersError for an entry without id or address, or an id that is listed twice.
    """
    peers: dict[str, str] = {}
    for part in filter(None, text.split(";")):
        peer, _, address = part.partition("-")
        if not peer or not address:
            raise PeersError(f"peer {part!r}, expected ID-HOST:PORT such as n0-127.0.0.1:40911")
        if peer in peers:
            raise PeersError(f"peer {peer} is listed twice in {text!r}")
        peers[peer] = address
    return peers


@attrs.frozen(kw_only=True)
class GroupSettings:
    """A member's view of its group. Times in ms."""

    group: str
    self_id: str
    peers: dict[str, str]
    """Addresses by id, with this member's own."""
    preferred_leader_ids: tuple[str, ...] = ()
    heart_beat_time_interval_ms: int = 2000
    max_heart_beat_leak: int = 3
    min_vote_interval_ms: int = 300
    max_vote_interval_ms: int = 1000
    min_take_leadership_vote_interval_ms: int = 30
    max_take_leadership_vote_interval_ms: int = 100
    vote_wait_ms: int = 2000
    """A round of votes ends this long, and up to `max_vote_interval_ms` longer, after it began."""
    ack_after_sync: bool = False
    """A member acknowledges entries that are on its disk; in DLedger, those in its memory."""
    enable_batch_push: bool = False
    """Several entries in one push."""
    max_batch_push_size: int = 4 * 1024
    """Bytes of entries at which a batch is sent."""
    peer_push_throttle_point: int = 300 * 1024 * 1024
    """Bytes that a peer is behind before its pushes are limited."""
    peer_push_quota: int = 20 * 1024 * 1024
    """Bytes per second to such a peer."""

    def __attrs_post_init__(self) -> None:
        if self.self_id not in self.peers:
            raise PeersError(f"{self.self_id} is not among the peers {', '.join(self.peers)}")

    @property
    def quorum(self) -> int:
        """The majority of all members."""
        return len(self.peers) // 2 + 1

    @property
    def others(self) -> list[str]:
        """The ids of all members but this one."""
        return [peer for peer in self.peers if peer != self.self_id]

    @property
    def leader_timeout_ms(self) -> int:
        """Longest silence of a leader, and longest time of a leader without quorum."""
        return self.max_heart_beat_leak * self.heart_beat_time_interval_ms
