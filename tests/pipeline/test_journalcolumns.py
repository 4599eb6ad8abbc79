"""Columns of journal entries: each value by its column's type alone. No JVM."""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import hypothesis
import hypothesis.strategies as st
import msgpack
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from rmqlab.pipeline.journals import journalsource
from rmqlab.pipeline.journals.journalcolumns import as_json, field_columns
from rmqlab.pipeline.journals.journalsource import JournalSource
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalreader import Torn
from rmqlab.runtime.journals.journalsurvey import JournalSurvey, survey_range

TYPES = {
    "text": pa.string(), "small": pa.int32(), "large": pa.int64(), "ratio": pa.float64(), "is_late": pa.bool_(),
}  # fmt: skip
RIGHT = {
    "text": st.text(max_size=5), "small": st.integers(-(2**31), 2**31 - 1), "large": st.integers(-(2**63), 2**63 - 1),
    "ratio": st.floats(allow_nan=False), "is_late": st.booleans(),
}  # fmt: skip
ANY = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(max_size=5),
    st.binary(max_size=5), st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=2), st.integers()),
    st.sampled_from([1.0, -0.0, 2**31, 2**31 - 1, -(2**31), 2**63, 2**53 + 1]),
)  # fmt: skip
ENTRIES = st.one_of(
    st.fixed_dictionaries({}, optional=RIGHT),
    st.dictionaries(st.sampled_from([*TYPES, "other"]), ANY),
)


def expected(name: str, fields: Mapping[str, Any]) -> Any:
    value, kind = fields.get(name), type(fields.get(name))
    if value is None or name == "text":
        return value if value is None or kind is str else json.dumps(value, default=str)
    if name == "ratio":
        return float(value) if kind in (int, float, bool) else None
    if name == "is_late":
        return value if kind is bool else None
    bits = 31 if name == "small" else 63
    return value if kind is int and -(2**bits) <= value < 2**bits else None


@hypothesis.given(st.lists(ENTRIES, max_size=8), st.permutations(list(TYPES)), st.integers(1, len(TYPES)))
def test_every_value_follows_the_rules_of_its_column(
    entries: list[dict[str, Any]], names: list[str], asked: int
) -> None:
    columns = [pa.field(name, TYPES[name]) for name in names[:asked]]
    found = field_columns(columns, entries)
    assert [column.type for column in found] == [column.type for column in columns]
    for column, values in zip(columns, found, strict=True):
        assert values.to_pylist() == [expected(column.name, fields) for fields in entries], column.name


@pytest.mark.parametrize("value", [True, 2**31, 1.0, b"1", "1", [1]])
def test_a_value_that_is_no_integer_of_its_size_is_null(value: object) -> None:
    """A boolean, or an integer that did not fit, ended the read of the whole journal."""
    (column,) = field_columns([pa.field("small", pa.int32())], [{"small": 1}, {"small": value}])
    assert column.to_pylist() == [1, None]


def test_a_journal_is_read_in_batches_with_torn_bytes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journalsource, "_BATCH_ROWS", 4)
    fields = {"topic": "orders", "began_at": 0, "outcome": "refused"}
    entries = [
        msgpack.packb({"v": 1, "at": 1000 + n, "node": "a", "kind": "sent", "fields": fields | {"number": n}})
        for n in range(10)
    ]
    (tmp_path / "a.msgpack").write_bytes(b"".join([*entries[:5], b"\xc1" * 7, *entries[5:]]))
    schema = StructType(
        [
            StructField("number", LongType()), StructField("kind", StringType()), StructField("at", TimestampType()),
            StructField("place", LongType()), StructField("process", StringType()),
        ]
    )  # fmt: skip
    reader = JournalSource({"path": str(tmp_path)}).reader(schema)
    (partition,) = reader.partitions()
    batches = list(reader.read(partition))
    assert [batch.num_rows for batch in batches] == [4, 4, 3]
    rows = pa.Table.from_batches(batches).to_pylist()
    torn = rows.pop(5)
    size = len(entries[0])
    assert (torn["kind"], torn["number"], torn["at"], torn["place"]) == ("journal_torn", None, None, 5 * size)
    assert [row["number"] for row in rows] == list(range(10))
    assert [row["at"].timestamp() for row in rows] == [1 + n / 1000 for n in range(10)]
    assert [row["place"] for row in rows] == [n * size + 7 * (n >= 5) for n in range(10)]
    assert {(row["process"], row["kind"]) for row in rows} == {("a", "sent")}


def test_readers_of_the_same_files_share_one_pass(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journalsource, "_BATCH_ROWS", 4)
    kinds = ["sent", "consumed", "node_ready", "sent", "sent"] * 5
    entries = [
        msgpack.packb(
            {
                "v": 1,
                "at": 1000 + n,
                "node": "a",
                "kind": kind,
                "fields": {"topic": "orders", "began_at": 0, "outcome": "refused", "number": n},
            }
        )
        for n, kind in enumerate(kinds)
    ]
    (tmp_path / "a.msgpack").write_bytes(b"".join([*entries[:5], b"\xc1" * 7, *entries[5:]]))
    schema = StructType([StructField("place", LongType()), StructField("kind", StringType())])
    options: list[dict[str, str]] = [{"kinds": "sent"}, {"notKinds": "sent", "withSurveys": "true"}, {}]
    readers = [JournalSource({"path": str(tmp_path), **one}).reader(schema) for one in options]
    (partition,) = readers[0].partitions()
    surveys: list[JournalSurvey] = []

    def survey(file: int, of_range: JournalSurvey, end: int | None) -> Iterator[tuple[int, JournalEntry] | Torn]:
        surveys.append(of_range)
        return survey_range(file, of_range, end)

    with monkeypatch.context() as patched:
        patched.setattr(journalsource, "survey_range", survey)
        patched.delattr(journalsource, "read_range")
        together = list(journalsource.read_together(readers, partition))
    assert len(surveys) == 1
    for reader in readers:
        batches = [batch for which, batch in together if which is reader]
        assert batches == list(reader.read(partition))
    assert {row["kind"] for batch in readers[0].read(partition) for row in batch.to_pylist()} == {"sent"}
    others = [row["kind"] for batch in readers[1].read(partition) for row in batch.to_pylist()]
    assert (others.count("journal_torn"), others.count("journal_survey"), others.count("sent")) == (1, 1, 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1.5, "b": [None]}, '{"a": 1.5, "b": [null]}'),
        ({"a": float("inf"), "b": 7}, '{"a": "inf", "b": 7}'),
        ({b"k": 1, "b": {1: float("nan")}}, '{"b\'k\'": 1, "b": {"1": "nan"}}'),
    ],
)
def test_what_json_has_no_form_for_is_text(value: object, text: str) -> None:
    assert as_json(value) == text


def test_json_of_deeply_nested_values_is_cut() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    assert '"..."' in as_json(value)
