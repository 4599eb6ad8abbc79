"""Base class of all request faults."""

import abc
import enum
from typing import Protocol

import attrs

from rmqlab.faults.specification import FaultError, TargetedFault, option
from rmqlab.remoting.codes import RequestCode
from rmqlab.runtime.net.dispatch import Reply
from rmqlab.runtime.text.digits import number_of
from rmqlab.runtime.text.nearmiss import near_miss


class HeldRequest(Protocol):
    """A request that is not handled unless the fault lets it."""

    def reply(self, reply: Reply) -> None:
        """Send this reply."""

    def handle_after(self, seconds: float) -> None:
        """Handle it so many cluster seconds later, unless its sender is gone by then."""


def code_of(name: str, codes: type[enum.IntEnum]) -> int:
    """Return the number of a code given by name or number.

    FaultError for an unknown name.
    """
    if (number := number_of(name)) is not None:
        return number
    word = name.upper().replace("-", "_")
    if word in codes.__members__:
        return codes[word].value
    kind = "request" if codes is RequestCode else "response"
    raise FaultError(
        f"no {kind} code {name!r}: expected a number or a name of RocketMQ{near_miss(word, codes.__members__)}"
    )


@attrs.frozen(kw_only=True)
class RequestFault(TargetedFault):
    """Reply to requests of one code unhandled, handle them late, or drop them.

    The count begins again when the node is restarted.
    """

    family = "request"
    default_kind = "answer"

    code: str = option("A request code: 310, or SEND_MESSAGE_V2.", converter=str, is_argument=True)
    times: int | None = option(
        "How many requests, from now on; then the fault ends.", least=1, default=None, unless_given="all"
    )

    def __attrs_post_init__(self) -> None:
        code_of(self.code, RequestCode)

    @property
    def ends_by_itself(self) -> bool:
        return self.times is not None

    @property
    def code_number(self) -> int:
        """The request code."""
        return code_of(self.code, RequestCode)

    @abc.abstractmethod
    def hold(self, request: HeldRequest) -> None:
        """Apply the fault to a request instead of handling it."""
