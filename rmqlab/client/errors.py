"""What can go wrong for an application. Whether a message may have been stored is part of the type.

RocketMQ's clients have codes of their own for what never reached a broker (class ClientErrorCode); they stand
beside the brokers' response codes in `code`.
"""

import attrs

from rmqlab.client.message import Attempt

BROKER_NOT_EXIST = 10003
NO_NAME_SERVER = 10004
NOT_FOUND_TOPIC = 10005


class ClientError(Exception):
    """Root of all errors of this package."""


class NoNameServerError(ClientError):
    """No name server is configured, or none could be connected to. Nothing was sent."""

    code = NO_NAME_SERVER


class NoRouteError(ClientError):
    """The name servers know no broker for this topic, or none of the needed kind. Nothing was sent."""

    code = NOT_FOUND_TOPIC


class ClientClosedError(ClientError):
    """The client instance is not open any more: nothing was done, or what was begun was left where it stood."""


class OffsetFileError(ClientError):
    """A broadcasting consumer's file of offsets cannot be read. To begin without it would repeat or skip messages."""


@attrs.define(init=True, str=False)
class BrokerError(ClientError):
    """A server answered, and its answer is a refusal."""

    address: str
    code: int
    remark: str | None

    def __str__(self) -> str:
        return f"{self.address} answered code {self.code}: {self.remark or 'no remark'}"


@attrs.define(str=False)
class SendError(ClientError):
    """A send without a result. `attempts` tells what was tried, in order."""

    reason: str
    attempts: tuple[Attempt, ...] = ()

    def __str__(self) -> str:
        return self.reason


@attrs.define(str=False)
class RefusedError(SendError):
    """The message is certainly not stored: nothing was written, or every broker asked has refused it."""

    code: int = 0
    remark: str | None = None


@attrs.define(str=False)
class IndeterminateError(SendError):
    """The message may be stored, once or several times: a request was written and its answer never came."""


@attrs.define(str=False)
class TooManySendsError(SendError):
    """More sends are under way than the producer allows. Nothing was sent."""
