"""Results of the store: RocketMQ's status names, with offsets and bytes."""

import enum
from collections.abc import Callable, Sequence

import attrs
import msgspec


class PutStatus(enum.Enum):
    """Section 3.8. The first four mean that the message is stored."""

    PUT_OK = enum.auto()
    FLUSH_DISK_TIMEOUT = enum.auto()
    FLUSH_SLAVE_TIMEOUT = enum.auto()
    SLAVE_NOT_AVAILABLE = enum.auto()
    SERVICE_NOT_AVAILABLE = enum.auto()
    CREATE_MAPEDFILE_FAILED = enum.auto()
    MESSAGE_ILLEGAL = enum.auto()
    PROPERTIES_SIZE_EXCEEDED = enum.auto()
    OS_PAGECACHE_BUSY = enum.auto()
    UNKNOWN_ERROR = enum.auto()


class GetStatus(enum.Enum):
    """Section 6.3. The names are the remarks of pull responses."""

    FOUND = enum.auto()
    NO_MATCHED_MESSAGE = enum.auto()
    MESSAGE_WAS_REMOVING = enum.auto()
    OFFSET_FOUND_NULL = enum.auto()
    OFFSET_OVERFLOW_BADLY = enum.auto()
    OFFSET_OVERFLOW_ONE = enum.auto()
    OFFSET_TOO_SMALL = enum.auto()
    NO_MATCHED_LOGIC_QUEUE = enum.auto()
    NO_MESSAGE_IN_QUEUE = enum.auto()


@attrs.define(eq=False)
class Decision:
    """The result of a put in a DLedger group: whether a quorum has stored it."""

    status: PutStatus | None = None
    """None while the group has not decided."""
    cause: str | None = None
    """Why the status is not PUT_OK."""
    _observers: list[Callable[[PutStatus, str | None], None]] = attrs.field(factory=list, init=False)

    def when_made(self, fn: Callable[[PutStatus, str | None], None]) -> None:
        """Call `fn` with status and cause, now or later."""
        if self.status is None:
            self._observers.append(fn)
        else:
            fn(self.status, self.cause)

    def make(self, status: PutStatus, cause: str | None = None) -> None:
        """Set the result, once, and call the waiting functions."""
        self.status, self.cause = status, cause
        observers, self._observers = self._observers, []
        for fn in observers:
            fn(status, cause)


class PutResult(msgspec.Struct, eq=False):
    """Offsets are those of the record, for a batch of its first; all 0 unless stored."""

    status: PutStatus
    physical_offset: int = 0
    end_offset: int = 0
    queue_offset: int = 0
    store_timestamp: int = 0
    physical_offsets: Sequence[int] | None = None  # batch only: of every record
    reason: str = ""  # why it was refused
    decision: Decision | None = None  # of a group, which may still truncate the record

    @property
    def is_stored(self) -> bool:
        return self.status is PutStatus.PUT_OK


@attrs.define(slots=True, eq=False)
class GetResult:
    """Result of a pull from the store.

    Its buffers are views into mapped files: send or copy them before this pass of the loop ends.
    """

    status: GetStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    buffers: list[memoryview] = attrs.field(factory=list)  # whole records; neighbours are one buffer
    count: int = 0
    size: int = 0
    suggest_slave: bool = False


@attrs.define(slots=True, eq=False)
class QueryResult:
    """Result of a query by key: whole records, and the end of the index.

    The end is that of the newest index file: store time in ms and commit log offset of its last record.
    """

    buffers: list[memoryview]
    index_last_update_timestamp: int
    index_last_update_phyoffset: int
