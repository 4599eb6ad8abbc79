"""Tables whose cells stay whole at any width."""

import io

import pytest
from rich.console import Console

from rmqlab.cluster.checks.view import render_findings
from rmqlab.cluster.cli.output.tables import render_status
from rmqlab.cluster.cli.output.uncuttable import UncutTable
from rmqlab.cluster.cli.overview import render_stopped
from rmqlab.verdict.findings import Finding

ADDRESS = "127.177.160.220:10911"


def drawn(renderable: object, width: int, *, is_terminal: bool = True) -> str:
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=is_terminal, color_system=None)
    console.print(renderable, soft_wrap=not is_terminal)  # as the console of all commands
    return console.export_text()


def table() -> UncutTable:
    table = UncutTable()
    table.add_column("NODE")
    table.add_column("STATE", is_one_line=True)
    table.add_column("ADDRESS")
    table.add_row("broker-a", "not connected yet", ADDRESS)
    table.add_row("broker-b", "connected")
    return table


@pytest.mark.parametrize("width", range(32, 90))
def test_each_cell_is_in_one_line(width: int) -> None:
    text = drawn(table(), width)
    for cell in ("broker-a", "not connected yet", ADDRESS, "broker-b", "connected"):
        assert cell in text
    assert max(map(len, text.splitlines())) <= width


def test_a_narrow_terminal_gets_a_list() -> None:
    assert [line.rstrip() for line in drawn(table(), 40).splitlines()] == [
        "broker-a",
        "  STATE    not connected yet",
        f"  ADDRESS  {ADDRESS}",
        "broker-b",
        "  STATE    connected",
    ]


def test_files_and_pipes_get_each_row_on_one_line() -> None:
    assert [line.rstrip() for line in drawn(table(), 30, is_terminal=False).splitlines()] == [
        "NODE      STATE              ADDRESS",
        f"broker-a  not connected yet  {ADDRESS}",
        "broker-b  connected",
    ]


def test_the_last_column_is_folded_first() -> None:
    wide = UncutTable()
    wide.add_column("METRIC")
    wide.add_column("MEANING")
    wide.add_row("order of the queue", "one two three four five six")
    first, second, *_ = drawn(wide, 36).splitlines()[1:]
    assert first.rstrip() == "order of the queue  one two three"
    assert second.strip() == "four five six"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_width_cuts_a_route(width: int) -> None:
    document = {
        "name": "default",
        "namesrv_addr": "127.177.160.1:9876",
        "rate": 1,
        "nodes": [],
        "masters": {},
        "replication": [],
        "routes": {"namesrv-1": {"broker-a": {"0": ADDRESS, "1": "127.177.160.221:10911"}}},
    }
    assert f"0={ADDRESS}" in drawn(render_status(document), width)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_width_cuts_a_metric_or_an_address(width: int) -> None:
    metric = "replication_lag_duration broker-a-s"
    assert metric in drawn(render_findings([Finding(metric=metric, unit="s", value=1.5, text="behind")]), width)
    node = {"name": "broker-a", "role": "SYNC_MASTER", "kind": "broker", "address": ADDRESS, "size": 1}
    stopped = {"name": "default", "directory": "/x", "size": 1, "last_active": None, "nodes": [node]}
    assert ADDRESS in drawn(render_stopped(stopped), width)
