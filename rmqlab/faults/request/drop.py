"""Requests that are lost."""

from typing import ClassVar

import attrs

from rmqlab.faults.request.fault import HeldRequest, RequestFault


@attrs.frozen(kw_only=True)
class DropRequest(RequestFault):
    """The request is not handled, and gets no reply."""

    kind = "drop"
    example: ClassVar = {"target": "namesrv-1", "code": "105"}

    def hold(self, request: HeldRequest) -> None:
        pass
