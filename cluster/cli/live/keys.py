"""Decodes the bytes of a terminal into keys, and keys into commands. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from rmqlab.cluster.actions.action import HEAL, Liveness, NodeAction, liveness_of
from rmqlab.cluster.actions.table import ACTIONS
from rmqlab.cluster.supervisor.plan.targets import target_words

Document = Mapping[str, Any]

_PAGES = {b"5": "page up", b"6": "page down"}
_ESCAPES = {
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1b[Z": "up",
}
_PLAIN = {b"\t": "down", b"\x1b": "escape", b"\r": "enter", b"\n": "enter"}


def decode_keys(data: bytes) -> Iterator[str]:
    """Return the names of the keys in one read. Unknown escape sequences are skipped."""
    at = 0
    while at < len(data):
        if data[at : at + 3] in _ESCAPES:
            yield _ESCAPES[data[at : at + 3]]
            at += 3
        elif data[at : at + 2] in (b"\x1b[", b"\x1bO"):
            at += 2
            if data[at + 1 : at + 2] == b"~" and data[at : at + 1] in _PAGES:
                yield _PAGES[data[at : at + 1]]
            while at < len(data) and not 0x40 <= data[at] <= 0x7E:
                at += 1
            at += 1
        else:
            key = data[at : at + 1]
            yield _PLAIN.get(key) or key.decode("ascii", "ignore")
            at += 1


@attrs.frozen
class Act:
    """Do an action, by its name, to one node."""

    action: str
    target: str


@attrs.frozen
class Heal:
    """End faults, by id."""

    ids: tuple[str, ...]


@attrs.frozen
class Quit:
    """Stop the cluster."""


KeyCommand = Act | Heal | Quit


@attrs.frozen
class Selection:
    """The node that keys act on, and the message to the user."""

    node: str = ""
    message: str = ""
    is_help: bool = False
    """True while the keys are explained."""


def _actions_of(key: str) -> list[NodeAction[Any]]:
    return [action for action in ACTIONS.values() if action.key == key]


KEYS = [
    ("↑↓", "node"),
    *(
        (action.key, action.key_label or action.name)
        for action in ACTIONS.values()
        if action.key and action is _actions_of(action.key)[0]
    ),
    ("h", "heal"),
]
"""Keys and what each does, as the last line of the screen lists them, without `q` and `?`."""
PAGE = 10
"""Nodes that a page key skips."""
HELP = [
    ("↑ ↓", "select a node; Tab and Shift-Tab, too"),
    ("1 ... 9", "select the node of this number"),
    ("PgUp PgDn", f"{PAGE} nodes up or down"),
    ("Home End", "the first or the last node"),
    *((action.key, f"{action.name}: {re.split('[:.,]', action.help)[0]}") for action in ACTIONS.values() if action.key),
    ("h", "heal: end all faults"),
    ("?", "show and hide the keys"),
]
"""All keys, without `q`."""


def press(selection: Selection, key: str, document: Document) -> tuple[Selection, KeyCommand | None]:
    """Return the new selection and the command of a key.

    If the key makes no sense now, a message says why.
    """
    names = [node["name"] for node in in_order(document["nodes"])]
    is_help = key == "?" and not selection.is_help
    selection = attrs.evolve(
        selection,
        message="",
        is_help=is_help,
        node=selection.node if selection.node in names else first_selected(document),
    )
    if (index := _moved(names.index(selection.node), key, len(names))) is not None:
        return attrs.evolve(selection, node=names[index]), None
    if key.isdigit() and 0 < int(key) <= len(names):
        return attrs.evolve(selection, node=names[int(key) - 1]), None
    if key == "q":
        return selection, Quit()
    if key == "h":
        return _heal(selection, document["faults"])
    if actions := _actions_of(key):
        return _act(selection, actions, document)
    return selection, None


def _moved(index: int, key: str, count: int) -> int | None:
    """Return the index after a key that moves the selection; None for another key."""
    match key:
        case "up" | "down":
            return (index + (1 if key == "down" else -1)) % count
        case "page up" | "page down":
            return min(max(index + (PAGE if key == "page down" else -PAGE), 0), count - 1)
        case "home" | "end":
            return 0 if key == "home" else count - 1
        case _:
            return None


def _act(
    selection: Selection, actions: Sequence[NodeAction[Any]], document: Document
) -> tuple[Selection, KeyCommand | None]:
    """Return the key's first action that suits the selected node, or a message."""
    node = next(node for node in document["nodes"] if node["name"] == selection.node)
    for action in actions:
        if action.undo == HEAL and (fault := _fault_on(node, action.name, document["faults"])):
            return selection, Heal((fault["id"],))
        if liveness_of(node["state"]) in action.needs and _can_change_role(node, action):
            return selection, Act(action.name, node["name"])
    if actions[0].sets_role and node["kind"] != "broker":
        return attrs.evolve(selection, message=f"{node['name']} is a {node['kind']}: only brokers have roles"), None
    return attrs.evolve(
        selection, message=f"{node['name']} is {node['state']}{_remedy(actions[0], node['state'])}"
    ), None


def _can_change_role(node: Document, action: NodeAction[Any]) -> bool:
    """Return False if the action sets a role that the node has or cannot have."""
    role = "slave" if node["broker_id"] else "master"
    return action.sets_role is None or (node["kind"] == "broker" and role != action.sets_role)


def _remedy(action: NodeAction[Any], state: str) -> str:
    """Return a hint for a node on which an action makes no sense."""
    if liveness_of(state) is Liveness.ENDED:
        return f": {ACTIONS['start'].key} starts it"
    if Liveness.RUNNING not in action.needs:
        return f": nothing to {action.name}"
    return f" and cannot {action.name}: {ACTIONS['resume'].key} resumes it, {ACTIONS['kill'].key} kills it"


def _heal(selection: Selection, faults: Sequence[Document]) -> tuple[Selection, KeyCommand | None]:
    if not faults:
        return attrs.evolve(selection, message="no fault is in force"), None
    return selection, Heal(tuple(fault["id"] for fault in faults))


def in_order(nodes: Sequence[Document]) -> list[Document]:
    """Sort nodes as on screen: groups (master first), nameservers, workloads."""
    order = {"broker": 0, "nameserver": 1, "workload": 2}
    groups: dict[str, int] = {}
    for node in nodes:
        groups.setdefault(group_of(node), len(groups))

    def sort_key(node: Document) -> tuple[int, int, int]:
        return order[node["kind"]], groups[group_of(node)], node["broker_id"] or 0

    return sorted(nodes, key=sort_key)


def group_of(node: Document) -> str:
    """Return the broker name of a broker, and the name of any other node."""
    name: str = node["group"] or node["name"]
    return name


def first_selected(document: Document) -> str:
    """Return the node that keys act on before one was selected: the first master."""
    name: str = in_order(document["nodes"])[0]["name"]
    return name


def state_of(node: Document, faults: Sequence[Document]) -> str:
    """Return the node's state; `isolated` for a ready node that is cut off."""
    state: str = node["state"]
    return "isolated" if state == "ready" and _fault_on(node, "isolate", faults) else state


def _fault_on(node: Document, kind: str, faults: Sequence[Document]) -> Document | None:
    """Return the fault of this type that names this node, if one is in force."""
    planned = node.get("planned") or node  # targets are names of the cluster's record
    group, role = group_of(node), "slave" if planned["broker_id"] else "master"
    names = {node["name"]} | ({f"{group}:{role}", f"{group}:*"} if node["kind"] == "broker" else set())
    of_kind = (fault for fault in faults if fault["type"] == kind)
    return next((fault for fault in of_kind if names & {*target_words(fault["target"])}), None)
