"""The stderr of a JVM while it starts, and afterwards."""

import os
import subprocess
import sys

import pytest

from rmqlab.pipeline.spark.jvmoutput import JvmOutput, reason_of

pytestmark = pytest.mark.spark

SUBMIT = """\
Exception in thread "main" org.apache.spark.SparkException: Driver memory must be a positive number
	at org.apache.spark.deploy.SparkSubmitArguments.error(SparkSubmitArguments.scala:670)
	... 3 more
"""
HEAP = """\
Picked up JAVA_TOOL_OPTIONS: -Da=1
Error occurred during initialization of VM
Too small maximum heap
"""
OPTION = """\
[0.003s][error][cds] An error has occurred while processing the shared archive file.
Unrecognized VM option 'Nonsense'
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit.
"""
PACKAGE = """\
:: loading settings :: url = jar:file:/ivysettings.xml
Exception in thread "main" java.lang.RuntimeException: cannot resolve
	at scala.Predef$.require(Predef.scala:337)
Caused by: java.io.IOException: no network
	at java.base/java.net.Socket.connect(Socket.java:1)
"""


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (SUBMIT, "Driver memory must be a positive number"),
        (HEAP, "Too small maximum heap"),
        (OPTION, "Unrecognized VM option 'Nonsense'"),
        (PACKAGE, "cannot resolve, caused by no network"),
        ("/bin/sh: 1: /gone/java: not found\n", "/bin/sh: 1: /gone/java: not found"),
        ("\tat a.B.c(D.java:1)\n", ""),
        ("", ""),
    ],
)
def test_the_reason_is_one_line(output: str, reason: str) -> None:
    assert reason_of(output) == reason


def test_output_is_kept_until_it_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    output = JvmOutput()
    program = "import sys; print('first', file=sys.stderr, flush=True); input(); print('second', file=sys.stderr)"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=output.descriptor) as process:
        output.close()
        while not output._kept:
            os.sched_yield()
        assert capfd.readouterr().err == ""
        output.pass_on()
        process.communicate(b"\n")
    assert output.text() == ""
    assert capfd.readouterr().err == "first\nsecond\n"


BROKEN = """
from rmqlab.pipeline.errors import NoSparkError
from rmqlab.pipeline.session import open_session

try:
    open_session("local[1]", settings={"spark.driver.memory": "lots"}).__enter__()
except NoSparkError as exc:
    print(exc)
"""


def test_a_jvm_that_does_not_start_prints_nothing_itself() -> None:
    done = subprocess.run([sys.executable, "-c", BROKEN], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == (
        "Spark did not start at master local[1]: Driver memory must be a positive number."
        " Correct the settings (--conf), or the heap (--memory, or Machine)\n"
    )
    assert done.stderr == ""
