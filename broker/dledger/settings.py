"""Settings of a member: RocketMQ's keys in snake_case (section 8.1)."""

import re
from typing import Any

import attrs

from rmqlab.dledger.group import GroupSettings, PeersError, parse_peers
from rmqlab.runtime.config.validators import FIXED, is_address, one_line_texts, shown

_NUMBER = re.compile(r"[0-9]{1,9}")


@attrs.frozen(kw_only=True, field_transformer=one_line_texts)
class DLedgerConfig:
    """Whether the commit log is that of a group, and which one."""

    enable_dleger_commit_log: bool = attrs.field(default=False, metadata=FIXED)
    """RocketMQ's spelling. True makes this broker a member of a DLedger group."""
    d_leger_group: str = attrs.field(default="", metadata=FIXED)
    """The group's name; in RocketMQ's examples it is the brokerName."""
    d_leger_peers: str = attrs.field(default="", metadata=FIXED)
    """All members, this one included: `n0-HOST:PORT;n1-HOST:PORT;n2-HOST:PORT`."""
    d_leger_self_id: str = attrs.field(default="", metadata=FIXED)
    """The id of this member, a letter and a number: `n0`."""
    preferred_leader_id: str = ""
    """Members that are to lead, if they can, separated by `;`."""
    is_enable_batch_push: bool = False
    """Push several entries at once, while this member leads. RocketMQ shows it by this name and reads it as
    `enableBatchPush`; here both are read."""

    # ---- ours ----

    dleger_ack_after_sync: bool = attrs.field(default=False, metadata=FIXED)
    """A member acknowledges entries once they are on its disk; DLedger's are lost if a majority loses power."""

    def __attrs_post_init__(self) -> None:
        if self.enable_dleger_commit_log:
            self.group()

    @property
    def number(self) -> int:
        """The broker's id while it does not lead: the number in its self id plus 1."""
        return int(self.d_leger_self_id[1:]) + 1

    @property
    def own_address(self) -> str:
        """`HOST:PORT` at which this member listens for the others."""
        return parse_peers(self.d_leger_peers)[self.d_leger_self_id]

    def group(self) -> GroupSettings:
        """Return the group. ValueError if the settings describe none."""
        if not self.d_leger_group.strip():
            raise ValueError("d_leger_group is empty: expected the name of the DLedger group")
        if not _NUMBER.fullmatch(self.d_leger_self_id[1:]):
            raise ValueError(
                f"d_leger_self_id = {shown(self.d_leger_self_id)}: expected a letter and a number, such as n0"
            )
        try:
            peers = parse_peers(self.d_leger_peers)
            group = GroupSettings(
                group=self.d_leger_group,
                self_id=self.d_leger_self_id,
                peers=peers,
                ack_after_sync=self.dleger_ack_after_sync,
                enable_batch_push=self.is_enable_batch_push,
                preferred_leader_ids=tuple(filter(None, self.preferred_leader_id.split(";"))),
            )
        except PeersError as exc:
            raise ValueError(f"d_leger_peers: {exc}") from None
        for peer, address in peers.items():
            if not is_address(address):
                raise ValueError(f"d_leger_peers: {peer} has the address {shown(address)}: expected HOST:PORT")
        if len(peers) % 2 == 0:
            raise ValueError(
                f"d_leger_peers has {len(peers)} members: expected an odd number, for a group of {len(peers)}"
                f" survives the loss of no more members than one of {len(peers) - 1}"
            )
        for peer in group.preferred_leader_ids:
            if peer not in peers:
                raise ValueError(f"preferred_leader_id: {peer} is not among the members {', '.join(peers)}")
        return group

    def has_no_effect(self) -> list[str]:
        """Return the names of group settings that are set without a group."""
        if self.enable_dleger_commit_log:
            return []
        fields: tuple[attrs.Attribute[Any], ...] = attrs.fields(DLedgerConfig)
        named = [field.name for field in fields if getattr(self, field.name)]
        return [name for name in named if name != "dleger_ack_after_sync"]  # a profile sets it for all brokers
