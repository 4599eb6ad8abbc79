"""Methods of `Cluster` that change its nodes and their settings."""

from collections.abc import Mapping
from typing import Any

from rmqlab.cluster.apimethods import api_methods
from rmqlab.cluster.supervisor import scaling
from rmqlab.cluster.supervisor.supervisor import Supervisor


@api_methods
class ClusterChanges:
    """Adds and removes nodes of a running cluster.

    Errors: UnknownTargetError, WrongStateError, NodeFailedError, BadSettingsError, and those of `api_methods`.
    """

    supervisor: Supervisor

    async def add_group(self, name: str = "", settings: Mapping[str, Any] | None = None) -> tuple[str, ...]:
        """Add a group, or a removed one by its name; return the names of its ready nodes."""
        return (await scaling.add(self.supervisor, "group", name, settings)).names

    async def add_slave(self, group: str, settings: Mapping[str, Any] | None = None) -> str:
        """Add a slave to a group; return its name when it is ready.

        It replicates the log of its master from the beginning: `wait_until("slave-caught-up GROUP")`.
        """
        return (await scaling.add(self.supervisor, "slave", group, settings)).names[0]

    async def add_nameserver(self, name: str = "") -> str:
        """Add a nameserver, or a removed one by its name; return its name when it listens.

        Brokers register there with their next registration. Running clients keep their list.
        """
        return (await scaling.add(self.supervisor, "nameserver", name)).names[0]

    async def remove(self, nodes: str) -> tuple[str, ...]:
        """Stop nodes and take them out of the cluster; return their names.

        `nodes` is a target, such as `broker-a-s` or `broker-b:*`. Their data stay on disk.
        """
        return await scaling.remove(self.supervisor, nodes)

    async def change_settings(self, target: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Change settings of brokers from their next start on; return the brokers' names.

        Keys are our names of RocketMQ's, such as `slave_read_enable`.
        """
        return await scaling.change_settings(self.supervisor, target, settings)
