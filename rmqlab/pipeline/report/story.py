"""Five sentences about a run: events, their causes, and advice.

Each number links to its evidence.

The sentences are built from the audit's findings and tables alone, so every run's page has them.
"""

from collections.abc import Iterator
from typing import Any

import attrs

from rmqlab.pipeline.report.data import RunData

_WENT = {
    "killed": "was killed",
    "stopped": "was stopped",
    "crashed": "crashed",
    "paused": "was paused",
    "isolated": "was isolated",
}
_MOST_ABSENCES = 2


@attrs.frozen
class Link:
    """Text that links to a place on the page."""

    text: str
    anchor: str


Sentence = tuple[str | Link, ...]


def anchor_of(metric: str) -> str:
    """Return the id of a metric's row on the page."""
    return "m-" + "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in metric)


def write_story(data: RunData) -> list[Sentence]:
    """Return sentences: cluster, faults, effect on clients, messages, and advice."""
    return [_setting(data), _faults(data), _service(data), _messages(data), _advice(data)]


def _setting(data: RunData) -> Sentence:
    facts = data.facts
    groups = f"{facts.groups} {facts.role or 'broker'} group{'s' if facts.groups != 1 else ''}".strip()
    slaves = (
        f" with {_count(facts.slaves, 'slave')} each" if facts.groups != 1 else f" with {_count(facts.slaves, 'slave')}"
    )
    workloads = sum(1 for node in data.ready if not data.ready[node].get("address"))
    return (
        Link(groups, "nodes"),
        (
            f"{slaves}, {_count(facts.nameservers, 'nameserver')} and {_count(workloads, 'workload')}"
            f" ran for {data.seconds:.1f} s of the cluster's time."
        ),
    )


def _faults(data: RunData) -> Sentence:
    away = [row for row in data.table("absences") if data.ready.get(row["node"], {}).get("address")]
    away.sort(key=lambda row: row["at"])
    faults = [event for event in data.events if event["kind"] in ("fault_applied", "role_changed")]
    if not away and not faults:
        return ("No node was down, and no fault was applied.",)
    absences = [_absence(data, row) for row in away[:_MOST_ABSENCES]]
    absences += [_fault(data, event) for event in faults[: _MOST_ABSENCES - len(absences)]]
    more = len(away) + len(faults) - len(absences)
    parts: list[str | Link] = []
    for index, (where, rest) in enumerate(absences):
        parts += ["; " if index else "At ", Link(where, "nodes"), rest]
    return (*parts, f"; {_count(more, 'more fault')} followed." if more else ".")


def _absence(data: RunData, row: dict[str, Any]) -> tuple[str, str]:
    node, began = str(row["node"]), (row["at"] - data.began_at) / 1000
    role = data.role_of(node, row["at"])
    name = f"{node} (the {role})" if role else node
    back = "did not come back"
    if row["until"] is not None:
        back = f"came back {(row['until'] - row['at']) / 1000:.1f} s later"
    return f"{began:.1f} s", f" {name} {_WENT.get(row['how'], row['how'])} and {back}"


def _fault(data: RunData, event: dict[str, Any]) -> tuple[str, str]:
    fields = event["fields"]
    if event["kind"] == "role_changed":
        role = "slave" if fields["broker_id"] else "master"
        return f"{(event['at'] - data.began_at) / 1000:.1f} s", f" {event['node']} was made a {role}"
    target = fields.get("target") or f"{fields.get('src', '?')} to {fields.get('dst', '?')}"
    what = " ".join(str(fields[key]) for key in ("fault", "fault_kind") if fields.get(key))
    return f"{(event['at'] - data.began_at) / 1000:.1f} s", f" a fault began: {what}, {target}"


def _service(data: RunData) -> Sentence:
    write, read = data.longest("write_unavailable "), data.longest("read_unavailable ")
    parts: list[str | Link] = []
    if write is None:
        parts.append("No workload sent anything")
    elif not write[1]["value"]:
        parts.append("No write outage was long enough to be counted")
    else:
        parts += ["No workload could write to ", f"{write[0].partition(' ')[2]} for ", _number(*write)]
        for outcome, one, many in (
            ("refused", "send was refused", "sends were refused"),
            ("indeterminate", "is indeterminate", "are indeterminate"),
        ):
            metric = f"sent.{outcome}"
            if count := data.value(metric):
                parts += ["; ", Link(f"{count:,} {one if count == 1 else many}", anchor_of(metric))]
    if read is None:
        return (*parts, "; no consumer read anything.")
    if not read[1]["value"]:
        return (*parts, "; reads were available throughout.")
    return (*parts, "; reads were unavailable for ", _number(*read), ".")


def _messages(data: RunData) -> Sentence:
    lost = data.findings.get("lost")
    if lost is None or lost["value"] is None:
        why = "; it is unknown how many messages were lost" if lost else ""
        return (
            Link("Evidence is missing", anchor_of("lost")),
            f"{why}: {lost['missing'] if lost else 'nothing was sent'}.",
        )
    count = int(lost["value"])
    text = (
        "No acknowledged message was lost"
        if not count
        else f"{_count(count, 'acknowledged message')} {'was' if count == 1 else 'were'} lost"
    )
    parts: list[str | Link] = [Link(text, anchor_of("lost"))]
    for metric, one, many in (
        ("stored_twice", "message is stored twice", "messages are stored twice"),
        ("duplicates", "delivery was a duplicate", "deliveries were duplicates"),
        ("offset_rollbacks", "consumer offset moved back", "consumer offsets moved back"),
    ):
        if value := data.value(metric):
            parts += ["; ", Link(f"{value:,} {one if value == 1 else many}", anchor_of(metric))]
    return (*parts, ".")


def _advice(data: RunData) -> Sentence:
    return ("What to do: ", " ".join(_advices(data)) or "nothing.")


def _advices(data: RunData) -> Iterator[str]:
    """Yield at most two, the most urgent first."""
    found = [text for condition, text in _rules(data) if condition]
    yield from found[:2]


def _rules(data: RunData) -> Iterator[tuple[bool, str]]:
    lost, role = bool(data.value("lost")), data.facts.role
    is_unknown, missing = data.summary["verdict"] == "unknown", data.findings.get("lost", {}).get("missing")
    is_without_stores = is_unknown and missing == "no store was given"
    yield is_without_stores, "Play the run again with `--keep-stores`: the verdict depends on the stores."
    yield is_unknown and not is_without_stores, "Provide the missing evidence first: the verdict depends on it."
    yield (
        lost and role == "ASYNC_MASTER",
        "Use SYNC_MASTER, so that SEND_OK means that a slave has the message.",
    )
    yield lost and role != "ASYNC_MASTER", "See the lost messages below, and why each store does not have them."
    yield (
        any(value for metric, value in data.values("divergence ")),
        "Let the slave start from an empty store, or use the profile hardened, in which a slave cuts off what differs.",
    )
    yield (
        any(value for metric, value in data.values("write_unavailable ")),
        (
            "RocketMQ 4.9 does not promote slaves: run a second group, so that producers have another master, or"
            " restart the master quickly."
        ),
    )
    yield bool(data.value("duplicates")), "Make consumers idempotent: a message may be delivered more than once."


def _number(metric: str, finding: Any) -> Link:
    at_least = "at least " if finding["at_least"] else ""
    return Link(f"{at_least}{finding['value']:.1f} s", anchor_of(metric))


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
