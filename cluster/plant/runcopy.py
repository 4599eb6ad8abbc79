"""The copy of a run to plant a violation in: nodes, messages, random choices."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import attrs

from rmqlab.cluster.checks.events import Member, Send
from rmqlab.cluster.checks.history import History, read_history
from rmqlab.cluster.plant.logs import NodeLog, unique_id
from rmqlab.cluster.plant.model import Change, Edit, NothingToPlantError
from rmqlab.remoting.message import StoredMessage
from rmqlab.remoting.names import is_system_topic
from rmqlab.runtime.journals.journalfiles import SUPERVISOR, journal_path
from rmqlab.runtime.journals.journalreader import read_journals
from rmqlab.store.log.loglayout import log_directory

T = TypeVar("T")


@attrs.frozen
class RunCopy:
    """The copy of a run. The same seed makes the same choices."""

    root: Path
    seed: int
    random: random.Random
    at: str
    """The node to plant it at; empty to let the seed decide."""
    history: History

    @classmethod
    def open(cls, root: Path, kind: str, seed: int, at: str = "") -> "RunCopy":
        """Read the journals of a copy."""
        rng = random.Random(f"{kind} {seed}")  # noqa: S311 -- to be repeated, not to be secret
        return cls(root, seed, rng, at, read_history(read_journals(root / "journal")))

    # ---- choices ---------------------------------------------------------------------------------

    def pick(self, candidates: Iterable[str], what: str) -> str:
        """Choose a node: the requested one, else by the seed.

        NothingToPlantError without candidates, or if the requested node is not one of them.
        """
        found = list(candidates)
        if self.at:
            if self.at not in found:
                raise NothingToPlantError(
                    f"{self.at} is no place for it; expected {what}: {', '.join(found) or 'none'}"
                )
            return self.at
        if not found:
            raise NothingToPlantError(f"the run has no {what}")
        return found[(self.seed - 1) % len(found)]

    def choose(self, candidates: Sequence[T], what: str) -> T:
        """Choose one of several at random, from the middle half if there are enough."""
        if not candidates:
            raise NothingToPlantError(f"the run has no {what}")
        quarter = len(candidates) // 4
        return self.random.choice(candidates[quarter : len(candidates) - quarter])

    def foreign_id(self, like: str) -> str:
        """Make up a unique id of the same length as another."""
        return "".join(self.random.choices("0123456789ABCDEF", k=len(like)))

    # ---- nodes -----------------------------------------------------------------------------------

    @property
    def brokers(self) -> list[Member]:
        """The brokers that have a log, by name."""
        members = self.history.members.values()
        return sorted(
            (one for one in members if one.is_broker and self.log(one.name).directory.is_dir()),
            key=lambda one: one.name,
        )

    def members_of(self, broker: str) -> list[str]:
        """The nodes of a broker name that have a log, the master first."""
        return [one.name for one in sorted(self.brokers, key=lambda one: one.broker_id or 0) if one.broker == broker]

    def slaves_of(self, broker: str) -> tuple[str, ...]:
        """The slaves of a broker name, with or without a log."""
        return tuple(member.name for member in self.history.brokers(broker) if member.broker_id)

    def broker_of(self, node: str) -> str:
        return self.history.members[node].broker

    # ---- files -----------------------------------------------------------------------------------

    def store(self, node: str) -> Path:
        """The root of a node's store."""
        return self.root / node / "store"

    def log(self, node: str) -> NodeLog:
        return NodeLog(node, log_directory(self.store(node)))

    def logs(self, nodes: Iterable[str]) -> list[NodeLog]:
        return [self.log(node) for node in nodes]

    def journal(self, node: str) -> Path:
        return journal_path(self.root / "journal", node)

    def edit(self, node: str, path: Path, offset: int | None, text: str) -> Edit:
        """Describe one change."""
        return Edit(node=node, file=str(path.relative_to(self.root)), offset=offset, text=text)

    def edit_log(self, log: NodeLog, offset: int, text: str) -> Edit:
        """Describe a change at a commit log offset."""
        path, at = log.place(offset)
        return self.edit(log.node, path, at, text)

    # ---- messages --------------------------------------------------------------------------------

    def acknowledged(self, nodes: Sequence[str]) -> list[StoredMessage]:
        """Return acknowledged messages that each node has once, in log order.

        Not those that wait in a system topic.
        """
        sends = {send.ids[0]: send for send in self.history.sends if send.is_acknowledged and len(send.ids) == 1}
        found = [self._by_id(node) for node in nodes]
        return [
            records[0]
            for key, records in found[0].items()
            if key in sends
            and not is_system_topic(records[0].topic)
            and _is_where_sent(records[0], sends[key])
            and all(len(other.get(key, ())) == 1 for other in found)
            and len({other[key][0].physical_offset for other in found}) == 1
        ]

    def _by_id(self, node: str) -> dict[str, list[StoredMessage]]:
        by_id: dict[str, list[StoredMessage]] = {}
        for record in self.log(node).records():
            by_id.setdefault(unique_id(record), []).append(record)
        return by_id

    def victim(self, nodes: Sequence[str]) -> StoredMessage:
        """Choose an acknowledged message in the middle of the logs of these nodes."""
        return self.choose(self.acknowledged(nodes), f"acknowledged message in the log of {' and '.join(nodes)}")

    def change(
        self,
        nodes: Sequence[str],
        victims: Iterable[StoredMessage],
        edits: Iterable[Edit],
        *,
        made_up_ids: Sequence[str] = (),
    ) -> Change:
        """Sum up a change of the stores of one broker name."""
        ids = tuple(unique_id(record) for record in victims)
        return Change(edits=tuple(edits), victims=ids, made_up_ids=tuple(made_up_ids), broker=self.broker_of(nodes[0]))


def _is_where_sent(record: StoredMessage, send: Send) -> bool:
    if send.place is None:
        return False
    queue, offset = send.place
    return (record.topic, record.queue_id, record.queue_offset) == (queue.topic, queue.queue_id, offset)


# ---- where a kind is planted -----------------------------------------------------------------------------


def any_broker(copy: RunCopy) -> tuple[str, ...]:
    """A broker, master or slave."""
    return (copy.pick((one.name for one in copy.brokers), "broker"),)


def any_master(copy: RunCopy) -> tuple[str, ...]:
    """A master."""
    return (copy.pick((one.name for one in copy.brokers if not one.broker_id), "master"),)


def any_slave(copy: RunCopy) -> tuple[str, ...]:
    """A slave whose master has a log, too."""
    paired = (one.name for one in copy.brokers if one.broker_id and len(copy.members_of(one.broker)) > 1)
    return (copy.pick(paired, "slave"),)


def one_of_pair(copy: RunCopy) -> tuple[str, ...]:
    """A master or slave of a broker name with several logs."""
    paired = (one.name for one in copy.brokers if len(copy.members_of(one.broker)) > 1)
    return (copy.pick(paired, "master with a slave"),)


def whole_broker_name(copy: RunCopy) -> tuple[str, ...]:
    """The master and all slaves of one broker name."""
    master = copy.pick((one.name for one in copy.brokers if not one.broker_id), "master")
    return tuple(copy.members_of(copy.broker_of(master)))


def any_producer(copy: RunCopy) -> tuple[str, ...]:
    """A workload that sent messages."""
    return (copy.pick(_producers(copy), "producer"),)


def any_consumer(copy: RunCopy) -> tuple[str, ...]:
    """A workload that consumed or committed."""
    return (copy.pick(sorted(copy.history.group_of), "consumer"),)


def any_workload(copy: RunCopy) -> tuple[str, ...]:
    """A producer or consumer."""
    return (copy.pick(_by_turns(_producers(copy), sorted(copy.history.group_of)), "workload"),)


def any_node(copy: RunCopy) -> tuple[str, ...]:
    """A process other than the supervisor that keeps a journal."""
    return (copy.pick(_journalling(copy), "journal"),)


def supervisor(_copy: RunCopy) -> tuple[str, ...]:
    """The supervisor."""
    return (SUPERVISOR,)


def any_process(copy: RunCopy) -> tuple[str, ...]:
    """A process that keeps a journal, the supervisor last."""
    return (copy.pick([*_journalling(copy), SUPERVISOR], "journal"),)


def _producers(copy: RunCopy) -> list[str]:
    return sorted({send.node for send in copy.history.sends})


def _journalling(copy: RunCopy) -> list[str]:
    members = copy.history.members.values()
    brokers = sorted(member.name for member in members if member.is_broker)
    nameservers = sorted(member.name for member in members if member.is_nameserver)
    names = _by_turns(_producers(copy), sorted(copy.history.group_of), brokers, nameservers)
    return [name for name in names if copy.journal(name).exists()]


def _by_turns(*lists: Sequence[str]) -> list[str]:
    """Take the first of each list, then the second: few seeds reach all kinds."""
    longest = max(map(len, lists), default=0)
    return [names[index] for index in range(longest) for names in lists if index < len(names)]
