"""Requests that get a fixed reply."""

from typing import ClassVar

import attrs

from rmqlab.faults.request.fault import HeldRequest, RequestFault, code_of
from rmqlab.faults.specification import option
from rmqlab.remoting.codes import ResponseCode
from rmqlab.runtime.net.dispatch import Reply


@attrs.frozen(kw_only=True)
class AnswerRequest(RequestFault):
    """The request is not handled and gets this reply."""

    kind = "answer"
    example: ClassVar = {
        "target": "broker-a",
        "code": "SEND_MESSAGE_V2",
        "times": 3,
        "response_code": "SYSTEM_BUSY",
        "remark": "busy",
    }

    response_code: str | None = option(
        "The code of the reply.",
        converter=attrs.converters.optional(str),
        default=None,
        unless_given=ResponseCode.SYSTEM_BUSY.name,
    )
    remark: str | None = option("The text of the reply.", default=None)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        code_of(self.response_code or "0", ResponseCode)

    @property
    def response_number(self) -> int:
        """The code of the reply."""
        return code_of(self.response_code or ResponseCode.SYSTEM_BUSY.name, ResponseCode)

    def hold(self, request: HeldRequest) -> None:
        request.reply(Reply(self.response_number, remark=self.remark or None))
