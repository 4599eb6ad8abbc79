"""Writes docs/audit-tables.md: `make pages` calls it."""

from rmqlab.pipeline.tables.audittables import TABLES

_HEAD = """# Tables of an audit

`rmqlab audit RUN` leaves parquet files in `RUN/audit/`. `audit_frames` returns them as DataFrames:

```python
from rmqlab.pipeline.auditframes import audit_frames
from rmqlab.pipeline.session import open_session

with open_session() as spark:
    tables = audit_frames(spark, "demo")
    tables["fates"].where("send.acknowledged and not is_stored").select("message_id", "send.broker").show()
    print(tables.describe("fates"))
```

A run is named as for `rmqlab audit`: the name of a cluster or a scenario, or a directory. Times are milliseconds of the
cluster's clock. [examples/notebook.py](../examples/notebook.py) plots a run from these tables.
"""


def render_page() -> str:
    """Return docs/audit-tables.md."""
    lines = [_HEAD]
    for table in TABLES:
        key = ", ".join(f"`{name}`" for name in table.key) or "none"
        lines += [
            f"## {table.name}",
            "",
            f"{table.text} Key: {key}.",
            "",
            "| column | type | content |",
            "|---|---|---|",
        ]
        lines += [f"| `{one.name}` | `{one.type}` | {one.text} |" for one in table.columns]
        lines += [""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(render_page(), end="")
