"""The order in which Java iterates over a hash map of broker names.

mqadmin asks the first broker of a route (`queryCq` without `-b`, `updateTopicPerm -c`), or one after the other until one
refuses (`resetOffsetByTime`): its output depends on this order.
"""

import functools
from collections.abc import Collection

from rmqlab.remoting.hashmap import bucket_count, spread_hash

_spread = functools.lru_cache(maxsize=8192)(spread_hash)


def in_java_order(names: Collection[str]) -> list[str]:
    """Return names in the order in which a java.util.HashMap has them.

    They are given in the order of their insertion. Buckets follow one another, and names in one bucket keep their
    order. A map that had more names before keeps a larger table in Java; here the table fits the names.
    """
    if len(names) < 2:
        return list(names)
    last = bucket_count(len(names)) - 1
    return sorted(names, key=lambda name: _spread(name) & last)
