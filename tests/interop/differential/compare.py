"""Plays one corpus at a real cluster and at ours, and prints the differences.

Run it: `python -m tests.interop.differential.compare frames`, or `... walk --seed 7`,
`... nameserver-walk --seed 7`. It is for investigations. Frames
take ten minutes, because each one without a reply is waited for; so they are in no test.
"""

import argparse
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.interop.differential import (
    corpus_admin,
    corpus_frames,
    corpus_nameserver,
    corpus_nameserver_walk,
    corpus_pull,
    corpus_send,
    corpus_setup,
    corpus_walk,
)
from tests.interop.differential.case import MASTER_DIES, Case, Corpus, Outcome, differences
from tests.interop.differential.clusters import pair
from tests.interop.differential.departures import departs
from tests.interop.java import Java

CORPORA: Mapping[str, Callable[..., Corpus]] = {
    "sends": corpus_send.cases,
    "pulls": lambda: corpus_pull.cases("master"),
    "tools": lambda: corpus_admin.cases("master"),
    "nameserver": corpus_nameserver.cases,
    "frames": lambda: list(corpus_frames.cases()),
    "walk": corpus_walk.cases,
    "nameserver-walk": corpus_nameserver_walk.cases,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.interop.differential.compare", description=__doc__)
    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("--seed", type=int, help="of a walk")
    options = parser.parse_args()
    make = CORPORA[options.corpus]
    made = make() if options.seed is None else make(options.seed)
    cases = [*corpus_setup.set_up(), *made]
    with tempfile.TemporaryDirectory(prefix="rmqlab-compare-") as directory:
        settings = corpus_walk.SETTINGS if options.corpus == "walk" else {}
        found = compare(cases, Java(Path(directory)), Path(directory), settings)
    for name, lines in found.items():
        print(name, *lines, sep="\n    ")
    print(f"{len(found)} of {len(cases)} differ")


def compare(cases: Sequence[Case], java: Java, directory: Path, settings: Mapping[str, object]) -> dict[str, list[str]]:
    """Play cases at both systems, side by side; return the differences by case name.

    Listed departures are left out.
    """
    outcomes = dict[str, dict[str, Outcome]]()
    threads = [
        threading.Thread(target=_play, args=(system, cases, java, directory / system, settings, outcomes))
        for system in ("real", "ours")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        case.name: lines
        for case in cases
        if case is not MASTER_DIES
        and not departs(case.name)
        and (lines := differences(outcomes["real"][case.name], outcomes["ours"][case.name]))
    }


def _play(
    system: str,
    cases: Sequence[Case],
    java: Java,
    directory: Path,
    settings: Mapping[str, object],
    outcomes: dict[str, dict[str, Outcome]],
) -> None:
    directory.mkdir()
    with pair(system, java, directory, settings) as cluster:
        site = cluster.site()
        outcomes[system] = played = {}
        for case in cases:
            if case is MASTER_DIES:
                cluster.wait_synced()
                cluster.master.kill()
            else:
                played[case.name] = site.play(case)
        site.close()


if __name__ == "__main__":
    main()
