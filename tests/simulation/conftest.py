"""Each test here runs in a forked process.

Nodes that are killed or left leave tasks that must never clean up.
"""

import traceback

import pytest

from rmqlab.simulation.child import run_in_child


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool:
    names = pyfuncitem._fixtureinfo.argnames
    arguments = {name: pyfuncitem.funcargs[name] for name in names}

    def play() -> None:
        try:
            pyfuncitem.obj(**arguments)
        except BaseException:
            traceback.print_exc()  # the parent has only the exception
            raise

    run_in_child(play)
    return True
