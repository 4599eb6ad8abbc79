"""Compute the requests of concurrent threads together. No Spark."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

Request = TypeVar("Request")
Result = TypeVar("Result")


class RoundsEndedError(Exception):
    """No further round is computed."""


class Rounds(Generic[Request, Result]):
    """Groups one request of each thread into one computation.

    A round is complete when all of the `threads` threads wait for a result. The last of them computes the round. A
    thread without further requests must call `leave`.
    """

    def __init__(self, compute: Callable[[Sequence[Request]], Sequence[Result]], threads: int) -> None:
        self._compute = compute
        self._threads = threads
        self._lock = threading.Lock()
        self._waiting: list[tuple[Request, Future[Result]]] = []
        self._has_ended = False

    def ask(self, request: Request) -> Result:
        """Return the result of a request, or raise the error of its round.

        RoundsEndedError after `end`.
        """
        future: Future[Result] = Future()
        with self._lock:
            if self._has_ended:
                raise RoundsEndedError
            self._waiting.append((request, future))
            complete = self._pop_complete()
        self._finish(complete)
        return future.result()

    def leave(self) -> None:
        """End the participation of one thread."""
        with self._lock:
            self._threads -= 1
            complete = self._pop_complete()
        self._finish(complete)

    def end(self) -> None:
        """Let all waiting and later requests raise RoundsEndedError."""
        with self._lock:
            self._has_ended = True
            waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            future.set_exception(RoundsEndedError())

    def _pop_complete(self) -> list[tuple[Request, Future[Result]]]:
        if len(self._waiting) < self._threads:
            return []
        complete, self._waiting = self._waiting, []
        return complete

    def _finish(self, complete: Sequence[tuple[Request, Future[Result]]]) -> None:
        if not complete:
            return
        try:
            results = self._compute([request for request, _ in complete])
        except BaseException as exc:  # noqa: BLE001 -- all threads of the round raise it
            for _, future in complete:
                future.set_exception(exc)
        else:
            for (_, future), result in zip(complete, results, strict=True):
                future.set_result(result)
