"""How nodes ended, by their events."""

import pytest

from rmqlab.verdict.ends import was_clean

READY = ("node_ready", "")
SPAWNED = ("node_spawned", "")
STOPPED = ("node_stopped", "")
KILLED = ("node_killed", "")


def command(name: str) -> tuple[str, str]:
    return "command", name


@pytest.mark.parametrize(
    ("events", "is_stopped", "expected"),
    [
        pytest.param([READY], False, None, id="it runs"),
        pytest.param([READY], True, True, id="stopped with the cluster"),
        pytest.param([READY, command("stop"), STOPPED], False, True, id="stopped alone"),
        pytest.param([READY, command("kill"), KILLED], False, False, id="killed"),
        pytest.param([READY, command("kill"), KILLED, command("start"), READY], True, True, id="killed before"),
        pytest.param([READY, command("stop"), KILLED], False, None, id="killed while it stopped"),
        pytest.param([READY, command("stop"), command("kill"), KILLED], False, None, id="killed after a stop began"),
        pytest.param(
            [READY, command("stop"), STOPPED, command("kill"), KILLED],
            False,
            None,
            id="killed before it was ready again",
        ),
        pytest.param(
            [READY, command("kill"), KILLED, command("stop"), STOPPED],
            False,
            None,
            id="stopped before it was ready again",
        ),
        pytest.param([READY, command("stop"), STOPPED], True, None, id="stopped with the cluster before it was ready"),
        pytest.param([READY, command("pause"), command("kill"), KILLED], False, False, id="paused and killed"),
        pytest.param([READY, ("node_crashed", "")], False, None, id="crashed"),
        pytest.param([READY, command("power-loss"), KILLED, ("power_lost", "")], False, None, id="power loss"),
        pytest.param([READY, ("log_truncated", ""), STOPPED], False, None, id="a log that was cut"),
        pytest.param([KILLED], False, None, id="never ready"),
        pytest.param([SPAWNED, READY, command("stop"), STOPPED], False, True, id="started and stopped"),
        pytest.param(
            [READY, command("stop"), STOPPED, command("start"), SPAWNED],
            False,
            None,
            id="the end of a start that failed is not recorded",
        ),
    ],
)
def test_only_what_events_prove_is_certain(
    events: list[tuple[str, str]], *, is_stopped: bool, expected: bool | None
) -> None:
    assert was_clean(events, is_stopped=is_stopped) is expected
