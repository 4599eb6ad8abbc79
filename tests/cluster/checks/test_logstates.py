"""Warnings about bytes behind the last record of a log."""

from pathlib import Path

from rmqlab.cluster.checks import judge_directory
from rmqlab.cluster.checks.testing import MadeUpRun
from rmqlab.store.offline.scan import LogScan
from rmqlab.verdict.verdict import Verdict
from tests.cluster.plant.smallrun import made_up_run, write_run


def litter(directory: Path) -> int:
    """Write bytes behind the last record of the master; return where."""
    path = directory / "broker-a" / "store" / "commitlog" / f"{0:020d}"
    scan = LogScan(path.parent)
    end = sum(message.store_size for message in scan.messages()) + 5000
    with path.open("r+b") as file:
        file.seek(end)
        file.write(b"\xa5\x5a" * 20)
    return end


def test_bytes_behind_the_end_are_a_warning_with_file_and_place(tmp_path: Path) -> None:
    directory = write_run(made_up_run(), tmp_path / "run")
    at = litter(directory)
    decision = judge_directory(directory).decision
    assert decision.verdict is Verdict.HOLDS
    assert decision.warnings[0] == (
        f"broker-a: store/commitlog/{0:020d} at byte {at}: bytes {at} to {at + 40} of the log are behind its last"
        " record, and neither a record nor zero: no broker wrote them there"
    )


def test_a_log_after_a_power_loss_may_end_in_fragments_until_its_broker_starts(tmp_path: Path) -> None:
    for has_started in (False, True):
        run = MadeUpRun()
        run.send(1)
        run.end("broker-a")
        run.add("broker-a", "power_lost")
        if has_started:
            run.ready("broker-a")
        directory = write_run(run, tmp_path / str(has_started))
        litter(directory)
        warnings = judge_directory(directory).decision.warnings
        assert any("behind its last record" in line for line in warnings) is has_started
