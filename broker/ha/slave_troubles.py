"""Troubles that slaves reported, with `ha_report_trouble`.

A master itself sees only that a connection ended. The reported text goes into the remarks of sends that miss a copy. A
trouble is forgotten once its slave is back, or if the slave does not repeat it for LIFETIME.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

import attrs

from rmqlab.runtime.text.printable import printable

log = logging.getLogger(__name__)

MAX_TEXT: Final = 200
"""Characters of a reported text."""
_MAX_NAME: Final = 60
LIFETIME: Final = 60.0
"""Seconds. A slave in trouble connects again every few seconds, fails again, and repeats its report."""
LEAST_INTERVAL: Final = 0.5
"""Seconds between two reports of one slave; a slave of ours leaves twice as much."""
_MOST_SLAVES: Final = 64
_MOST_IN_REMARK: Final = 4


def one_line(text: str) -> str:
    """Return a text as it is reported and shown: printable, and of limited length."""
    return printable(text)[:MAX_TEXT]


@attrs.frozen
class Trouble:
    """The last report of one slave."""

    broker_id: int
    slave: str
    """The slave's own name: after a promotion by hand, the name does not follow from the id."""
    host: str
    text: str
    at: float

    def __str__(self) -> str:
        return f"slave {self.slave}: {self.text}"


@attrs.define(eq=False)
class SlaveTroubles:
    """The troubles of one master's slaves, by broker id."""

    emit: Callable[..., None]
    now: Callable[[], float]
    _known: dict[int, Trouble] = attrs.field(factory=dict, init=False)
    _reported_at: dict[tuple[str, int], float] = attrs.field(factory=dict, init=False)

    def admit(self, host: str, broker_id: int) -> bool:
        """Return False if a slave reports too soon again, or if too many slaves report."""
        now = self.now()
        self._reported_at = {key: at for key, at in self._reported_at.items() if now - at < LEAST_INTERVAL}
        if (host, broker_id) in self._reported_at or len(self._reported_at) >= _MOST_SLAVES:
            return False
        self._reported_at[host, broker_id] = now
        return True

    def note(self, broker_id: int, slave: str, host: str, text: str) -> None:
        """Accept a slave's report. The newest of a slave replaces those before."""
        known = self._known.pop(broker_id, None)
        trouble = Trouble(broker_id, one_line(slave)[:_MAX_NAME], host, one_line(text), self.now())
        if known is None or known.text != trouble.text:
            log.warning("%s", trouble)
            self.emit("slave_trouble", slave=trouble.slave, text=trouble.text)
        while len(self._known) >= _MOST_SLAVES:
            del self._known[next(iter(self._known))]
        self._known[broker_id] = trouble

    def forget(self, host: str, since: float) -> None:
        """Forget troubles of a host from before this time: it replicates again."""
        for trouble in [one for one in self._known.values() if one.host == host and one.at < since]:
            del self._known[trouble.broker_id]
            log.info("slave %s replicates again", trouble.slave)
            self.emit("slave_recovered", slave=trouble.slave)

    def current(self) -> list[Trouble]:
        """Return the troubles that are not forgotten, the oldest first."""
        now = self.now()
        self._known = {broker_id: one for broker_id, one in self._known.items() if now - one.at < LIFETIME}
        return list(self._known.values())

    def remark(self, host: str | None = None) -> str:
        """Return the newest troubles as part of a remark: of all slaves, or of one host.

        Empty without troubles.
        """
        troubles = [one for one in self.current() if host in (None, one.host)]
        return "; ".join(map(str, troubles[-_MOST_IN_REMARK:]))

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the troubles for the node's snapshot, with their age in seconds."""
        now = self.now()
        return [
            {"broker_id": one.broker_id, "slave": one.slave, "text": one.text, "seconds": round(now - one.at, 3)}
            for one in self.current()
        ]
