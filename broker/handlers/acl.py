"""Requests about the accounts of access control (class AdminBrokerProcessor).

While access control is off, changes fail without a reason, as in 4.9; the request for versions, to which 4.9 then
never replies, gets code 1.
"""

import msgspec

from rmqlab.broker.acl.denial import AclDenied
from rmqlab.broker.state import Broker
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.headers.broker_admin import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from rmqlab.runtime.dispatch import Reply, Request, Route

OFF = "access control is off (aclEnable)"


def update_account(broker: Broker, header: CreateAccessConfigRequestHeader, _request: Request) -> Reply:
    """Add an account or change one, in its file and at once."""
    if broker.access is None:
        return Reply(ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED, remark=OFF)
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
    try:
        broker.access.update_account(entry)
    except AclDenied as exc:
        return Reply(ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED, remark=str(exc))
    broker.emit("acl_changed", access_key=header.access_key)
    return Reply()


def delete_account(broker: Broker, header: DeleteAccessConfigRequestHeader, _request: Request) -> Reply:
    """Remove an account from its file."""
    if broker.access is None:
        return Reply(ResponseCode.DELETE_ACL_CONFIG_FAILED, remark=OFF)
    try:
        is_deleted = broker.access.delete_account(header.access_key)
    except AclDenied as exc:
        return Reply(ResponseCode.DELETE_ACL_CONFIG_FAILED, remark=str(exc))
    if not is_deleted:
        remark = f"The accesskey[{header.access_key}] corresponding to accessConfig has been deleted failed."
        return Reply(ResponseCode.DELETE_ACL_CONFIG_FAILED, remark=remark)
    broker.emit("acl_changed", access_key=header.access_key)
    return Reply()


def update_white_addresses(
    broker: Broker, header: UpdateGlobalWhiteAddrsConfigRequestHeader, _request: Request
) -> Reply:
    """Replace the addresses from which requests need no signature."""
    if broker.access is None:
        return Reply(ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, remark=OFF)
    addresses = header.global_white_addrs
    try:
        parts = _split(addresses)
        is_updated = parts is not None and broker.access.update_white_addresses(parts, header.acl_file_full_path)
    except AclDenied as exc:
        return Reply(ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, remark=str(exc))
    if not is_updated:
        remark = f"The globalWhiteAddresses[{addresses}] has been updated failed."
        return Reply(ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, remark=remark)
    broker.emit("acl_changed", white_addresses=addresses)
    return Reply()


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
