"""Callbacks are constructor arguments: server code does not assign them later.

A callback that is assigned afterwards is missing until then, and no type says so. `rmqlab.broker.assembly` makes the
parts of a broker in an order in which each constructor gets what it needs.
"""

import ast
import pathlib
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

import attrs
import pytest

PACKAGES = ("broker", "nameserver", "rmqlab/store", "rmqlab/client")
_ROOT = pathlib.Path(__file__).parents[1]
_CONSTRUCTORS = {"__init__", "__attrs_post_init__"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@attrs.frozen
class Names:
    """What the packages declare, by name: no type checker is asked."""

    functions: frozenset[str]
    """Functions and methods, without properties and names that are also fields."""
    callable_types: frozenset[str]
    """`Callable`, its aliases, and protocols."""
    callbacks: frozenset[str]
    """Attributes that are annotated with such a type."""

    @classmethod
    def of(cls, trees: Iterable[ast.Module]) -> "Names":
        nodes = [node for tree in trees for node in ast.walk(tree)]
        types = {"Callable"} | {name for node in nodes for name in _callable_types(node)}
        functions = {node.name for node in nodes if isinstance(node, _Function) and not _is_property(node)}
        fields = {field: annotation for node in nodes for field, annotation in _fields(node)}
        callbacks = {field for field, annotation in fields.items() if _has_callable(annotation, types)}
        return cls(frozenset(functions - fields.keys()), frozenset(types), frozenset(callbacks))


def _callable_types(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name, bases=bases) if any(ast.unparse(base).startswith("Protocol") for base in bases):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(value=ast.Name(id="Callable"))):
            yield name


def _is_property(node: _Function) -> bool:
    return any(ast.unparse(decorator).endswith("property") for decorator in node.decorator_list)


def _fields(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Annotated attributes: in the body of a class, or on `self`."""
    match node:
        case ast.ClassDef(body=body):
            for statement in body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    yield statement.target.id, statement.annotation
        case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=annotation):
            yield name, annotation


def _has_callable(annotation: ast.expr, types: AbstractSet[str]) -> bool:
    """True for `Callable[...]`, a name of it, or an optional one.

    Not for a list of them.
    """
    match annotation:
        case ast.Name(id=name) | ast.Constant(value=str(name)):
            return name in types
        case ast.Subscript(value=ast.Name(id="Callable")):
            return True
        case ast.BinOp(left=left, right=right):
            return _has_callable(left, types) or _has_callable(right, types)
    return False


def late_callbacks(tree: ast.Module, names: Names) -> Iterator[str]:
    """Yield `line: code` of each function assigned to an attribute after construction."""
    constructors = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, _Function) and node.name in _CONSTRUCTORS
        for inner in ast.walk(node)
    }
    known = names.functions & _functions_of(tree)
    for node, target, value in _assignments(tree):
        is_own = isinstance(target.value, ast.Name) and target.value.id == "self" and node in constructors
        if not is_own and (target.attr in names.callbacks or _is_function(value, names, known)):
            yield f"{node.lineno}: {ast.unparse(node)}"


def _assignments(tree: ast.Module) -> Iterator[tuple[ast.stmt, ast.Attribute, ast.expr]]:
    """Yield each assignment to an attribute: statement, attribute and value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((node, target, node.value) for whole in node.targets for target in _attributes(whole))
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from ((node, target, node.value) for target in _attributes(node.target))


def _attributes(target: ast.expr) -> list[ast.Attribute]:
    """Return the attributes among the targets of an assignment, which may be a tuple."""
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    return [one for one in targets if isinstance(one, ast.Attribute)]


def _functions_of(tree: ast.Module) -> AbstractSet[str]:
    """Return the names of functions and imported objects in a module.

    A method is no such name.
    """
    methods = {id(member) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for member in node.body}
    defined = {node.name for node in ast.walk(tree) if isinstance(node, _Function) and id(node) not in methods}
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return defined | {alias.asname or alias.name for node in imports for alias in node.names}


def _is_function(value: ast.expr, names: Names, known: AbstractSet[str]) -> bool:
    match value:
        case ast.Lambda():
            return True
        case ast.Call(func=ast.Name(id="partial") | ast.Attribute(attr="partial")):
            return True
        case ast.Name(id=name):
            return name in known
        case ast.Attribute(attr=name):
            return name in names.functions
        case ast.IfExp(body=body, orelse=orelse):
            return _is_function(body, names, known) or _is_function(orelse, names, known)
    return False


@pytest.fixture(scope="module")
def trees() -> dict[pathlib.Path, ast.Module]:
    paths = [path for package in PACKAGES for path in sorted((_ROOT / package).rglob("*.py"))]
    assert len(paths) > 150
    return {path: ast.parse(path.read_text()) for path in paths}


def test_no_callback_is_assigned_after_construction(trees: dict[pathlib.Path, ast.Module]) -> None:
    """Issue 13.3."""
    names = Names.of(trees.values())
    assert {"wake", "on_ack"} & names.functions == {"wake"}
    found = [
        f"{path.relative_to(_ROOT)}:{found}" for path, tree in trees.items() for found in late_callbacks(tree, names)
    ]
    assert found == []


_DECLARATIONS = """
Later = Callable[[], None]
class Waker(Protocol): ...
class Part:
    size: int
    later: Later
    waker: Waker | None = None
    def __init__(self):
        self.on_reply: Callable[[int], None] = lambda _: None
        self.callback = self.run
    def run(self): ...
    @property
    def state(self): ...
"""


@pytest.mark.parametrize(
    "line",
    [
        "part.anything = lambda: None",
        "part.anything = functools.partial(run, 1)",
        "part.anything = other.run",
        "part.anything = other.run if is_slave else None",
        "part.inner.anything = other.anything = other.run",
        "part.size, part.anything = 1, 2\npart.later = whatever",
        "def run():\n    pass\npart.anything = run",
        "part.waker = whatever",
        "part.on_reply = whatever",
        "class A:\n    def start(self):\n        self.later = whatever",
    ],
)
def test_the_check_finds(line: str) -> None:
    names = Names.of([ast.parse(_DECLARATIONS)])
    assert list(late_callbacks(ast.parse(line), names))


@pytest.mark.parametrize(
    "line",
    [
        _DECLARATIONS,
        "part.size = other.size",
        "part.size = other.state",
        "def f(run):\n    part.size = run",
        "part.on_close.append(run)",
    ],
)
def test_the_check_leaves_alone(line: str) -> None:
    names = Names.of([ast.parse(_DECLARATIONS)])
    assert not list(late_callbacks(ast.parse(line), names))
