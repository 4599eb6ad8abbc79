"""Requests that are handled late."""

from typing import ClassVar

import attrs

from rmqlab.faults.request.fault import HeldRequest, RequestFault
from rmqlab.faults.specification import option


@attrs.frozen(kw_only=True)
class DelayRequest(RequestFault):
    """The request is handled late."""

    kind = "delay"
    example: ClassVar = {"target": "namesrv-1", "code": "105", "millis": 500}

    millis: float = option("Delay of each request.", unit="ms", least=0)

    def hold(self, request: HeldRequest) -> None:
        request.handle_after(self.millis / 1000)
