"""Numbers and callbacks of open requests."""

from rmqlab.remoting.command import Command
from rmqlab.runtime.boundary import InternalErrors
from rmqlab.runtime.net.open_requests import OpenRequests


def test_numbers_are_those_of_32_bits() -> None:
    requests = OpenRequests()
    assert [requests.next_opaque(), requests.next_opaque()] == [1, 2]
    requests._last = 0x7FFFFFFE
    assert [requests.next_opaque(), requests.next_opaque()] == [0x7FFFFFFF, 0]


def test_a_closed_connection_calls_all_back_whatever_one_of_them_raises() -> None:
    requests, errors, got = OpenRequests(), InternalErrors(), list[Command | None]()

    def fail(_reply: Command | None) -> None:
        raise RuntimeError("a fault of ours")

    requests.callbacks |= {1: fail, 2: got.append}
    requests.fail_all(errors)
    assert (got, requests.callbacks) == ([None], {})
