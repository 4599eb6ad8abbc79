"""A client instance for synchronous code: Spark's workers and planning processes.

Each process has one client for each set of settings, in a separate thread, created on first use. Workers run many tasks
in sequence, so that connections are reused between them.
"""

import atexit
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import Client, open_client

T = TypeVar("T")
_START_SECONDS = 30
_link_threads: set[int | None] = set()


def _is_not_ours(record: logging.LogRecord) -> bool:
    return record.thread not in _link_threads


# Routes are refreshed every 30 s, also while Spark keeps idle workers: the next task reports what it lacks.
logging.getLogger("rmqlab.client.instance").addFilter(_is_not_ours)


class Link:
    """A client in a thread. Any thread may `call`; calls run concurrently."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._is_open = threading.Event()
        self._failure: BaseException | None = None
        self._client: Client
        self._token: trio.lowlevel.TrioToken
        self._scope = trio.CancelScope()
        self._thread = threading.Thread(
            target=self._run, name=f"client of {';'.join(config.namesrv_addr)}", daemon=True
        )
        self._thread.start()
        if not self._is_open.wait(_START_SECONDS):
            raise TimeoutError(f"the client did not start within {_START_SECONDS} s")
        if self._failure is not None:
            raise self._failure

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def call(self, fn: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run `fn(client, *args)` in the client's loop; return its result. Blocks.

        Raises the error of `fn`.
        """
        return trio.from_thread.run(fn, self._client, *args, trio_token=self._token)

    def close(self) -> None:
        """Leave groups, close connections, and end the thread."""
        if self._thread.is_alive():
            self._token.run_sync_soon(self._scope.cancel)
            self._thread.join(_START_SECONDS)

    def _run(self) -> None:
        _link_threads.add(threading.get_ident())
        try:
            trio.run(self._serve)
        except Exception as exc:  # noqa: BLE001 - raised in the thread that waits for us
            self._failure = exc
        finally:
            _link_threads.discard(threading.get_ident())
            self._is_open.set()

    async def _serve(self) -> None:
        with self._scope:
            async with open_client(self._config) as self._client:
                self._token = trio.lowlevel.current_trio_token()
                self._is_open.set()
                await trio.sleep_forever()


_links: dict[tuple[int, ClientConfig], Link] = {}


def link_to(config: ClientConfig) -> Link:
    """Return this process's link to a cluster, one for equal settings.

    A forked process does not use its parent's.
    """
    key = os.getpid(), config
    if (link := _links.get(key)) is None or not link.is_alive:
        link = _links[key] = Link(config)
        atexit.register(link.close)
    return link


def close_links() -> None:
    """Close this process's links."""
    for (pid, _), link in list(_links.items()):
        if pid == os.getpid():
            link.close()


def first_failure(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first leaf of an exception group.

    Concurrent tasks mostly fail with the same error.
    """
    exc: BaseException = group
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc
