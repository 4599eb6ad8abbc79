"""Refusals that stay: to ask again changes nothing until somebody has changed the cluster."""

from rmqlab.remoting.codes import ResponseCode

_ACL_EXCEPTION = "AclException"


def is_denied(code: int, remark: str) -> bool:
    """Whether access control says no: code 16 in 5.x and by a switch of ours; 4.9 says 1 and names its exception."""
    return code == ResponseCode.NO_PERMISSION or _ACL_EXCEPTION in remark
