"""What is said to whom access is denied."""

_EXCEPTION = "org.apache.rocketmq.acl.common.AclException"
_MANAGER = "org.apache.rocketmq.acl.plain.PlainPermissionManager"


class AclDenied(Exception):
    """Access is denied, or an ACL file or a change to one cannot be used. The text is RocketMQ's."""

    def __init__(self, text: str, place: str = "validate", line: int = 0) -> None:
        super().__init__(text)
        self.place, self.line = place, line

    @property
    def remark(self) -> str:
        """The remark of the answer: the exception as Java shows it, with the place in 4.9.8 that throws it."""
        return f"{_EXCEPTION}: {self}, {_MANAGER}.{self.place}(PlainPermissionManager.java:{self.line})"
