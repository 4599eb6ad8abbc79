"""From bytes of a terminal to keys, and from keys to what is done. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

Document = Mapping[str, Any]

_ESCAPES = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down", b"\x1b[Z": "up"}
_PLAIN = {b"\t": "down", b"\x1b": "escape", b"\r": "enter", b"\n": "enter"}


def decode_keys(data: bytes) -> Iterator[str]:
    """Name the keys in what was read at once. Sequences that mean nothing here are passed over whole."""
    at = 0
    while at < len(data):
        if data[at : at + 3] in _ESCAPES:
            yield _ESCAPES[data[at : at + 3]]
            at += 3
        elif data[at : at + 2] in (b"\x1b[", b"\x1bO"):
            at += 2
            while at < len(data) and not 0x40 <= data[at] <= 0x7E:
                at += 1
            at += 1
        else:
            key = data[at : at + 1]
            yield _PLAIN.get(key) or key.decode("ascii", "ignore")
            at += 1


@attrs.frozen
class Act:
    """Do something to one node: a method of `rmqlab.cluster.lab.Cluster`, and its target."""

    verb: str
    target: str


@attrs.frozen
class Heal:
    """End faults, by id."""

    ids: tuple[str, ...]


@attrs.frozen
class Quit:
    """Stop the cluster."""


Deed = Act | Heal | Quit


@attrs.frozen
class Hand:
    """Where the user's hand is: the node that keys act on, and what was last said to the user."""

    selected: str = ""
    says: str = ""


ALIVE = ("starting", "ready", "paused", "stopping")
_VERBS = {"k": "kill", "x": "stop", "s": "start", "p": "pause", "i": "isolate"}


def press(hand: Hand, key: str, document: Document) -> tuple[Hand, Deed | None]:
    """What a key changes, and what is to be done. What makes no sense now is said, not done."""
    names = [node["name"] for node in in_order(document["nodes"])]
    hand = attrs.evolve(hand, says="", selected=hand.selected if hand.selected in names else first_selected(document))
    if key in ("up", "down"):
        step = 1 if key == "down" else -1
        return attrs.evolve(hand, selected=names[(names.index(hand.selected) + step) % len(names)]), None
    if key.isdigit() and 0 < int(key) <= len(names):
        return attrs.evolve(hand, selected=names[int(key) - 1]), None
    if key == "q":
        return hand, Quit()
    if key == "h":
        return _heal(hand, document["faults"])
    if key in _VERBS:
        return _act(hand, _VERBS[key], document)
    return hand, None


def _act(hand: Hand, verb: str, document: Document) -> tuple[Hand, Deed | None]:
    node = next(node for node in document["nodes"] if node["name"] == hand.selected)
    name, state = node["name"], node["state"]
    if verb == "isolate" and (fault := isolation_of(node, document["faults"])):
        return hand, Heal((fault["id"],))
    if verb == "pause" and state == "paused":
        return hand, Act("resume", name)
    if verb == "start" and state in ALIVE:
        return attrs.evolve(hand, says=f"{name} is {state}: nothing to start"), None
    if verb not in ("start", "isolate") and state not in ALIVE:
        return attrs.evolve(hand, says=f"{name} is {state}: s starts it"), None
    if verb == "stop" and state == "paused":
        return attrs.evolve(hand, says=f"{name} is paused and cannot stop in order: p lets it go on, k kills it"), None
    return hand, Act(verb, name)


def _heal(hand: Hand, faults: Sequence[Document]) -> tuple[Hand, Deed | None]:
    if not faults:
        return attrs.evolve(hand, says="no fault is in force"), None
    return hand, Heal(tuple(fault["id"] for fault in faults))


def in_order(nodes: Sequence[Document]) -> list[Document]:
    """Nodes as they are shown: brokers by group, the master first; nameservers; workloads."""
    order = {"broker": 0, "nameserver": 1, "workload": 2}
    groups: dict[str, int] = {}
    for node in nodes:
        groups.setdefault(group_of(node), len(groups))

    def place(node: Document) -> tuple[int, int, int]:
        return order[node["kind"]], groups[group_of(node)], node["broker_id"] or 0

    return sorted(nodes, key=place)


def group_of(node: Document) -> str:
    """Its broker name; its own name for what is no broker."""
    name: str = node["group"] or node["name"]
    return name


def first_selected(document: Document) -> str:
    """Whom the keys act on before anybody was chosen: the first master."""
    name: str = in_order(document["nodes"])[0]["name"]
    return name


def state_of(node: Document, faults: Sequence[Document]) -> str:
    """How a node is: that nobody hears of it counts for more than that it runs."""
    state: str = node["state"]
    return "isolated" if state == "ready" and isolation_of(node, faults) else state


def isolation_of(node: Document, faults: Sequence[Document]) -> Document | None:
    """The fault that cuts this node off, if one does."""
    planned = node.get("planned") or node  # targets name what the cluster's record has
    group, role = group_of(node), "slave" if planned["broker_id"] else "master"
    targets = (node["name"], f"{group}:{role}") if node["kind"] == "broker" else (node["name"],)
    return next((fault for fault in faults if fault["type"] == "isolate" and fault["target"] in targets), None)
