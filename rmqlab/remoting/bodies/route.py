"""Routes: which brokers serve a topic, and the cluster as a whole.

Source: remoting-and-nameserver sections 3.8 to 3.10.
"""

from rmqlab.remoting.body import Body, Table
from rmqlab.remoting.header import Int, Long


class BrokerData(Body, frozen=True, kw_only=True):
    """The addresses behind one broker name, by broker id."""

    broker_addrs: dict[Long, str] = {}
    broker_name: str
    cluster: str | None = None


class QueueData(Body, frozen=True, kw_only=True, gc=False):
    """The queues of a topic at one broker name."""

    broker_name: str
    perm: Int = 0
    read_queue_nums: Int = 0
    topic_sys_flag: Int = 0
    write_queue_nums: Int = 0


class TopicRouteData(Table, frozen=True, kw_only=True):
    """Response of 105.

    `encode_browser_compatible` for peers of version 401 and later, `encode` for older ones.
    """

    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []


class ClusterInfo(Table, frozen=True, kw_only=True):
    """Response of 106. Its keys are bare for every peer."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}
