import os
import pathlib

import pytest


@pytest.fixture(autouse=True)
def _fake_node_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes find the module `fakenode` beside these tests."""
    here = os.fspath(pathlib.Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH")))))
