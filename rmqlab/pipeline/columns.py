"""Select the columns of a reader by the user's schema.

Spark does not prune columns of Python sources. Reference: spark.md section 3 (the Arrow schema must be equal to the
declared one, nullability included).
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rmqlab.pipeline.options import OptionError
from rmqlab.runtime.text.nearmiss import near_miss


def ddl(columns: Mapping[str, str]) -> str:
    """Return the schema of all columns as DDL: names and Spark types."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


_TYPES: Final[Mapping[str, DataType]] = {
    one.simpleString(): one for one in (StringType(), IntegerType(), LongType(), DoubleType(), TimestampType())
}


def struct_type(columns: Mapping[str, str]) -> StructType:
    """Return the schema of columns.

    Needs no session, as `StructType.fromDDL` does. KeyError for other types than numbers, texts and timestamps.
    """
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns.items()])


def check_unique(schema: StructType, *, source: str) -> None:
    """Raise OptionError for a column that the user's schema names twice.

    Spark would fail at the first batch.
    """
    counts = Counter(field.name for field in schema.fields)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise OptionError(f"{source}: the schema names column {twice[0]} {counts[twice[0]]} times")


def wanted_columns(schema: StructType, columns: Mapping[str, str], *, source: str) -> pa.Schema:
    """Return the Arrow schema of the requested columns.

    Raises OptionError for unknown columns, other types, and columns that are named twice.
    """
    check_unique(schema, source=source)
    for field in schema.fields:
        kind = columns.get(field.name)
        if kind is None:
            raise OptionError(f"{source}: there is no column {field.name}{near_miss(field.name, columns)}")
        if field.dataType.simpleString() != kind:
            raise OptionError(f"{source}: column {field.name} is {kind}, not {field.dataType.simpleString()}")
    return to_arrow_schema(schema, timezone="UTC")
