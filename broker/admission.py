"""What is asked about a request before it is served: may its sender send it?"""

from collections.abc import Callable
from typing import Any

from broker.acl.denial import AclDenied
from broker.state import Broker
from remoting.codes import ResponseCode
from remoting.command import Command
from remoting.dispatch import Reply


def admission(broker: Broker) -> Callable[[Any, Command], Reply | None] | None:
    """Give the check of a broker's requests; None where there is nothing to check."""
    access = broker.access
    if access is None:
        return None

    def admit(channel: Any, command: Command) -> Reply | None:
        """Turn away whom access control denies, for unknown codes, too (NettyRemotingAbstract, RPC hooks)."""
        try:
            access.check(command, channel.peer)
        except AclDenied as exc:
            is_told = broker.config.acl_denied_is_no_permission
            return Reply(ResponseCode.NO_PERMISSION if is_told else ResponseCode.SYSTEM_ERROR, remark=exc.remark)
        return None

    return admit
