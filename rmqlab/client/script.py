"""Ends scripts without tracebacks.

with without_traceback():
    trio.run(main, namesrv_addr, topic)
"""

import contextlib
from collections.abc import Iterator

from rmqlab.client.errors import ClientError

_INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells report it."""


@contextlib.contextmanager
def without_traceback() -> Iterator[None]:
    """End the process with one line on stderr and status 1 at a client's error.

    After Ctrl-C the status is 130. Nurseries wrap such errors in groups; of several, the first is printed. Other
    exceptions are raised as they are.
    """
    try:
        yield
    except (ClientError, KeyboardInterrupt, BaseExceptionGroup) as raised:
        ends = _leaves(raised)
        if not all(isinstance(end, (ClientError, KeyboardInterrupt)) for end in ends):
            raise
        errors = [end for end in ends if isinstance(end, ClientError)]
        raise SystemExit(str(errors[0]) if errors else _INTERRUPTED) from None


def _leaves(raised: BaseException) -> list[BaseException]:
    if isinstance(raised, BaseExceptionGroup):
        return [leaf for one in raised.exceptions for leaf in _leaves(one)]
    return [raised]
