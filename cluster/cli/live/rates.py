"""Rates of a cluster from its latest status documents. Pure."""

import collections
from collections.abc import Mapping
from typing import Any, Final

import attrs

Document = Mapping[str, Any]

DOCUMENTS: Final = 10
"""Status documents that a rate is the mean over: about the last five seconds."""


@attrs.define
class Rates:
    """How fast totals grow: messages of clients, bytes of the logs of brokers."""

    _samples: collections.deque[tuple[int, Mapping[str, int]]] = attrs.field(
        factory=lambda: collections.deque(maxlen=DOCUMENTS), init=False
    )

    def add(self, document: Document) -> None:
        """Add a newer status document."""
        totals = {node["name"]: total for node in document["nodes"] if (total := _total(node)) is not None}
        self._samples.append((document["clock_millis"], totals))

    def by_node(self) -> dict[str, float]:
        """Return messages or bytes per second of the cluster's clock, by node.

        A node without two totals, or that has begun again, is left out.
        """
        if not self._samples:
            return {}
        end, totals = self._samples[-1]
        rates = {}
        for name, total in totals.items():
            begin, before = next((at, known[name]) for at, known in self._samples if name in known)
            if end > begin and total >= before:
                rates[name] = (total - before) / (end - begin) * 1000
        return rates


def _total(node: Document) -> int | None:
    """Return the messages sent or delivered so far, or the end of the log."""
    if node["kind"] == "workload":
        messages = node.get("messages") or {}
        counts: list[int] = [n for kind, n in messages.items() if kind.startswith("sent.") or kind == "delivered"]
        return sum(counts)
    end: int | None = (node.get("commit_log") or {}).get("max")
    return end
