"""Permanent rejections: retries fail until the cluster's configuration changes."""

from rmqlab.remoting.codes import ResponseCode

_ACL_EXCEPTION = "AclException"


def is_denied(code: int, remark: str) -> bool:
    """Return True if access control denied a request.

    The code is 16 in 5.x and with an option of rmqlab; 4.9 uses code 1 and the name of its exception.
    """
    return code == ResponseCode.NO_PERMISSION or _ACL_EXCEPTION in remark
