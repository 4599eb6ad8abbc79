"""The demo, played through on real processes."""

import os
import pathlib
import subprocess
import sys

import pytest


@pytest.mark.timeout(300)
def test_the_demo_narrates_its_events_and_loses_no_message(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rmqlab.cluster", "demo", "--rate", "12"],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env={**os.environ, "RMQLAB_HOME": str(tmp_path), "COLUMNS": "200"},
    )
    output = done.stdout
    assert done.returncode == 0, output + done.stderr
    in_order = (
        "its slave asks for the log from byte 0 on",
        "sends now end in SEND_OK",
        "3. kill -9",
        "of broker-a only the slave is left",
        "reads from the slave (broker id 1)",
        "no slave was promoted",
        "4. The master comes back",
        "has registered: it is in the route",
        "sends now end in SEND_OK",
        "5. The result",
        "holds: nothing acknowledged was lost",
    )
    at = 0
    for text in in_order:
        found = output.find(text, at)
        assert found >= 0, f"{text!r} is missing after {output[:at][-200:]!r}\n{output}"
        at = found
    assert "commits its offsets to the slave (broker id 1)" in output
    assert "refused" in output
    assert done.stderr == ""
