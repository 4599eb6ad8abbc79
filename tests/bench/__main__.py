"""Benchmark of rmqlab and real RocketMQ side by side: `python -m tests.bench`.

Both run in one session on one machine, and nothing is judged. Absolute figures move with the machine and its load; the
ratios are what to look at. Needs a JDK and Maven, unless only density, growth and cli are measured.
"""

import argparse
import contextlib
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench import (
    against,
    batches,
    catchup,
    commands,
    consume,
    density,
    growth,
    longpoll,
    recovery,
    sends,
    startup,
    tables,
)
from tests.interop import maven
from tests.interop.java import Java
from tests.interop.ours import our_cluster
from tests.interop.realrocketmq import real_cluster
from tests.interop.topology import Cluster

SUBJECTS = ("start", "idle", "longpoll", "sends", "batch", "consume", "catchup", "recovery", "density", "growth", "cli")
OURS = {"density", "growth", "cli"}
"""Subjects that have no real counterpart: they need neither a JDK nor Maven."""
_AT_BOTH = {"idle", "longpoll", "sends", "batch", "consume"}
_HEAP = "1g"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of each, shorter: minutes, not a quarter hour")
    parser.add_argument("--only", choices=SUBJECTS, action="append", help="this subject; repeatable")
    parser.add_argument("--large", action="store_true", help="growth: also 10 million messages, density: 501 nodes")
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="print what is over 10 %% worse than in this bench.json"
    )
    parser.add_argument("--output", type=Path, default=Path("build/bench"), help="where bench.md and bench.json go")
    arguments = parser.parse_args()
    wanted = arguments.only or SUBJECTS
    kept = _kept(arguments.against)
    if not OURS.issuperset(wanted) and (missing := maven.missing_tools()):
        sys.exit(f"not run: {', '.join(missing)} not found (a JDK 11+ and Maven are needed)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))  # or what it has started would run on
    with tempfile.TemporaryDirectory(prefix="rmqlab-bench-") as directory:
        subjects = [subject for subject in SUBJECTS if subject in wanted]
        place = Path(directory)
        found = [] if OURS.issuperset(subjects) else run(place, subjects, quick=arguments.quick)
        found += measure_ours(place, subjects, quick=arguments.quick, large=arguments.large)
    tables.write(found, arguments.output)
    print("\n" + "\n".join(table.markdown() for table in found))
    print(f"written to {arguments.output}/bench.md and bench.json")
    if kept is not None:
        print("\n" + against.compare(kept, found).markdown())


def _kept(path: Path | None) -> list[dict[str, Any]] | None:
    """Return the kept tables.

    Called before anything is measured: a wrong file should not cost a quarter hour.
    """
    try:
        return None if path is None else against.read_kept(path)
    except against.KeptResultError as exc:
        sys.exit(f"--against {exc}")


def run(directory: Path, subjects: list[str], *, quick: bool) -> list[tables.Table]:
    java = Java(directory)
    found = []
    if "start" in subjects:
        print("start", flush=True)
        found.append(startup.measure_start(java, directory, rounds=1 if quick else 5))
    if _AT_BOTH & set(subjects):
        with _both(java, directory / "both") as systems:
            found += _measure_both(java, systems, subjects, quick=quick)
    if "catchup" in subjects:
        print("catch-up", flush=True)
        megabytes, rounds = (200, 1) if quick else (2000, 3)
        found.append(catchup.measure(java, directory / "catchup", megabytes=megabytes, rounds=rounds))
    if "recovery" in subjects:
        print("recovery", flush=True)
        megabytes, rounds = (200, 1) if quick else (1000, 3)
        found.append(recovery.measure(java, directory / "recovery", megabytes=megabytes, rounds=rounds))
    return found


def measure_ours(directory: Path, subjects: list[str], *, quick: bool, large: bool) -> list[tables.Table]:
    """What has no real counterpart."""
    found = []
    if "density" in subjects:
        print("density", flush=True)
        groups = (1, 10) if quick else (1, 10, 50, *((250,) if large else ()))
        found.append(density.measure(directory, groups=groups))
    if "growth" in subjects:
        print("growth", flush=True)
        messages = growth.MESSAGES[:2] if quick else (*growth.MESSAGES, *((10**7,) if large else ()))
        topics, brokers = (growth.TOPICS[:2], (1, 10)) if quick else (growth.TOPICS, growth.BROKERS)
        found += growth.measure(directory, messages, topics, brokers)
    if "cli" in subjects:
        print("commands", flush=True)
        found.append(commands.measure(directory, rounds=3 if quick else 11))
    return found


def _measure_both(java: Java, systems: dict[str, Cluster], subjects: list[str], *, quick: bool) -> list[tables.Table]:
    """What is asked of both systems while both are up.

    Memory comes first: the others leave some behind.
    """
    found = []
    warm_up, turns = (3, 7) if quick else (10, 31)
    if "idle" in subjects:
        found.append(startup.measure_idle(systems))
    if "longpoll" in subjects:
        print("long polls", flush=True)
        found.append(longpoll.measure(systems))
    if "sends" in subjects:
        print("sends", flush=True)
        found.append(sends.measure(java, systems, warm_up=warm_up, turns=turns))
    if "batch" in subjects:
        print("batches", flush=True)
        found.append(batches.measure(java, systems, warm_up=warm_up, turns=turns))
    if "consume" in subjects:
        print("consume", flush=True)
        messages, rounds = (200_000, 1) if quick else (1_000_000, 3)
        found.append(consume.measure(java, systems, messages=messages, rounds=rounds))
    return found


@contextlib.contextmanager
def _both(java: Java, directory: Path) -> Iterator[dict[str, Cluster]]:
    """Yield both clusters with default settings, running at the same time.

    The idle one costs nearly nothing.
    """
    directory.mkdir()
    with real_cluster(java, directory, settings={}, heap=_HEAP) as real, our_cluster(directory) as ours:
        yield {"real": real, "ours": ours}


if __name__ == "__main__":
    main()
