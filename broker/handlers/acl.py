"""Requests about the accounts of access control (class AdminBrokerProcessor).

While access control is off, changes fail without a reason, as in 4.9; the request for versions, to which 4.9 then
never replies, gets code 1.
"""

from collections.abc import Awaitable, Callable

import msgspec

from rmqlab.broker.acl.denial import AclDenied
from rmqlab.broker.state import Broker
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.frame import JSON
from rmqlab.remoting.headers.broker_admin import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from rmqlab.runtime.net.dispatch import OVERLOAD, Refusal, Reply, Request, Route

MAX_CHANGES = 100
"""Changes that wait for their files, at most."""

OFF = "access control is off (aclEnable)"


def update_account(broker: Broker, header: CreateAccessConfigRequestHeader, request: Request) -> Reply | None:
    """Add an account or change one, in its file and at once."""
    failure = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
    access = broker.access
    if access is None:
        return Reply(failure, remark=OFF)
    entry = {
        "accessKey": header.access_key,
        "secretKey": header.secret_key,
        "whiteRemoteAddress": header.white_remote_address,
        "admin": bool(header.admin),
        "defaultTopicPerm": header.default_topic_perm or None,
        "defaultGroupPerm": header.default_group_perm or None,
        "topicPerms": _split(header.topic_perms),
        "groupPerms": _split(header.group_perms),
    }

    async def update() -> Reply:
        await access.update_account(entry)
        broker.emit("acl_changed", access_key=header.access_key)
        return Reply()

    return _change(broker, request, failure, update)


def delete_account(broker: Broker, header: DeleteAccessConfigRequestHeader, request: Request) -> Reply | None:
    """Remove an account from its file."""
    failure, key = ResponseCode.DELETE_ACL_CONFIG_FAILED, header.access_key
    access = broker.access
    if access is None:
        return Reply(failure, remark=OFF)

    async def delete() -> Reply:
        if not await access.delete_account(key):
            remark = f"The accesskey[{key}] corresponding to accessConfig has been deleted failed."
            return Reply(failure, remark=remark)
        broker.emit("acl_changed", access_key=key)
        return Reply()

    return _change(broker, request, failure, delete)


def update_white_addresses(
    broker: Broker, header: UpdateGlobalWhiteAddrsConfigRequestHeader, request: Request
) -> Reply | None:
    """Replace the addresses from which requests need no signature."""
    failure, addresses = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, header.global_white_addrs
    access = broker.access
    if access is None:
        return Reply(failure, remark=OFF)
    parts = _split(addresses)

    async def update() -> Reply:
        if parts is None or not await access.update_white_addresses(parts, header.acl_file_full_path):
            return Reply(failure, remark=f"The globalWhiteAddresses[{addresses}] has been updated failed.")
        broker.emit("acl_changed", white_addresses=addresses)
        return Reply()

    return _change(broker, request, failure, update)


def _change(
    broker: Broker, request: Request, failure: ResponseCode, change: Callable[[], Awaitable[Reply]]
) -> Reply | None:
    """Make a change in a task, because a file of 1 MB takes seconds.

    A success is in JSON, also to a binary request: AdminBrokerProcessor writes this reply itself, and sets no codec.
    Raises Refusal if too many others wait.
    """
    if broker.acl_changes >= MAX_CHANGES:
        raise Refusal(ResponseCode.SYSTEM_BUSY, OVERLOAD)

    async def make() -> None:
        try:
            reply = await change()
            if reply.code == ResponseCode.SUCCESS:
                request.command.serialize_type = JSON
            request.reply(reply)
        except AclDenied as exc:
            request.reply(Reply(failure, remark=str(exc)))
        finally:
            broker.acl_changes -= 1

    broker.run_for_request(request, make)
    broker.acl_changes += 1
    return None


def _split(text: str | None) -> list[str] | None:
    """Split at commas as UtilAll.split does.

    Empty parts at the end are dropped, unless there is no comma.
    """
    if text is None:
        return None
    parts = text.split(",")
    if len(parts) == 1:
        return parts
    while parts and not parts[-1]:
        parts.pop()
    return parts


def get_acl_version(broker: Broker, _header: None, _request: Request) -> Reply:
    """Return the version of each ACL file."""
    if broker.access is None:
        return Reply(ResponseCode.SYSTEM_ERROR, remark=OFF)
    return Reply(
        header=GetBrokerAclConfigResponseHeader(
            version=broker.access.version.encode().decode(),
            all_acl_file_version=msgspec.json.encode(broker.access.versions).decode(),
            broker_name=broker.config.broker_name,
            broker_addr=broker.config.address,
            cluster_name=broker.config.broker_cluster_name,
        )
    )


ROUTES: list[Route[Broker]] = [
    Route(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, CreateAccessConfigRequestHeader, update_account),
    Route(RequestCode.DELETE_ACL_CONFIG, DeleteAccessConfigRequestHeader, delete_account),
    Route(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, None, get_acl_version),
    Route(
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, UpdateGlobalWhiteAddrsConfigRequestHeader, update_white_addresses
    ),
]
