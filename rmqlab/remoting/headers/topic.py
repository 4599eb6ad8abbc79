"""Headers of topic administration at a broker (broker-requests section 6.2)."""

from rmqlab.remoting.header import FALSE, Header, Int, JavaBoolean


class CreateTopicRequestHeader(Header, frozen=True, kw_only=True):
    """17. The order flag is ignored: the nameserver's order topics set it."""

    topic: str = ""
    default_topic: str | None = None
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    topic_filter_type: str
    topic_sys_flag: Int | None = None
    order: JavaBoolean = FALSE


class GetAllTopicConfigResponseHeader(Header, frozen=True, kw_only=True):
    """21: no fields, but there."""


class DeleteTopicRequestHeader(Header, frozen=True, kw_only=True):
    """215."""

    topic: str = ""


class GetTopicStatsInfoRequestHeader(Header, frozen=True, kw_only=True):
    """202."""

    topic: str


class GetTopicConfigRequestHeader(Header, frozen=True, kw_only=True):
    """351 of 5.x; its mqadmin needs a reply of 0 or 17 (broker-requests#62)."""

    topic: str
