"""How far each consumer group has come in each queue (class ConsumerOffsetManager)."""

import pathlib
from collections.abc import Iterable, Mapping

from remoting.bodies.offset import ConsumerOffsets
from store.configfile import keep_config_file, load_config_file


class ConsumerOffsetTable:
    """Committed offsets: the key is `topic@group`, the value an offset by queue id."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        loaded = load_config_file(path, ConsumerOffsets.decode)
        self.offsets: dict[str, dict[int, int]] = dict(loaded.offset_table) if loaded else {}
        self.notes_own = False
        """True on a slave that shall keep what is committed to it (see broker.handback)."""
        self.own: dict[str, set[int]] = {}
        """Those queues, by `topic@group`, until the master has as much."""

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> int | None:
        """Store an offset, whatever was there before (broker-requests#44). Answers what was there."""
        key = f"{topic}@{group}"
        queues = self.offsets.setdefault(key, {})
        before = queues.get(queue_id)
        queues[queue_id] = offset
        if self.notes_own:
            self.own.setdefault(key, set()).add(queue_id)
        return before

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """The committed offset, or None."""
        return self.offsets.get(f"{topic}@{group}", {}).get(queue_id)

    def queues_of(self, group: str, topic: str) -> Mapping[int, int]:
        """What a group has committed in a topic, by queue id."""
        return self.offsets.get(f"{topic}@{group}", {})

    def topics_of(self, group: str) -> list[str]:
        """The topics in which a group has committed something."""
        return [topic for topic, name in self._keys() if name == group]

    def groups_of(self, topic: str) -> set[str]:
        """The groups that have committed something in a topic."""
        return {name for of_topic, name in self._keys() if of_topic == topic}

    def remove_group(self, group: str) -> None:
        """Drop all that a group has committed."""
        for topic in self.topics_of(group):
            del self.offsets[f"{topic}@{group}"]

    def clone(self, source: str, target: str, topic: str) -> None:
        """Let one group stand where another does in a topic."""
        if (queues := self.offsets.get(f"{topic}@{source}")) is not None:
            self.offsets[f"{topic}@{target}"] = dict(queues)

    def merge(self, fresh: ConsumerOffsets, kept: Mapping[str, Mapping[int, int]] | None = None) -> None:
        """Take a master's offsets: each of its keys replaces ours wholly, our own others stay (store-ha#60, #69).

        Those that are to be kept stay as well, and count as our own from now on.
        """
        kept = kept or {}
        self.offsets.update(fresh.offset_table)
        for key, queues in kept.items():
            self.offsets[key] = {**self.offsets.get(key, {}), **queues}
        self.own = {key: set(queues) for key, queues in kept.items()}
        self.save()

    def body(self) -> ConsumerOffsets:
        """The table as it goes over the wire and into the file."""
        return ConsumerOffsets(offset_table=self.offsets)

    def save(self) -> None:
        """Write consumerOffset.json."""
        keep_config_file(self._path, self.body().encode_pretty())

    def _keys(self) -> Iterable[tuple[str, str]]:
        """Topic and group of each key; one without a group, or with a second @, belongs to nobody, as in Java."""
        for key in self.offsets:
            topic, _, group = key.partition("@")
            if group and "@" not in group:
                yield topic, group
