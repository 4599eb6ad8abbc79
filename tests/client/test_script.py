"""Scripts that end without tracebacks."""

import pytest

from rmqlab.client.errors import NoRouteError
from rmqlab.client.script import without_traceback

ROUTE = NoRouteError("no route of carts")
INTERRUPT = KeyboardInterrupt()


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (ROUTE, "no route of carts"),
        (BaseExceptionGroup("of a nursery", [INTERRUPT, ExceptionGroup("of another", [ROUTE])]), "no route of carts"),
        (INTERRUPT, 130),
        (BaseExceptionGroup("of a nursery", [INTERRUPT]), 130),
    ],
)
def test_a_clients_error_and_ctrl_c_end_a_script(raised: BaseException, code: object) -> None:
    with pytest.raises(SystemExit) as ended, without_traceback():
        raise raised
    assert ended.value.code == code


@pytest.mark.parametrize("raised", [ValueError("a bug"), ExceptionGroup("of a nursery", [ROUTE, ValueError("a bug")])])
def test_other_errors_keep_their_traceback(raised: Exception) -> None:
    with pytest.raises(type(raised)), without_traceback():
        raise raised
