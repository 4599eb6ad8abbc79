"""Which columns a reader is to give: Spark prunes none for a Python source, so a schema of the user's own does.

Reference: spark.md section 3 (the Arrow schema must be equal to the declared one, nullability included).
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from rmqlab.pipeline.options import OptionError, near_miss


def ddl(columns: Mapping[str, str]) -> str:
    """The schema of all columns: their names and Spark types as Spark reads them."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def wanted_columns(schema: StructType, columns: Mapping[str, str], *, source: str) -> pa.Schema:
    """The Arrow schema of what was asked for. OptionError for a column that there is not, or of another type."""
    for field in schema.fields:
        kind = columns.get(field.name)
        if kind is None:
            raise OptionError(f"{source}: there is no column {field.name}{near_miss(field.name, columns)}")
        if field.dataType.simpleString() != kind:
            raise OptionError(f"{source}: column {field.name} is a {kind}, not a {field.dataType.simpleString()}")
    return to_arrow_schema(schema, timezone="UTC")
