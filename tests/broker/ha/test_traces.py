"""Text traces of HA connections.

`pytest tests/broker/ha/test_traces.py --rewrite-traces` writes what happens now.
"""

from pathlib import Path

import pytest

from tests.broker.ha.tracing import format_trace, parse_trace, play

TRACES = sorted((Path(__file__).parent / "traces").glob("*.txt"))


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in TRACES])
def test_both_sides_do_what_the_trace_says(path: Path, request: pytest.FixtureRequest) -> None:
    played = format_trace(play(path))
    if request.config.getoption("--rewrite-traces"):
        path.write_text(played)
    assert path.read_text() == played


def test_there_are_traces_and_each_expects_something() -> None:
    assert len(TRACES) >= 10
    for path in TRACES:
        assert any(block.expected for block in parse_trace(path.read_text())), path.name
