"""Ctrl-C during work on Spark."""

import contextlib
import logging
import signal
import subprocess

import pytest
from py4j.clientserver import JavaClient, JavaParameters, PythonParameters

from rmqlab.pipeline.spark.interrupts import ending_programs, plain_interrupts, silent_requests

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
