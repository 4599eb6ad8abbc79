"""Load in turns: one system's client runs while those of the others are paused.

A shared machine gives twice the speed in one minute that it gives in the next. Turns of a second, side by side,
and the median of the ratios of neighbours see through that; runs of a minute each do not.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping

import attrs

from tests.bench.process import cpu_seconds
from tests.bench.tables import OURS_US, RATIO, Cell, Table, median
from tests.interop import rawrequest
from tests.interop.child import Child
from tests.interop.topology import Cluster

TURN = 1.0
"""Seconds. A client that is stopped for longer than its time-out of 3 s would find its sends failed: two turns of
another must fit in, since the order changes."""
_SETTLE = 0.2  # seconds from a client's waking until its turn counts


@attrs.frozen
class Turn:
    """What one system did in its turn."""

    rate: float
    """Messages put a second."""
    master_us: float
    """Microseconds of the master's CPU a message: less at the mercy of other load than a rate is."""


def take_turns(
    systems: Mapping[str, Cluster], clients: Mapping[str, Child], *, warm_up: int, turns: int
) -> dict[str, list[Turn]]:
    """Each system's turns, in order. The first `warm_up` rounds do not count."""
    with contextlib.ExitStack() as stack:
        for client in clients.values():
            stack.enter_context(_stopped(client))
        taken: dict[str, list[Turn]] = {name: [] for name in systems}
        for turn in range(warm_up + turns):
            for name in _order(list(systems), turn):
                found = _take_turn(systems[name], clients[name])
                if turn >= warm_up:
                    taken[name].append(found)
            if turn >= warm_up:
                print("  " + ", ".join(f"{name} {found[-1].rate:,.0f}" for name, found in taken.items()), flush=True)
        return taken


def rate_ratio(ours: list[Turn], real: list[Turn]) -> float:
    """The median of the ratios of turns that followed each other."""
    return round(median([mine.rate / other.rate for mine, other in zip(ours, real, strict=True)]), 2)


def compare(
    title: str,
    what: str,
    taken: Mapping[str, dict[str, list[Turn]]],
    failures: Mapping[str, Mapping[str, int]],
    notes: str,
) -> Table:
    """Return a row per varied thing.

    Its cells are rates of the systems, ratio, CPU of the masters, failed sends.
    """
    rows: list[list[Cell]] = []
    for varied, turns in taken.items():
        rates = [round(median([turn.rate for turn in turns[name]])) for name in ("real", "ours")]
        costs = [median([turn.master_us for turn in turns[name]]) for name in ("real", "ours")]
        rows.append([varied, *rates, rate_ratio(turns["ours"], turns["real"]), *costs])
        rows[-1] += [failures[varied][name] for name in ("real", "ours")]
    samples = {
        f"{name} {varied}": list(map(attrs.astuple, one)) for varied, its in taken.items() for name, one in its.items()
    }
    columns = [what, "real", "ours", "ratio", "real: master's CPU, us a message", "ours"]
    columns += ["real: failed sends", "ours"]
    return Table(title, columns, rows, notes, samples, {RATIO: "more", OURS_US: "less"})


def _order(names: list[str], turn: int) -> list[str]:
    """Return the systems in alternating order."""
    return names if turn % 2 else names[::-1]


def _take_turn(cluster: Cluster, client: Child) -> Turn:
    client.check_running()
    os.kill(client.pid, signal.SIGCONT)
    try:
        time.sleep(_SETTLE)
        began, cpu, put = time.monotonic(), *_spent(cluster)
        time.sleep(TURN)
        seconds, cpu_after, put_after = time.monotonic() - began, *_spent(cluster)
    finally:
        os.kill(client.pid, signal.SIGSTOP)
    count = put_after - put
    return Turn(count / seconds, (cpu_after - cpu) / max(count, 1) * 1e6)


def _spent(cluster: Cluster) -> tuple[float, int]:
    """CPU seconds of the master so far, and messages put."""
    _, master, _ = cluster.pids.values()
    return cpu_seconds(master), int(rawrequest.runtime_info(cluster.master.address)["putMessageTimesTotal"])


@contextlib.contextmanager
def _stopped(client: Child) -> Iterator[None]:
    """The client has been stopped.

    In the end it runs again, so that it can be ended in order.
    """
    os.kill(client.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        if client.is_running:
            os.kill(client.pid, signal.SIGCONT)
