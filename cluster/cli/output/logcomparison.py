"""Renders the comparison of two commit logs."""

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from rmqlab.cluster.cli.output.event_lines import clock_text
from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.printable import printable_values

Document = Mapping[str, Any]


def render_comparison(document: Document) -> list[Text]:
    """Render the ranges of two commit logs, where they differ, and the messages there."""
    document = printable_values(document)
    lines = []
    for side in (document["a"], document["b"]):
        line = Text(f"{side['target']}  ", "bold").append(f"commit log {side['min_offset']}..{side['max_offset']}", "")
        lines += [line, Text(f"  {side['directory']}", "dim")]
    verdict = Text(document["verdict"], "green" if document["verdict"] == "equal" else "red")
    lines.append(verdict.append(f": {document['reason']}", "default"))
    if document["common_to"] > document["common_from"]:
        lines.append(Text(f"common range {document['common_from']}..{document['common_to']}"))
    if document["last_common"]:
        lines.append(Text("last message before it: ").append(_record_line(document["last_common"])))
    for part, what in (("differing", "that differ"), ("beyond", "beyond the other's end")):
        for side in (document["a"], document["b"]):
            if records := side[part]:
                lines += _record_lines(side["target"], what, records)
    return lines


def _record_lines(target: str, what: str, records: Document) -> list[Text]:
    count = counted(records["record_count"], "messages")
    head = Text(target, "bold").append(f" has {count}, {counted(records['byte_count'], 'bytes')}, {what}", "default")
    lines = [head, *(Text("  ").append(_record_line(record)) for record in records["first"])]
    if records["record_count"] > len(records["first"]):
        lines.append(Text(f"  ... and {records['record_count'] - len(records['first'])} more", "dim"))
    return lines


def _record_line(record: Document) -> str:
    born = clock_text(record["born_millis"])
    return (
        f"{record['offset']} {record['topic']}-{record['queue_id']} #{record['queue_offset']}"
        f" {record['message_id'] or record['offset_message_id']} born {born}"
        f" ({record['size']} bytes{'' if record['is_intact'] else ', spoilt'})"
    )
