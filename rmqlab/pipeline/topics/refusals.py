"""Permanent rejections: retries fail until the cluster's configuration changes."""

from rmqlab.remoting.codes import ResponseCode

_ACL_EXCEPTION = "AclException"
_NO_FILTER = "does not support consumer to filter message"


def is_denied(code: int, remark: str) -> bool:
    """Return True if access control denied a request.

    The code is 16 in 5.x and with an option of rmqlab; 4.9 uses code 1 and the name of its exception.
    """
    return code == ResponseCode.NO_PERMISSION or _ACL_EXCEPTION in remark


def lacks_filter(remark: str) -> bool:
    """Return True if a broker does not evaluate SQL92 expressions.

    Its `enablePropertyFilter` is false. The code is 1, as of errors that may pass (PullMessageProcessor).
    """
    return _NO_FILTER in remark
