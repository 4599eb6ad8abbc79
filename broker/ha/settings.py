"""Settings of replication: RocketMQ's keys in snake_case, in ms and bytes.

The defaults are RocketMQ's. Those below the line are ours. The switches among them are departures from 4.9, off by
default; all of them together are the profile "hardened" (see rmqlab.broker.profiles). None of them changes the format
of the stream (store-and-ha section 4.6).
"""

from typing import Final

import attrs

from rmqlab.runtime.config.validators import INT32, INT64, is_address, one_line_texts, shown, within

MAX_FRAME: Final = 4 * 2**20
"""Bytes of the largest frame, header included, that a 4.9 slave can receive: its receive buffer (section 4.5)."""
HEADER_SIZE: Final = 12
_SHORTEST_ADDRESS: Final = 6


def _is_master(_settings: object, field: "attrs.Attribute[str]", value: str) -> None:
    """Minimum length of an address.

    Shorter text is ignored, as in 4.9; longer text is used as an address.
    """
    if len(value) >= _SHORTEST_ADDRESS and not is_address(value):
        raise ValueError(f"{field.name} = {shown(value)}: expected host:port")


@attrs.frozen(kw_only=True, field_transformer=one_line_texts)
class HaSettings:
    """Settings of both sides: every broker has an HA server and an HA client.

    Source: section 4.1.
    """

    ha_send_heartbeat_interval: int = attrs.field(default=5000, validator=within(1, INT32))
    """Silence after which a master sends a heartbeat, and a slave a report."""
    ha_housekeeping_interval: int = attrs.field(default=20_000, validator=within(1, INT32))
    """Silence after which a master closes, counted from accept or from the last report."""
    ha_transfer_batch_size: int = attrs.field(default=32_768, validator=within(1, MAX_FRAME - HEADER_SIZE))
    """Most bytes in one frame."""
    ha_slave_fallbehind_max: int = attrs.field(default=256 * 2**20, validator=within(0, INT64))
    """A slave further behind is not counted: sends return SLAVE_NOT_AVAILABLE (store-ha#55)."""
    ha_master_address: str = attrs.field(default="", validator=_is_master)
    """Fixed HA address of the master, instead of the registered one; ignored below 6 characters (section 4.1)."""

    # ---- ours ----

    ha_report_at_once: bool = False
    """A slave connects as soon as it has the address, and reports at connect; 4.9 waits 5 s for each."""
    ha_drop_silent_master: bool = False
    """A slave closes when its master was silent for the housekeeping interval; 4.9 waits without limit."""
    in_sync_replicas: int = attrs.field(default=0, validator=within(0, INT32))
    """Logs that must have a message before its sync send is SEND_OK, the master's own included, as 5.x counts them.

    2 means one slave, and 1 none. Only connected slaves count, each with the offset it acknowledged itself, unless that
    is beyond the master's log. 0 is 4.9's rule: one slave, measured by the highest offset that any slave ever reported
    (store-ha#52).
    """
    ha_fail_lost_slave_at_once: bool = False
    """A master fails waiting sends, with the cause, as soon as their slave is lost; in 4.9 they time out without a
    cause."""
    ha_report_trouble: bool = False
    """A slave reports to its master what stops replication, and a master names it to senders; 4.9's master sees only
    that the connection ended.
    """
    ha_bootstrap_from_first_byte: bool = False
    """A master sends an empty slave its whole log; 4.9 sends the last file only (store-ha#36)."""
    ha_refuse_false_reports: bool = False
    """A master closes a connection that reports bytes it cannot have: a first report beyond the log's end, or beyond
    the log at the start and the bytes sent since; a later report beyond the sent bytes. 4.9 accepts every first
    report.
    """
    ha_restart_expired_slave: bool = False
    """A slave whose next byte has expired on its master drops its log and copies again, and a master closes the
    connection of such a slave; 4.9 only sends it heartbeats, without end (store-ha#57).
    """
    ha_truncate_diverged: bool = False
    """A slave compares its log's end with its master's before it follows, and cuts off what differs; 4.9 does not."""
    ha_check_master: bool = False
    """A slave follows only a master of its own broker and cluster name; 4.9 follows any sender of frames."""
    ha_verify_received: bool = False
    """A slave keeps only whole records with a correct CRC and offset; 4.9 writes any bytes (section 4.5)."""

    ha_max_connections: int = attrs.field(default=64, validator=within(1, INT32))
    """Slaves served at once, those that never report included; the next one is closed at accept."""
    ha_max_connections_per_address: int = attrs.field(default=16, validator=within(1, INT32))
    """Maximum from one IP address, so that a foreign client cannot block all slaves."""

    @property
    def fixed_master(self) -> str | None:
        """`ha_master_address` if it is long enough; 4.9 ignores shorter text as well."""
        return self.ha_master_address if len(self.ha_master_address) >= _SHORTEST_ADDRESS else None

    @property
    def examines_master(self) -> bool:
        """True if a switch requires a check before a slave follows a master."""
        return self.ha_check_master or self.ha_truncate_diverged or self.ha_restart_expired_slave

    @property
    def heartbeat_interval(self) -> float:
        """`ha_send_heartbeat_interval` in seconds."""
        return self.ha_send_heartbeat_interval / 1000

    @property
    def housekeeping_interval(self) -> float:
        """`ha_housekeeping_interval` in seconds."""
        return self.ha_housekeeping_interval / 1000
