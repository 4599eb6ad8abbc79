"""The addresses of a slave's master, as last reported by the nameservers.

Registration writes them, replication and metadata sync read them.
"""

import logging
from typing import Self

import attrs
import trio

from rmqlab.broker.ha.settings import HaSettings

log = logging.getLogger(__name__)


@attrs.define(eq=False)
class KnownMaster:
    """The master's two addresses, as `host:port`."""

    address: str | None = None
    """Its remoting address; None while the nameservers report no master."""
    ha_address: str | None = None
    """Its HA address; None until it is known for the first time."""
    is_ha_address_fixed: bool = False
    """True where the settings name the HA address: nameservers do not change it then."""
    ha_address_changed: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set at the next change of `ha_address`, and replaced by a new event."""

    @classmethod
    def from_settings(cls, settings: HaSettings) -> Self:
        """Return the state at a start: the HA address of the settings, if they have one."""
        return cls(ha_address=settings.fixed_master, is_ha_address_fixed=settings.fixed_master is not None)

    def report_ha_address(self, ha_address: str | None) -> None:
        """Accept the HA address that a nameserver reports.

        None keeps the last one (store-and-ha section 4.1).

        An open connection stays open; the new address counts from the next connection on.
        """
        if ha_address is None or self.is_ha_address_fixed or ha_address == self.ha_address:
            return
        log.info("the master's HA address is %s, before: %s", ha_address, self.ha_address or "unknown")
        self.ha_address = ha_address
        changed, self.ha_address_changed = self.ha_address_changed, trio.Event()
        changed.set()
