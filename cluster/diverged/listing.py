"""Lists the messages that a slave cut from its log (issue 16, part 3).

A slave with `ha_truncate_diverged` keeps what it cuts in `store/diverged/`. Whether a message was acknowledged is known
from the journals of the cluster's producers; whether its group has it elsewhere, from the logs of all of its brokers.
The brokers may be running. Blocks while logs are read.
"""

import contextlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import attrs

from rmqlab.cluster.supervisor.files.directory import ClusterDirectory
from rmqlab.cluster.supervisor.files.nodestore import store_config
from rmqlab.cluster.supervisor.plan.topology import Node
from rmqlab.remoting.header import java_number
from rmqlab.remoting.message import (
    PROPERTY_DELAY,
    PROPERTY_KEYS,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    StoredMessage,
)
from rmqlab.remoting.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, is_system_topic
from rmqlab.runtime.journals.journalsurvey import survey_journals
from rmqlab.store.offline.diverged import CutDamage, CutMessage, read_diverged
from rmqlab.store.offline.scan import LogScan


@attrs.frozen(kw_only=True)
class DivergedMessage:
    """A message that is no longer in a slave's log."""

    message: StoredMessage
    file: str
    outcome: str | None
    """Outcome of its last send; None if no journal has one."""
    in_logs: tuple[str, ...]
    """Brokers of the group whose log has it, under the same unique key."""

    @property
    def unique_key(self) -> str:
        return self.message.properties.get(PROPERTY_UNIQ_KEY, "")

    @property
    def message_id(self) -> str:
        """Return the unique key, or the offset message id without one."""
        return self.unique_key or self.message.offset_message_id

    @property
    def topic(self) -> str:
        """Return the topic that the producer sent it to."""
        if self.message.topic == SCHEDULE_TOPIC:
            return self.message.properties.get(PROPERTY_REAL_TOPIC, SCHEDULE_TOPIC)
        return self.message.topic

    @property
    def delay_level(self) -> int:
        """Return the level as a broker reads it; 0 for text that is not one."""
        with contextlib.suppress(ValueError):
            return max(0, java_number(self.message.properties.get(PROPERTY_DELAY, "0")))
        return 0

    @property
    def obstacle(self) -> str:
        """Return why it cannot be sent again; empty if it can."""
        if is_system_topic(self.topic):
            return f"{self.topic} is a system topic: its producer, or the broker, decides about the message"
        if self.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            return f"{self.topic} is the topic of a consumer group"
        return ""

    def as_json(self) -> dict[str, Any]:
        properties = self.message.properties
        return {
            "message_id": self.message_id,
            "offset_message_id": self.message.offset_message_id,
            "topic": self.topic,
            "queue": self.message.queue_id,
            "queue_offset": self.message.queue_offset,
            "keys": properties.get(PROPERTY_KEYS, ""),
            "tags": properties.get(PROPERTY_TAGS, ""),
            "delay_level": self.delay_level,
            "stored_at": self.message.store_timestamp,
            "size": self.message.store_size,
            "outcome": self.outcome,
            "in_logs": list(self.in_logs),
            "obstacle": self.obstacle,
            "file": self.file,
        }


@attrs.frozen(kw_only=True)
class Listing:
    """The messages that a slave cut, and unreadable parts of the saved files."""

    messages: tuple[DivergedMessage, ...]
    damages: tuple[CutDamage, ...]


def list_diverged(directory: ClusterDirectory, node: Node, nodes: Iterable[Node]) -> Listing:
    """Return the messages cut from a log. OSError if a directory cannot be read."""
    found = list(read_diverged(store_config(directory, node.name).store_path_root_dir))
    cut = [one for one in found if isinstance(one, CutMessage)]
    ids = {key for one in cut if (key := one.message.properties.get(PROPERTY_UNIQ_KEY))}
    outcomes = _outcomes(directory, ids)
    members = [other for other in nodes if other.group == node.group]
    logs = {member.name: _ids_in_log(directory, member.name, ids) for member in members} if ids else {}
    return Listing(
        messages=tuple(_diverged(one, outcomes, logs) for one in cut),
        damages=tuple(one for one in found if isinstance(one, CutDamage)),
    )


def _diverged(cut: CutMessage, outcomes: Mapping[str, str], logs: Mapping[str, set[str]]) -> DivergedMessage:
    key = cut.message.properties.get(PROPERTY_UNIQ_KEY, "")
    return DivergedMessage(
        message=cut.message,
        file=cut.file.name,
        outcome=outcomes.get(key),
        in_logs=tuple(name for name, ids in logs.items() if key in ids),
    )


def _outcomes(directory: ClusterDirectory, ids: Collection[str]) -> dict[str, str]:
    """Return the last outcome of each message that a journal has a send of."""
    if not directory.journal_dir.is_dir():
        return {}
    journals, _ = survey_journals(directory.journal_dir)
    outcomes = {}
    for journal in journals:
        for entry in journal:
            if entry.kind == "sent":
                for key in str(entry.fields.get("message_id") or "").split(","):
                    if key in ids:
                        outcomes[key] = str(entry.fields.get("outcome"))
    return outcomes


def _ids_in_log(directory: ClusterDirectory, node: str, ids: Collection[str]) -> set[str]:
    log = store_config(directory, node).store_path_commit_log
    found: set[str] = set()
    with contextlib.suppress(FileNotFoundError):
        for message in LogScan(log).messages():
            if (key := message.properties.get(PROPERTY_UNIQ_KEY)) in ids and key is not None:
                found.add(key)
    return found
