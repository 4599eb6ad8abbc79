"""Limits of the route table (issue 12.6)."""

MAX_BROKER_NAMES = 5_000
MAX_ADDRESSES = 10_000
"""Brokers that are live."""
MAX_IDS = 1_000
"""Brokers of one name."""
MAX_CLUSTERS = 1_000
MAX_MEMBERSHIPS = 20_000
"""Pairs of a cluster and a broker name: a name may be in several clusters."""
MAX_QUEUE_DATA = 1_000_000
"""Pairs of a topic and a broker name. Each needs some 200 bytes; a registration costs 1 to 2 us for each topic."""
MAX_TOPIC_CHARACTERS = 32 * 2**20
"""In the names of all topics together: request 206 lists them all, and a client of 4.9.8 reads frames up to 16 MiB."""
MAX_FILTER_SERVERS = 1_000
"""Maximum for one broker."""
MAX_NAME_SIZE = 1_024
"""Characters of a name or an address."""


class RouteTableFullError(Exception):
    """A registration exceeds a limit of the table, named in the text (issue 12.6)."""


def check_room(limit: int, count: int, what: str) -> None:
    """Raise RouteTableFullError if there is no room for one more."""
    if count >= limit:
        raise RouteTableFullError(f"this nameserver has {count} {what}: more than it accepts")
