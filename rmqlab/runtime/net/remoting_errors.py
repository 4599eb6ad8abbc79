"""Errors of requests to a peer, by what the peer may have received."""


class RemotingError(Exception):
    """A request received no response. The message contains the address and the cause."""


class ConnectError(RemotingError):
    """No connection: the peer did not receive the request."""


class ConnectionLostError(RemotingError):
    """The connection closed before a response; the peer may have served the request."""


class RequestTimeoutError(RemotingError):
    """No response within the timeout: the peer may have processed the request."""
