"""Finding messages by key, through the index (store-and-ha section 3.3)."""

from rmqlab.store.commitlog import CommitLog
from rmqlab.store.index import Index, key_hash
from rmqlab.store.keyreader import is_record_of
from rmqlab.store.results import QueryResult


def records_by_key(
    index: Index | None, log: CommitLog, topic_and_key: str, limit: int, begin: int, end: int
) -> QueryResult:
    """Return at most `limit` records with this key's hash, oldest first.

    The key is one of the record's keys or its unique key. `begin` and `end` are store times in ms, both included. As in
    RocketMQ, the client compares the keys themselves. Each record found is checked against its hash, because after a
    torn write or in a damaged file an entry may point anywhere (issue 12.13).
    """
    found = index.find(topic_and_key, limit, begin, end) if index is not None and index.files else []
    if index is None or not found:  # RocketMQ reports the end of its index only with records that it found there
        return QueryResult([], 0, 0)
    hashed = key_hash(topic_and_key.encode("utf-8", "replace"))
    records = [(offset, log.record(offset)) for offset in sorted(found)]
    right = [one for offset, one in records if one is not None and is_record_of(one, offset, hashed)]
    newest = index.files[-1]
    return QueryResult(right, newest.end_timestamp, newest.end_physical)
