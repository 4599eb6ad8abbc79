"""A client instance for synchronous code: Spark's workers and planning processes.

Each process has one client per set of name servers, in a separate thread, created on first use. Workers run many tasks
in sequence, so that connections are reused between them.
"""

import atexit
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import trio

from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import Client, open_client
from rmqlab.remoting.acl import Credentials

T = TypeVar("T")
_START_SECONDS = 30


class Link:
    """A client in a thread. Any thread may `call`; calls run concurrently."""

    def __init__(self, name_server: str, credentials: Credentials | None = None, namespace: str = "") -> None:
        self._config = ClientConfig(namesrv_addr=name_server, credentials=credentials, namespace=namespace or None)
        self._is_open = threading.Event()
        self._failure: BaseException | None = None
        self._client: Client
        self._token: trio.lowlevel.TrioToken
        self._scope = trio.CancelScope()
        self._thread = threading.Thread(target=self._run, name=f"client of {name_server}", daemon=True)
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
        try:
            trio.run(self._serve)
        except Exception as exc:  # noqa: BLE001 - raised in the thread that waits for us
            self._failure = exc
        finally:
            self._is_open.set()

    async def _serve(self) -> None:
        with self._scope:
            async with open_client(self._config) as self._client:
                self._token = trio.lowlevel.current_trio_token()
                self._is_open.set()
                await trio.sleep_forever()


_links: dict[tuple[int, str, Credentials | None, str], Link] = {}


def link_to(name_server: str, credentials: Credentials | None = None, namespace: str = "") -> Link:
    """Return this process's link to a cluster.

    A forked process does not use its parent's.
    """
    key = os.getpid(), name_server, credentials, namespace
    if (link := _links.get(key)) is None or not link.is_alive:
        link = _links[key] = Link(name_server, credentials, namespace)
        atexit.register(link.close)
    return link


def first_failure(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first leaf of an exception group.

    Concurrent tasks mostly fail with the same error.
    """
    exc: BaseException = group
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc
