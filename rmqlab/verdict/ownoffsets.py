"""Decides whether a slave replaced a consumer offset that it has to keep. Pure.

With `keep_newer_consumer_offsets` a slave keeps what consumers committed to it until its master has as much, and what a
restarted master has lost. So a lower offset of the master replaces such a commit only if another commit, or a request
of an operator, moved the master's offset back.
"""

from collections.abc import Iterable
from typing import Final

import attrs

from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.nodesettings import KEEPING_KEYS, Settings
from rmqlab.verdict.roles import MASTER_ID, ROLE_KINDS, Roles

_UNREADABLE: Final = "the slave's config.toml, which says whether it keeps newer offsets, cannot be read"
_CHANGED: Final = (
    "brokers had, or got while the cluster ran, settings of their own, so the slave may have kept no newer offsets then"
)
NO_RECEIVER: Final = "the journal does not name the broker that received the last commit before an offset was replaced"


def why_unknown(settings: Settings | None, conditions: Conditions) -> str:
    """Return why replaced offsets of a slave are no evidence; empty if they are.

    `settings` are the slave's last ones; None if they cannot be read.
    """
    if settings is None:
        return _UNREADABLE
    return "" if conditions.changed_settings.isdisjoint(KEEPING_KEYS) else _CHANGED


@attrs.frozen(kw_only=True)
class OwnOffsetRule:
    """The facts about nodes that the decision rests on."""

    roles: Roles
    changes: frozenset[tuple[str, int]]
    """Nodes and times of their starts, ends and changes of role: a slave forgets then what was committed to it."""

    @classmethod
    def of(cls, roles: Roles, events: Iterable[tuple[int, str, str]]) -> "OwnOffsetRule":
        """Read events as (time, node, kind)."""
        return cls(roles=roles, changes=frozenset((node, at) for at, node, kind in events if kind in ROLE_KINDS))

    def applies(self, slave: str, *, receiver: int | None, committed_at: int, replaced_at: int) -> bool:
        """Return True if a slave had to keep a commit until it replaced it.

        `receiver` is the broker id that the commit was sent to; None if its journal does not name it: then the slave
        may have been the receiver. Times are milliseconds of the cluster's clock.
        """
        own_id = self.roles.id_at(slave, committed_at)
        is_own = own_id not in (None, MASTER_ID) and receiver in (None, own_id)
        return is_own and not any(node == slave and committed_at <= at <= replaced_at for node, at in self.changes)
