"""The page docs/journal.md: all kinds of events, and the journal as a table.

`python -m rmqlab.runtime.journals.schema.page` writes it.
"""

import textwrap
from collections.abc import Iterator

from rmqlab.runtime.journals.schema import EVENT_TYPES, EventType

_HEAD = """# Journal

Each process of a cluster writes its events to `journal/<process>.msgpack`. `rmqlab events` prints them, also of stopped
clusters; `rmqlab events --schema` prints this page's tables, with `--json` for programs.

On Spark the journals of a run are a table. `spark` is a session, such as that of [open_session](spark.md):

```python
events = spark.read.format("rmqlab-journal").load("~/.rmqlab/demo")
events.groupBy("node", "kind").count().orderBy("node", "count").show()

sends = spark.read.format("rmqlab-journal").option("kinds", "sent")  # attempts have an outcome, too
sent = sends.schema("at timestamp, outcome string, took double").load("~/.rmqlab/demo")
sent.groupBy("outcome").count().show()
```

| column | type | content |
|---|---|---|
| `process` | `string` | name of the journal's file, without ending |
| `place` | `bigint` | byte of the file at which the entry begins |
| `at` | `timestamp` | time of the event, of the cluster's clock |
| `node` | `string` | node or workload that the event is about; empty for the cluster |
| `kind` | `string` | kind of the event, see below |
| `fields` | `string` | its fields, as one JSON text |

`process` and `place` say where an entry is. With a schema of yours each other column is the field of that name: null
if the event does not have it, or has another type. `int`, `bigint`, `double`, `boolean` and `string` are possible. Only
the columns of the schema are decoded. Bytes that are not an event are a row of kind `journal_torn`.

Events of several kinds can have a field of the same name, such as `outcome` of `sent` and of `attempt_failed`. The
options `kinds` and `notKinds` select kinds, several with commas.

Peers can cause many events, for example by repeated connects. So the events of one kind that a broker or a nameserver
records have a budget: 8 MiB, and 256 bytes more each second. Events above it are left out. Their numbers are missing,
which `check` and `audit` report. `served`, `offset_committed`, `log_sampled`, `held_pulls_overdue`,
`transaction_checked` and `transaction_given_up` have no limit.

A field may be null where its value is unknown. The source is the process that records the event.
"""
_COLUMNS = 118


def render_page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(line for event in EVENT_TYPES.values() for line in _section(event))])


def _section(event: EventType) -> Iterator[str]:
    more = " It may have further fields." if event.is_open else ""
    text = textwrap.fill(f"{event.meaning} Source: {event.source}.{more}", _COLUMNS)
    yield from (f"## {event.name}", "", text, "")
    if event.fields:
        yield from ("| field | type | content |", "|---|---|---|")
        for name, field in event.fields.items():
            yield f"| `{name}` | {field.type} | {_cell(field.meaning)}{f', {field.unit}' if field.unit else ''} |"
        yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(render_page(), end="")
