"""The subscription groups of a broker (class SubscriptionGroupManager)."""

import pathlib
from collections.abc import Callable, Mapping

from rmqlab.broker.config import BrokerConfig
from rmqlab.broker.tables.tablefile import Defer, VersionedTable, at_once
from rmqlab.broker.tables.tableroom import TableRoom
from rmqlab.remoting import names
from rmqlab.remoting.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rmqlab.remoting.codes import ResponseCode
from rmqlab.runtime.net.dispatch import Refusal
from rmqlab.store.files.configfile import load_config_file

MAX_NAME_SIZE = 1024
"""Characters of a group's name. 4.9.8 has no limit but the header."""
MAX_GROUPS = 200_000
"""Groups that clients can make."""
MAX_GROUP_BYTES = 15 * 2**20
"""Bytes of their JSON: a slave copies the table in one frame."""
_ENTRY_BYTES = 280


MAX_COPIED = MAX_GROUPS + len(names.BUILT_IN_GROUPS)
"""Groups that a slave copies from its master."""


class SubscriptionGroupTable(VersionedTable):
    """Groups by name, in subscriptionGroup.json."""

    def __init__(
        self, config: BrokerConfig, path: pathlib.Path, now_millis: Callable[[], int], defer: Defer = at_once
    ) -> None:
        super().__init__("subscriptionGroupTable", path, now_millis, defer)
        self.config = config
        self.groups = {name: SubscriptionGroupConfig(group_name=name) for name in names.BUILT_IN_GROUPS}
        loaded = load_config_file(path, SubscriptionGroupWrapper.decode)
        if loaded is not None:
            self.groups.update(loaded.subscription_group_table)
            self.data_version = loaded.data_version
        self._room = TableRoom(MAX_GROUPS, MAX_GROUP_BYTES, _ENTRY_BYTES)
        self._room.count(self.groups)

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the configuration of a group; None without one.

        A missing one is created, if that is allowed.
        """
        known = self.groups.get(group)
        if (
            known is None
            and self.has_room(group)
            and (self.config.auto_create_subscription_group or group.startswith(names.SYSTEM_GROUP_PREFIX))
        ):
            known = SubscriptionGroupConfig(group_name=group)
            self.put(known)
        return known

    def require(self, group: str) -> SubscriptionGroupConfig:
        """Return the configuration of a group as `find`. Refusal without one."""
        config = self.find(group)
        if config is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group {group} does not exist")
        return config

    def has_room(self, group: str) -> bool:
        """True if a group exists, or may be created under this name."""
        return group in self.groups or (len(group) <= MAX_NAME_SIZE and self._room.has_room(group))

    def put(self, group: SubscriptionGroupConfig) -> None:
        """Create a group or replace its configuration."""
        if group.group_name not in self.groups:
            self._room.add(group.group_name)
        self.groups[group.group_name] = group
        self._changed()

    def delete(self, group: str) -> bool:
        """Delete a group. True if it existed."""
        if self.groups.pop(group, None) is None:
            return False
        self._room.remove(group)
        self._changed()
        return True

    def replace_all(self, wrapper: SubscriptionGroupWrapper) -> bool:
        """Replace the table by a master's if the versions differ (store-ha#60).

        Returns True if replaced. TooManyError above MAX_COPIED groups.
        """
        groups = wrapper.subscription_group_table
        if not self._adopt_version(wrapper.data_version, len(groups), MAX_COPIED, "groups"):
            return False
        self.groups = dict(groups)
        self._room.count(self.groups)
        self._save_soon()
        return True

    def wrapper(self) -> SubscriptionGroupWrapper:
        """Return the table as sent over the wire and saved."""
        return SubscriptionGroupWrapper(data_version=self.data_version, subscription_group_table=self.groups)

    def rows(self) -> Mapping[str, SubscriptionGroupConfig]:
        return self.groups

    def empty_wrapper(self) -> SubscriptionGroupWrapper:
        return SubscriptionGroupWrapper(data_version=self.data_version)
