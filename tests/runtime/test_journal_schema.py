"""The schema of the journal and the sources: every emitted field is declared."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

from rmqlab.runtime.journals.journalentry import MESSAGE_KINDS
from rmqlab.runtime.journals.schema import EVENT_TYPES

ROOT = pathlib.Path(__file__).parents[2]
TELLERS = {"emit", "_emit", "on_event", "_on_event", "record"}
FROM_VALUES = {"nameserver/state.py", "cluster/supervisor/supervisor.py"}
"""Files that take some kinds from values; which, the tests below say."""


def emissions() -> Iterator[tuple[str, ast.Call, ast.expr]]:
    """Every call that emits: file, call, and the expression of the kind."""
    for package in ("rmqlab/runtime", "rmqlab/store", "nameserver", "broker", "rmqlab/client", "cluster"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                    continue
                if node.func.attr in TELLERS and len(node.args) >= (2 if node.func.attr == "record" else 1):
                    yield str(path.relative_to(ROOT)), node, node.args[1 if node.func.attr == "record" else 0]


def kinds_in(expression: ast.expr) -> list[str] | None:
    """The kinds that an expression may give; None if they are known only at run time."""
    if isinstance(expression, ast.Constant):
        return [str(expression.value)]
    if isinstance(expression, ast.IfExp):
        parts = [kinds_in(expression.body), kinds_in(expression.orelse)]
        return [kind for part in parts if part for kind in part]
    return None


def test_every_emission_is_of_a_kind_and_with_fields_of_the_schema() -> None:
    seen = set()
    for path, call, expression in emissions():
        kinds = kinds_in(expression)
        where = f"{path}:{call.lineno}"
        if kinds is None:
            assert path in FROM_VALUES | {"cluster/workload/consume.py"}, (
                f"{where}: a kind that only running would tell"
            )
            continue
        for kind in kinds:
            assert kind in EVENT_TYPES, f"{where}: remoting.kinds does not know {kind!r}"
            named = {keyword.arg for keyword in call.keywords if keyword.arg}
            unknown = set() if EVENT_TYPES[kind].is_open else named - EVENT_TYPES[kind].fields.keys()
            assert not unknown, f"{where}: remoting.kinds does not know of {kind!r} the fields {unknown}"
            seen.add(kind)
    assert len(seen) > 30, "the search has lost its way"


def test_kinds_taken_from_values_stand_in_the_schema_too() -> None:
    from rmqlab.cluster.supervisor.plan.process_state import NodeState
    from rmqlab.nameserver.changes import BrokerChangeKind

    ends = (NodeState.STOPPED, NodeState.KILLED, NodeState.CRASHED)
    assert {*BrokerChangeKind, *(f"node_{end}" for end in ends)} <= EVENT_TYPES.keys()


def test_message_kinds_stand_in_the_schema_and_every_word_says_something() -> None:
    assert EVENT_TYPES.keys() >= MESSAGE_KINDS
    for kind in EVENT_TYPES.values():
        assert kind.meaning
        assert all(
            field.type in {"text", "int", "float", "bool", "map", "list", "any"} for field in kind.fields.values()
        )
        assert all(field.meaning for field in kind.fields.values())


@pytest.mark.parametrize("kind", sorted(MESSAGE_KINDS))
def test_columns_of_the_journal_are_no_fields(kind: str) -> None:
    assert not {"v", "at", "node", "kind"} & EVENT_TYPES[kind].fields.keys()
