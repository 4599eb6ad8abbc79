"""A run never gets a better judgement by damage to its files.

Whatever happens to one file, no metric falls to a known zero, no verdict that needs the file holds, and the cluster is
not blamed for what is missing: the reason names the file. Two runs are tried: a quiet one that was made up, and a
simulated one of two groups whose master was killed.
"""

import functools
import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.lab import Cluster
from rmqlab.cluster.supervisor.plan.topology import ClusterSpec
from rmqlab.runtime.journals.journalentry import pack_entry
from rmqlab.runtime.journals.journalreader import read_journal
from rmqlab.verdict.judgement import Judgement
from rmqlab.verdict.verdict import Verdict
from tests.cluster.plant.smallrun import made_up_run, write_run
from tests.cluster.simulated import on_cluster

Damage = Callable[[Path], object]

SPEC = ClusterSpec(
    name="evidence",
    groups=2,
    role="SYNC_MASTER",
    broker_settings={
        "mapped_file_size_commit_log": 8 * 1024,  # several files in each log
        "mapped_file_size_consume_queue": 20 * 1000,
        "max_hash_slot_num": 500,
        "max_index_num": 2000,
    },
)
KILLED = "broker-b.msgpack"
"""The journal of a process that was killed: nobody knows where it ended."""
PARTS = 4
"""Tests among which the damages are divided, so that each is far from its time limit on a busy machine."""
_OTHERS_MAY_EXPLAIN = ("sent", "expired", "behind", "ahead", "missing")
"""Metrics that count what is there, and say nothing against a run."""


async def _kill_a_master(cluster: Cluster) -> None:
    for group in ("broker-a", "broker-b"):
        await cluster.wait_until(f"slave-in-sync {group}")
    await cluster.run_workload("rmqlab.cluster.workload.consume", {"topic": "orders", "group": "shop"})
    for is_killed in (False, True):
        sends = {"topic": "orders", "rate_per_second": 20.0, "count": 50}
        producer = await cluster.run_workload("rmqlab.cluster.workload.produce", sends)
        await producer.wait_ended(seconds=120)
        await cluster.wait_until("slave-caught-up broker-a")
        if not is_killed:
            await cluster.kill("broker-b:master")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("evidence")
    on_cluster(place / "killed" / "lab", _kill_a_master, SPEC)
    return {"quiet": write_run(made_up_run(), place / "quiet"), "killed": place / "killed" / "lab"}


# ---- what happens to a file ----------------------------------------------------------------------------------


def _truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 10)


def _of_journal(run: Path, path: Path) -> Iterator[tuple[str, Damage]]:
    entries = list(read_journal(path))
    third = len(entries) // 3

    def write(*parts: slice) -> Damage:
        kept = [entry for part in parts for entry in entries[part]]
        return lambda file: file.write_bytes(b"".join(pack_entry(entry, entry.seq) for entry in kept))

    yield "end dropped", write(slice(0, 2 * third))
    yield "middle dropped", write(slice(0, third), slice(third + 1, None))
    yield "middle repeated", write(slice(0, 2 * third + 1), slice(third, None))
    yield "repeated", write(slice(None), slice(None))
    for other in sorted(path.parent.glob("*.msgpack")):
        if other != path:
            yield f"that of {other.stem}", functools.partial(shutil.copyfile, run / "journal" / other.name)
    long_ago = [attrs.evolve(entry, at_millis=entry.at_millis - 86_400_000) for entry in entries]
    yield "of another day", lambda file: file.write_bytes(b"".join(pack_entry(e, e.seq) for e in long_ago))


def _of_store(run: Path, below: Path) -> Iterator[tuple[str, Damage]]:
    """Yield other files in the place of one.

    They are that of another group, and the others of the log.
    """
    node, *rest = below.parts
    for other in sorted(run.glob(f"*/{'/'.join(rest)}")):
        theirs = other.relative_to(run).parts[0]
        if theirs.removesuffix("-s") != node.removesuffix("-s"):
            yield f"that of {theirs}", functools.partial(shutil.copyfile, other)
    if _is_log(below):
        for other in sorted({*(run / below).parent.iterdir()} - {run / below}):
            yield f"{other.name} of the same log", functools.partial(shutil.copyfile, other)


def _damages(run: Path) -> Iterator[tuple[Path, str, Damage]]:
    """Yield path, name and damage for each file of a run."""
    for path in sorted([*run.glob("journal/*.msgpack"), *run.glob("*/store/**/*"), *run.glob("*.json")]):
        below = path.relative_to(run)
        if path.is_dir() or not path.stat().st_size:
            continue
        yield below, "removed", Path.unlink
        yield below, "emptied", lambda file: file.write_bytes(b"")
        yield below, "truncated", _truncated
        if path.parent.name == "journal":
            yield from ((below, *damage) for damage in _of_journal(run, path))
        if "store" in below.parts:
            yield from ((below, *damage) for damage in _of_store(run, below))
    for directory in sorted({*run.glob("*/store"), *run.glob("*/store/*/")}):
        if directory.is_dir():
            yield directory.relative_to(run), "removed", shutil.rmtree


def _is_log(below: Path) -> bool:
    return "commitlog" in below.parts


# ---- what must not happen ------------------------------------------------------------------------------------


def _better(clean: Judgement, judged: Judgement) -> Iterator[str]:
    """Yield the metrics whose exact value is lower now, or zero and was unknown."""
    for metric, finding in clean.by_metric.items():
        now = judged.by_metric.get(metric)
        if now is None or now.value is None or now.is_at_least:
            continue
        is_lower = finding.value is None or now.value < finding.value
        if is_lower and metric.partition(" ")[0].partition(".")[0] not in _OTHERS_MAY_EXPLAIN:
            yield f"{metric}: {finding.value} became {now.value}"


def _wrong(clean: Judgement, judged: Judgement, below: Path, damage: str) -> Iterator[str]:
    yield from _better(clean, judged)
    new = [line for line in judged.decision.why if line not in clean.decision.why]
    if judged.verdict is Verdict.VIOLATED:
        yield f"the cluster is blamed: {'; '.join(new)}"
    is_blind = below.name == KILLED and damage in ("truncated", "end dropped")  # as docs/checks.md says
    if below.parts[0] == "journal" and not is_blind:
        if judged.verdict is not Verdict.UNKNOWN:
            yield f"the verdict is {judged.verdict}"
        if not any(str(below) in line for line in judged.decision.why):
            yield f"no reason names the file: {judged.decision.why}"
    if _is_log(below) or below.name == "store":
        unknown = [one for one in judged if not one.is_known and below.parts[0] in one.missing]
        if not any(one.metric.startswith("divergence ") for one in unknown):
            yield "the logs are compared, although one is not whole"


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", ["quiet", "killed"])
def test_no_judgement_gets_better_by_what_is_taken_from_a_run(
    runs: dict[str, Path], tmp_path: Path, name: str, part: int
) -> None:
    run, copy = runs[name], tmp_path / "copy"
    clean = judge_directory(run)
    assert clean.verdict is Verdict.HOLDS, clean.decision
    shutil.copytree(run, copy)
    wrong = []
    for below, damage, play in itertools.islice(_damages(run), part, None, PARTS):
        play(copy / below)
        judged = judge_directory(copy)
        wrong += [f"{below} {damage}: {line}" for line in _wrong(clean, judged, below, damage)]
        _restore(run / below, copy / below)
    assert wrong == []


def _restore(original: Path, path: Path) -> None:
    if original.is_dir():
        shutil.copytree(original, path)
    else:
        shutil.copyfile(original, path)


@pytest.mark.parametrize("which", [0, -1], ids=["first", "last"])
def test_a_message_is_not_lost_if_the_file_that_had_it_was_taken_from_all_stores(
    runs: dict[str, Path], tmp_path: Path, which: int
) -> None:
    shutil.copytree(runs["killed"], tmp_path / "copy")
    for node in ("broker-a", "broker-a-s"):
        sorted((tmp_path / "copy" / node / "store" / "commitlog").iterdir())[which].unlink()
    judged = judge_directory(tmp_path / "copy")
    assert judged.verdict is Verdict.UNKNOWN
    assert not judged["lost"].is_known
    assert "broker-a: store/commitlog has no file with bytes" in judged["lost"].missing
    assert judged["missing broker-a"].value
