"""Checks before a request is served: flow control, then access control."""

from collections.abc import Callable
from typing import Any

from rmqlab.broker.acl.control import AccessControl
from rmqlab.broker.acl.denial import AclDenied
from rmqlab.broker.overload import Overload
from rmqlab.broker.state import Broker
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.runtime.net.dispatch import Reply

Admit = Callable[[Any, Command], Reply | None]


def admission(broker: Broker, overload: Overload) -> Admit:
    """Return the check of a broker's requests.

    Flow control runs first, as in NettyRemotingAbstract.
    """
    access = broker.access
    if access is None:
        return overload.admit

    def admit(channel: Any, command: Command) -> Reply | None:
        return overload.admit(channel, command) or _denied(broker, access, channel, command)

    return admit


def _denied(broker: Broker, access: AccessControl, channel: Any, command: Command) -> Reply | None:
    """Refuse requests that access control denies, also those with unknown codes."""
    try:
        access.check(command, channel.peer)
    except AclDenied as exc:
        is_no_permission = broker.config.acl_denied_is_no_permission
        return Reply(ResponseCode.NO_PERMISSION if is_no_permission else ResponseCode.SYSTEM_ERROR, remark=exc.remark)
    return None
