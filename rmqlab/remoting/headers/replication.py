"""Headers of our own requests between slave and master (docs/departures.md)."""

from rmqlab.remoting.header import Header, Int, Long


class ReportSlaveTroubleRequestHeader(Header, frozen=True, kw_only=True):
    """30001. A slave reports to its master why replication stopped."""

    cluster_name: str
    broker_name: str
    """The group of both."""
    broker_id: Long
    """The slave's id, above 0."""
    slave_name: str
    """The slave's name in messages, such as broker-a-s."""
    ha_port: Int
    """Local port of the slave's connection to an HA port."""
    text: str
    """The problem, in one line."""
