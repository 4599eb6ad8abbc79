"""A stream reader that only raises an error, for streams that a source refuses.

If `DataSource.streamReader` raised it, Spark would add an UnboundLocalError of its own below.
"""

from collections.abc import Iterator
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from rmqlab.pipeline.errors import without_traceback
from rmqlab.pipeline.options import OptionError


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises an OptionError at whichever method the query calls first."""

    def __init__(self, text: str) -> None:
        self.text = text

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> NoReturn:  # noqa: N802 - Spark's name
        raise OptionError(self.text)

    @without_traceback
    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        raise OptionError(self.text)

    @without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> NoReturn:  # noqa: ARG002, N802 - Spark's
        raise OptionError(self.text)

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:  # noqa: ARG002 - Spark's signature
        raise OptionError(self.text)

    @without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - Spark's signature
        raise OptionError(self.text)


def only_in_batches(source: str) -> RefusedStream:
    """Return the refusal of a source that has no streams."""
    return RefusedStream(f"{source}: there are no streams of this source: use spark.read instead of spark.readStream")
