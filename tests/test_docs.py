"""Compares documents with the code: links, citations, names, and JSON members.

Names are of commands, targets and files.
"""

import ast
import importlib.util
import json
import pathlib
import re
from collections.abc import Iterator

import attrs
import click
import pytest
from click.testing import CliRunner

from rmqlab.cluster.__main__ import app
from rmqlab.cluster.actions.__main__ import action_table
from rmqlab.cluster.actions.reports import POWER_LOSS_REPORT, WIPE_REPORT
from rmqlab.cluster.cli.commands import LazyCommand
from rmqlab.cluster.cli.terms import JSON_VERSION
from rmqlab.cluster.cli.up import UP_KEYS
from rmqlab.cluster.conditions import UnknownConditionError, parse_condition
from rmqlab.cluster.control.__main__ import endpoint_table
from rmqlab.cluster.scenario.actions import VERBS
from rmqlab.cluster.scenario.comparison import FIGURES
from rmqlab.cluster.scenario.model import Expectation, Scenario, Step
from rmqlab.cluster.scenario.waits import parse_wait
from rmqlab.cluster.supervisor.plan.process_state import ProcessState
from rmqlab.cluster.supervisor.plan.status import live_entry, node_entry, status_document
from rmqlab.cluster.supervisor.plan.topology import Node, NodeKind
from rmqlab.faults.documents import with_tables
from rmqlab.pipeline.tables import audittablespage
from rmqlab.runtime.journals.journalentry import VERSION
from rmqlab.runtime.journals.schema import page as journal_page
from rmqlab.store.offline.compare import Comparison, Side
from rmqlab.store.offline.powerloss import Lost
from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.findings import Finding
from rmqlab.verdict.judgement import conclude
from rmqlab.verdict.page import render_page

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
PROSE = [page for page in PAGES if page.parent.name != "protocol"]
SOURCE_FOLDERS = ("rmqlab", "broker", "nameserver", "cluster", "tests", "examples")
MOST_README_LINES = 150
MOST_PROSE_COLUMNS = 120

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
each_prose_page = pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page: pathlib.Path) -> str:
    return page.read_text("utf-8")


def without_blocks(text: str) -> str:
    """The text without fenced code."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def code_of(text: str) -> str:
    """Fenced blocks and code spans, one a line."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join([*blocks, *re.findall(r"`([^`]+)`", without_blocks(text))])


def headings(text: str) -> list[str]:
    return re.findall(r"^#+ (.+)$", without_blocks(text), re.MULTILINE)


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def python_files() -> Iterator[pathlib.Path]:
    for folder in SOURCE_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.resolve().relative_to(ROOT) == path.relative_to(ROOT):
                yield path


# ---- pages ---------------------------------------------------------------------------------------------------


@each_page
def test_every_relative_link_resolves(page: pathlib.Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(text_of(page))):
        if "://" in target:
            continue
        path, _, fragment = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        if not linked.exists() or (fragment and fragment not in map(anchor, headings(text_of(linked)))):
            broken.append(target)
    assert broken == []


def test_the_readme_links_to_every_page() -> None:
    linked = set(re.findall(r"\]\((docs/[\w-]+\.md)\)", text_of(README)))
    assert linked == {f"docs/{page.name}" for page in DOCS.glob("*.md")}


def test_the_readme_is_short() -> None:
    assert len(text_of(README).splitlines()) <= MOST_README_LINES


@each_prose_page
def test_lines_of_prose_are_short(page: pathlib.Path) -> None:
    lines = without_blocks(text_of(page)).splitlines()
    assert [line for line in lines if len(line) > MOST_PROSE_COLUMNS and not line.startswith("|")] == []


@each_page
def test_no_page_names_a_place_of_one_machine(page: pathlib.Path) -> None:
    assert re.findall(r"(?<![\w.~])/(?:work|root|tmp|shared)/\S*", text_of(page)) == []


@pytest.mark.parametrize("page", [DOCS / "architecture.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_every_source_file_that_is_named_exists(page: pathlib.Path) -> None:
    sources = [str(path.relative_to(ROOT)) for path in python_files()]
    named = re.findall(r"`([\w/]+\.py)`", text_of(page))
    named.remove("store.py") if page.name == "architecture.md" else None  # an example of a file of the user's
    assert named
    assert [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in sources)] == []


# ---- commands ------------------------------------------------------------------------------------------------


@each_page
def test_every_make_target_that_is_named_exists(page: pathlib.Path) -> None:
    named = set(re.findall(r"\bmake ([a-z][a-z-]*)", code_of(text_of(page))))
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    assert named - targets == set()


def defined_names(module: str) -> set[str]:
    """The names that type checkers accept in an import from a module.

    They are in its `__all__` or, without one, defined there.
    """
    spec = importlib.util.find_spec(module)
    assert spec is not None, module
    assert spec.origin is not None, module
    names: set[str] = set()
    for node in ast.parse(pathlib.Path(spec.origin).read_text("utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name("__all__")]):
                return set(ast.literal_eval(node.value))
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                names.add(name)
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
    return names


IMPORTS = [
    pytest.param(module, names, id=f"{page.stem}-{module}")
    for page in PAGES
    for module, names in re.findall(r"^from (rmqlab[\w.]*) import ([\w, ]+)", code_of(text_of(page)), re.MULTILINE)
]


@pytest.mark.parametrize(("module", "names"), IMPORTS)
def test_a_documented_import_is_from_the_module_that_defines_the_name(module: str, names: str) -> None:
    """`mypy --strict` rejects a name that a module only imports."""
    assert set(re.split(r", *", names.strip())) <= defined_names(module)


def verbs() -> set[str]:
    return set(app.commands)


@each_page
def test_every_command_that_is_named_exists(page: pathlib.Path) -> None:
    named = re.findall(r"(?:^|[\s/(])rmqlab ([a-z][a-z-]*)", code_of(text_of(page)), re.MULTILINE)
    assert set(named) - verbs() == set()


def test_the_table_of_commands_has_every_command_and_no_other() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", text_of(DOCS / "command-line.md"), re.MULTILINE)
    named = {code.split()[0] for row in rows for code in re.findall(r"`([^`]+)`", row)}
    assert named == verbs()


def test_the_table_of_commands_has_one_row_for_each() -> None:
    table = text_of(DOCS / "command-line.md").partition("\n## Commands\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(named) == sorted(verbs())


def test_the_table_of_actions_is_the_one_that_the_code_prints() -> None:
    assert action_table() in text_of(DOCS / "command-line.md"), "insert what `python -m rmqlab.cluster.actions` prints"


def test_the_table_of_endpoints_is_the_one_that_the_code_prints() -> None:
    assert endpoint_table() in text_of(DOCS / "control-api.md"), "insert what `python -m rmqlab.cluster.control` prints"


# ---- faults --------------------------------------------------------------------------------------------------


def test_the_tables_of_faults_are_those_that_the_kinds_declare() -> None:
    """If this fails: python -m rmqlab.faults.documents docs/faults.md."""
    page = text_of(DOCS / "faults.md")
    assert with_tables(page) == page


# ---- scenarios -----------------------------------------------------------------------------------------------


def table_below(page: pathlib.Path, title: str) -> set[str]:
    """Return the first words of code spans in a table's first column below a heading."""
    text = re.split(r"^#", text_of(page).partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {code for row in rows for code in re.findall(r"`([^`]+)`", row)}


def test_the_reference_of_scenarios_has_every_action_and_condition() -> None:
    page = DOCS / "scenarios.md"
    assert table_below(page, "Actions") == set(VERBS)
    conditions = {code.split()[0] for code in table_below(page, "Conditions")}
    assert conditions == {*conditions_of_clusters(), *conditions_of_journals()}


def test_the_page_of_checks_is_that_of_the_declarations() -> None:
    """`make pages` renders it."""
    assert text_of(DOCS / "checks.md") == render_page()
    assert text_of(DOCS / "journal.md") == journal_page.render_page()
    assert text_of(DOCS / "audit-tables.md") == audittablespage.render_page()


def conditions_of_clusters() -> list[str]:
    with pytest.raises(UnknownConditionError) as caught:
        parse_condition(["none"], [])
    return str(caught.value).partition("conditions: ")[2].split(", ")


def conditions_of_journals() -> list[str]:
    """Those that `parse_wait` names beside the conditions of clusters."""
    with pytest.raises(UnknownConditionError) as caught:
        parse_wait("none", [], [])
    return str(caught.value).partition("conditions: ")[2].split(", ")


def test_the_reference_of_scenarios_has_every_key() -> None:
    page = DOCS / "scenarios.md"
    steps = {field.name for field in attrs.fields(Step)} - {"action"}
    assert table_below(page, "Step") == steps
    assert table_below(page, "Expectations") == {field.name for field in attrs.fields(Expectation)}
    top = {field.name for field in attrs.fields(Scenario)} - {"workloads", "steps", "expectations"}
    assert table_below(page, "Top level") == top | {"workload", "step", "expect"}


# ---- JSON ----------------------------------------------------------------------------------------------------

JSON_PAGE = DOCS / "json.md"
JSON_MEMBERS = ROOT / "tests" / "json_members.json"
NO_DOCUMENTS = ("JSON output", "Version", "Commands")
"""Headings of the page that are not those of documents."""


def section_of(title: str) -> str:
    """One section of the page of JSON documents."""
    page = text_of(JSON_PAGE)
    return re.split(r"^## ", page.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def members_of(title: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", section_of(title)))


def commands_with_json(group: click.Group, before: str = "") -> Iterator[str]:
    for name, listed in group.commands.items():
        command = listed.load() if isinstance(listed, LazyCommand) else listed
        if isinstance(command, click.Group):
            yield from commands_with_json(command, f"{before}{name} ")
        elif any("--json" in parameter.opts for parameter in command.params):
            yield before + name


def test_the_table_of_json_has_every_command_that_prints_it_and_no_other() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", section_of("Commands"), re.MULTILINE)
    assert sorted(code for row in rows for code in re.findall(r"`([^`]+)`", row)) == sorted(commands_with_json(app))


def test_the_version_of_events_is_that_of_the_journal() -> None:
    assert f"`version`, and it is {VERSION}." in " ".join(section_of("Version").split())
    assert f'`{{"v": {VERSION}, ' in " ".join(text_of(DOCS / "command-line.md").split())


def test_the_members_of_a_cluster_are_listed() -> None:
    assert members_of("Cluster") == {"name", "namesrv_addr", "nodes", "moved", "control", "url", "token", *UP_KEYS}


def test_the_members_of_a_status_and_its_nodes_are_listed() -> None:
    master = Node(name="broker-a", kind=NodeKind.BROKER, host="127.0.0.1", group="broker-a", broker_id=0)
    slave = attrs.evolve(master, name="broker-a-s", broker_id=1)
    nameserver = Node(name="namesrv-1", kind=NodeKind.NAMESERVER, host="127.0.0.1")
    document = status_document({}, [master, slave, nameserver], {}, {}, "/data")
    assert document.keys() | document["replication"][0].keys() <= members_of("Status")
    for node in (master, nameserver):
        assert node_entry(node, ProcessState(), "/data").keys() | live_entry(node, None).keys() <= members_of("Node")


def test_the_members_of_findings_and_comparisons_are_listed() -> None:
    finding = Finding(metric="lost", unit="messages", value=0)
    assert finding.as_json().keys() <= members_of("Finding")
    assert conclude([finding], METRICS, Conditions()).summary().keys() <= members_of("Judgement")
    fields = {field.name for kind in (Comparison, Side) for field in attrs.fields(kind)}
    assert members_of("Comparison") == {*fields, "target", "null"}


def test_the_members_that_actions_add_are_listed() -> None:
    lost = POWER_LOSS_REPORT.members({"broker-a": Lost()}, "broker-a")
    wiped = WIPE_REPORT.members({"broker-a": 7}, "broker-a")
    assert members_of("Commands") >= {*lost, *lost["lost"], *wiped}


def test_the_figures_of_a_comparison_are_listed() -> None:
    assert members_of("Figures") - {"compare", "null"} == {figure.name for figure in FIGURES}


def documented_members() -> dict[str, list[str]]:
    return {title: sorted(members_of(title)) for title in headings(text_of(JSON_PAGE)) if title not in NO_DOCUMENTS}


def test_a_json_member_that_is_removed_changes_the_version() -> None:
    """After an intended change, write `documented_members()` to the file.

    The file's version is then `JSON_VERSION`.
    """
    recorded = json.loads(text_of(JSON_MEMBERS))
    removed = {
        title: left_out
        for title, members in recorded["members"].items()
        if (left_out := {*members} - {*documented_members().get(title, [])})
    }
    assert removed == {} or recorded["version"] < JSON_VERSION, "increase JSON_VERSION, and record the members anew"
    assert recorded == {"version": JSON_VERSION, "members": documented_members()}


def test_the_version_of_json_is_documented_and_printed() -> None:
    done = CliRunner().invoke(app, ["--json-version"])
    assert (done.exit_code, done.stdout) == (0, f"{JSON_VERSION}\n")
    assert f"$ rmqlab --json-version\n{JSON_VERSION}\n" in section_of("Version")
