"""The error of a request that access control denies."""

_EXCEPTION = "org.apache.rocketmq.acl.common.AclException"
_MANAGER = "org.apache.rocketmq.acl.plain.PlainPermissionManager"


class AclDenied(Exception):
    """Access is denied, or an ACL file or a change to one cannot be used.

    The text is RocketMQ's.
    """

    def __init__(self, text: str, place: str = "validate", line: int = 0) -> None:
        super().__init__(text)
        self.place, self.line = place, line

    @property
    def remark(self) -> str:
        """Return the remark of the reply: the exception as Java prints it.

        It has the line of 4.9.8 that throws the exception.
        """
        return f"{_EXCEPTION}: {self}, {_MANAGER}.{self.place}(PlainPermissionManager.java:{self.line})"
