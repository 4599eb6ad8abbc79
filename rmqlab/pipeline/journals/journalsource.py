"""The data source `rmqlab-journal`: events in the journals of a cluster or run.

    spark.read.format("rmqlab-journal").load("~/.rmqlab/runs/master-killed/latest")
    spark.read.format("rmqlab-journal").schema("at timestamp, kind string, outcome string, offset bigint").load(run)

Without a schema the columns are `process` (of the file), `place` (byte position in it), `at`, `node`, `kind`, and all
fields as one JSON text. In a user's schema any other column contains the field of that name: null if an event does not
have it, or if it has another type (`journalcolumns`). Bytes that are not an event are a row of kind `journal_torn`,
with the fields `at` and `size` in bytes. With the option `withSurveys` each range read adds a row of kind
`journal_survey` (`rmqlab.runtime.journals.journalsurvey`).
"""

import functools
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rmqlab.pipeline.columns import check_unique, ddl
from rmqlab.pipeline.errors import NoPathError, without_traceback
from rmqlab.pipeline.journals.journalcolumns import as_json, field_columns
from rmqlab.pipeline.journals.journalranges import (
    JournalRange,
    NoJournalError,
    journal_files,
    journal_ranges,
    read_range,
)
from rmqlab.pipeline.options import (
    OptionError,
    at_least_bytes,
    bind_options,
    boolean,
    check_known,
    json_texts,
    names,
    option,
    text,
)
from rmqlab.pipeline.paths.sourcepaths import AnyPath, find_all, given_paths, local_file
from rmqlab.pipeline.refusedstream import RefusedStream, only_in_batches
from rmqlab.runtime.journals.journalentry import JournalEntry
from rmqlab.runtime.journals.journalreader import Torn
from rmqlab.runtime.journals.journalsurvey import JournalSurvey, survey_range
from rmqlab.runtime.journals.schema import EVENT_TYPES

NAME = "rmqlab-journal"
TORN_KIND = "journal_torn"
SURVEY_KIND = "journal_survey"
COLUMNS = {
    "process": "string",
    "place": "bigint",
    "at": "timestamp",
    "node": "string",
    "kind": "string",
    "fields": "string",
}
_FIELD_TYPES = ("string", "int", "bigint", "double", "boolean")
_BATCH_ROWS = 8192
_PATH = "the directory of a run or a cluster"


@attrs.frozen(kw_only=True)
class JournalOptions:
    """Options of the source."""

    path: str = option("path", text, _PATH, default="")
    paths: tuple[str, ...] = option("paths", json_texts, "several of them", default=())
    with_old: bool = option("withOld", boolean, "true: also what earlier starts of the cluster wrote", default=False)
    kinds: tuple[str, ...] = option("kinds", names, "only events of these kinds", default=())
    not_kinds: tuple[str, ...] = option("notKinds", names, "all but events of these kinds", default=())
    with_surveys: bool = option("withSurveys", boolean, "true: also a row about each range of a file", default=False)
    partition_bytes: int = option(
        "maxPartitionBytes", at_least_bytes(1024), "bytes of a file in one task", default=32 * 2**20
    )

    def files(self) -> list[AnyPath]:
        """Return the files to read. Raises OptionError if there are none."""
        paths = given_paths(self.path, self.paths, source=NAME, meaning=_PATH)
        find = functools.partial(journal_files, with_old=self.with_old)
        try:
            return find_all(paths, find, empty=NoJournalError)
        except (NoJournalError, NoPathError) as exc:
            raise OptionError(f"{NAME}: {exc}") from None

    def check_kinds(self) -> None:
        """Raise OptionError for an unknown kind, or one that is wanted and unwanted."""
        check_known("kind", (*self.kinds, *self.not_kinds), (*EVENT_TYPES, TORN_KIND, SURVEY_KIND), source=NAME)
        if both := sorted(set(self.kinds) & set(self.not_kinds)):
            raise OptionError(f"{NAME}: options kinds and notKinds both name {', '.join(both)}")


class JournalSource(DataSource):
    """Data source `rmqlab-journal`; see the module's docstring."""

    @without_traceback
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.bound = bind_options(JournalOptions, dict(options), source=NAME)
        self.bound.check_kinds()
        self.files = self.bound.files()

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return ddl(COLUMNS)

    def streamReader(self, schema: StructType) -> RefusedStream:  # noqa: ARG002, N802 - Spark's signature
        return only_in_batches(NAME)

    @without_traceback
    def reader(self, schema: StructType) -> "JournalReader":
        check_unique(schema, source=NAME)
        for field in schema.fields:
            kind, allowed = field.dataType.simpleString(), COLUMNS.get(field.name)
            if allowed is None and kind not in _FIELD_TYPES:
                raise OptionError(f"{NAME}: column {field.name} is {kind}; fields are {', '.join(_FIELD_TYPES)}")
            if allowed is not None and kind != allowed:
                raise OptionError(f"{NAME}: column {field.name} is {allowed}, not {kind}")
        return JournalReader(self.files, self.bound, to_arrow_schema(schema, timezone="UTC"))


class JournalPartition(InputPartition):
    """A range of a file, read by one task."""

    def __init__(self, part: JournalRange) -> None:
        super().__init__(part)


class JournalReader(DataSourceReader):
    """Plans ranges of the files, and reads each of them independently."""

    def __init__(self, files: Sequence[AnyPath], options: JournalOptions, schema: pa.Schema) -> None:
        self.files = files
        self.options = options
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        return [JournalPartition(part) for part in journal_ranges(self.files, self.options.partition_bytes)]

    @without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from (batch for _, batch in read_together([self], partition))

    def is_wanted(self, kind: str) -> bool:
        """Return True if this reader has rows of a kind of event."""
        options = self.options
        if kind == SURVEY_KIND and not options.with_surveys:
            return False
        return kind not in options.not_kinds and (not options.kinds or kind in options.kinds)

    def batch(self, part: JournalRange, rows: Sequence[tuple[int, JournalEntry]]) -> pa.RecordBatch:
        """Return entries, each with its byte position, in this reader's columns."""
        entries = [entry for _, entry in rows]
        asked = [field for field in self.schema if field.name not in COLUMNS]
        of_fields = iter(field_columns(asked, [entry.fields for entry in entries]) if asked else ())
        columns = []
        for field in self.schema:
            if field.name == "process":
                column = pa.repeat(part.process, len(rows))
            elif field.name == "place":
                column = pa.array([place for place, _ in rows], field.type)
            elif field.name in COLUMNS:
                column = _entry_column(field, entries)
            else:
                column = next(of_fields)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def read_together(
    readers: Sequence[JournalReader], partition: InputPartition
) -> Iterator[tuple[JournalReader, pa.RecordBatch]]:
    """Read a range once for several readers of the same files; yield their batches."""
    if partition.value is None:  # Spark's value for a source without partitions
        return
    with local_file(partition.value.path) as path:
        part = attrs.evolve(partition.value, path=str(path))
        found = (
            _surveyed(part) if any(reader.options.with_surveys for reader in readers) else map(_row, read_range(part))
        )
        waiting: list[list[tuple[int, JournalEntry]]] = [[] for _ in readers]
        by_kind: dict[str, list[int]] = {}
        for row in found:
            kind = row[1].kind
            if (wanted := by_kind.get(kind)) is None:
                wanted = by_kind[kind] = [nth for nth, reader in enumerate(readers) if reader.is_wanted(kind)]
            for nth in wanted:
                waiting[nth].append(row)
                if len(waiting[nth]) == _BATCH_ROWS:
                    yield readers[nth], readers[nth].batch(part, waiting[nth])
                    waiting[nth] = []
        for reader, rows in zip(readers, waiting, strict=True):
            if rows:
                yield reader, reader.batch(part, rows)


def _surveyed(part: JournalRange) -> Iterator[tuple[int, JournalEntry]]:
    """Yield the rows of a range, and its survey as the last one."""
    survey = JournalSurvey(process=part.process, size=Path(part.path).stat().st_size, begin=part.start)
    with Path(part.path).open("rb") as file:
        yield from map(_row, survey_range(file.fileno(), survey, part.end))
    yield part.start, JournalEntry(0, "", SURVEY_KIND, survey.as_fields())


def _entry_column(field: pa.Field, entries: Sequence[JournalEntry]) -> pa.Array:
    """Return the column `at`, `node`, `kind` or `fields`."""
    if field.name == "at":
        return pa.array([_instant(entry) for entry in entries], pa.timestamp("ms", "UTC")).cast(field.type)
    if field.name == "fields":
        return pa.array([as_json(entry.fields) for entry in entries], field.type)
    return pa.array([getattr(entry, field.name) for entry in entries], field.type)


def _row(found: tuple[int, JournalEntry] | Torn) -> tuple[int, JournalEntry]:
    if isinstance(found, Torn):
        return found.at, JournalEntry(0, "", TORN_KIND, attrs.asdict(found))
    return found


def _instant(entry: JournalEntry) -> int | None:
    """Return the time of an event in ms; None for a row about the file itself."""
    return None if entry.kind in (TORN_KIND, SURVEY_KIND) else entry.at_millis
