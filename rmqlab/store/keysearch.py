"""Finding messages by key, through the index (store-and-ha section 3.3)."""

from collections.abc import Generator

from rmqlab.store.batches.keyreader import is_record_of
from rmqlab.store.keyindex.index import Index
from rmqlab.store.keyindex.indexing import key_hash
from rmqlab.store.log.commitlog import CommitLog
from rmqlab.store.results import QueryResult

_LONGEST_KEY = 2**16
"""Characters of `topic#key`. Keys are among the properties of a message, which have at most 32,767."""


def search_by_key(
    index: Index | None, log: CommitLog, topic_and_key: str, limit: int, begin: int, end: int
) -> Generator[None, None, QueryResult]:
    """Return at most `limit` records with this key's hash, oldest first.

    A generator: the caller may do other work at each yield. The key is one of the record's keys or its unique key.
    `begin` and `end` are store times in ms, both included. As in RocketMQ, the client compares the keys themselves.
    Each record found is checked against its hash, because after a torn write or in a damaged file an entry may point
    anywhere (issue 12.13).
    """
    if len(topic_and_key) > _LONGEST_KEY:
        return QueryResult([], 0, 0)
    hashed = key_hash(topic_and_key.encode("utf-8", "replace"))
    found, right = list[int](), list[int]()
    if index is not None:
        yield from index.search(hashed, found, limit, begin, end)
    for offset in sorted(found):
        record = log.record(offset)
        if record is not None and is_record_of(record, offset, hashed):
            right.append(offset)
        record = None  # its file may be closed before the search continues
        yield
    if index is None or not found or not index.files:  # RocketMQ reports the end of its index only with records from it
        return QueryResult([], 0, 0)
    records = [record for offset in right if (record := log.record(offset)) is not None]
    newest = index.files[-1]
    return QueryResult(records, newest.end_timestamp, newest.end_physical)
