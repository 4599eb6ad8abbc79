"""Errors of clients.

The type of a send's error shows whether the message may have been stored.

`code` has the brokers' response codes, and RocketMQ's client codes for requests that never reached a broker (class
ClientErrorCode).
"""

import attrs

from rmqlab.client.message import Attempt

BROKER_NOT_EXIST = 10003
NO_NAME_SERVER = 10004
NOT_FOUND_TOPIC = 10005


class ClientError(Exception):
    """Root of all errors of this package."""


class NoNameServerError(ClientError):
    """No nameserver is configured, or none could be connected to. Nothing was sent."""

    code = NO_NAME_SERVER


class AddressError(ClientError, ValueError):
    """The text for the addresses of nameservers is invalid."""


class NoRouteError(ClientError):
    """The nameservers have no broker for this topic, or no broker of the needed kind.

    Nothing was sent.
    """

    code = NOT_FOUND_TOPIC


class ClientClosedError(ClientError):
    """The client instance is closed: the request was not made, or abandoned."""


class OffsetFileError(ClientError):
    """A broadcasting consumer's file of offsets cannot be read.

    Without it, messages would be repeated or skipped.
    """


class StrategyError(ClientError):
    """The application's allocation strategy failed.

    It raised an exception, or returned what is no list of queues. The consumer keeps its queues (Java: class
    RebalanceImpl, method rebalanceByTopic).
    """


@attrs.define(init=True, str=False)
class BrokerError(ClientError):
    """A server replied with an error code."""

    address: str
    code: int
    remark: str | None

    def __str__(self) -> str:
        return f"{self.address} returned code {self.code}: {self.remark or 'no remark'}"


@attrs.define(init=True, str=False)
class InvalidReplyError(ClientError):
    """A server's reply cannot be parsed."""

    address: str
    reason: str

    def __str__(self) -> str:
        return f"{self.address} sent an invalid reply: {self.reason}"


@attrs.define(str=False)
class SendError(ClientError):
    """A send without a result. `attempts` lists the attempts in order."""

    reason: str
    attempts: tuple[Attempt, ...] = ()

    def __str__(self) -> str:
        return self.reason


@attrs.define(str=False)
class RefusedError(SendError):
    """The message is certainly not stored.

    No request was written, or every broker rejected it.
    """

    code: int = 0
    remark: str | None = None


@attrs.define(str=False)
class IndeterminateError(SendError):
    """The message may be stored, once or several times.

    A request was written and got no reply.
    """


@attrs.define(str=False)
class TooManySendsError(SendError):
    """More sends are in flight than the producer allows. The message was not sent."""


def failure_of(attempts: tuple[Attempt, ...]) -> SendError:
    """Return the error after failed attempts.

    It is RefusedError only if every attempt certainly stored nothing.
    """
    last, number = attempts[-1], f"{len(attempts)} attempt{'s'[: len(attempts) - 1]}"
    if any(attempt.is_indeterminate for attempt in attempts):
        return IndeterminateError(f"may be stored, {number}: {last.error}", attempts)
    place = f"{last.address} returned code {last.code}: " if last.address and last.code else ""
    return RefusedError(f"refused, {number}: {place}{last.error}", attempts, code=last.code or 0, remark=last.error)
