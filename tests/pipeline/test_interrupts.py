"""Ctrl-C and SIGTERM during work on Spark."""

import contextlib
import logging
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from py4j.clientserver import JavaClient, JavaParameters, PythonParameters

from rmqlab.pipeline.spark.interrupts import ending_programs, plain_interrupts, silent_requests
from tests.pipeline.violations import clean_run, write_run

pytestmark = pytest.mark.spark


def test_ctrl_c_does_not_call_the_handler_of_the_session() -> None:
    called = []
    before = signal.signal(signal.SIGINT, lambda *_: called.append("cancels all jobs"))
    try:
        with pytest.raises(KeyboardInterrupt), plain_interrupts():
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert called == ["cancels all jobs"]


def send_interrupted() -> None:
    """Send a request to the JVM that Ctrl-C interrupts."""

    class Connection:
        socket = None

        def send_command(self, _command: str) -> None:
            raise KeyboardInterrupt

    requests = JavaClient(JavaParameters(), PythonParameters())
    requests._get_connection = Connection
    with contextlib.suppress(KeyboardInterrupt, AttributeError):
        requests.send_command("m\n")


def test_an_interrupted_request_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with silent_requests():
        send_interrupted()
        logging.error("another failure")  # noqa: LOG015 -- the logger that py4j uses
    assert [record.message for record in caplog.records] == ["another failure"]
    send_interrupted()
    assert caplog.records[-1].message == "KeyboardInterrupt while sending command."


def test_ctrl_c_ends_the_programs_that_start() -> None:
    with subprocess.Popen(["sleep", "60"]) as older:
        with pytest.raises(KeyboardInterrupt), ending_programs():  # noqa: PT012 -- the block is what is tested
            younger = subprocess.Popen(["sleep", "60"])
            raise KeyboardInterrupt
        assert younger.wait(timeout=30) == -signal.SIGKILL
        assert older.poll() is None
        older.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_audit_prints_one_line_and_leaves_no_jvm(tmp_path: pathlib.Path, number: signal.Signals) -> None:
    run = write_run(clean_run(), tmp_path)
    command = [sys.executable, "-m", "rmqlab.cluster", "audit", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not (jvms := _jvms_of(process.pid)):
            assert process.poll() is None
        process.send_signal(number)
        printed, complaints = process.communicate(timeout=60)
    assert (process.returncode, printed) == (2, "")
    assert complaints == "rmqlab: interrupted: no result\n"
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in jvms):  # until the time limit of the test
        time.sleep(0.01)


def _jvms_of(pid: int) -> list[int]:
    found = []
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if pathlib.Path(f"/proc/{child}/comm").read_text() == "java\n":
                found.append(int(child))
    return found
