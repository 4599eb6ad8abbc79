from pathlib import Path

import pytest

from tests.cluster.plant.smallrun import made_up_run, write_run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run without violation. Nobody may change it."""
    return write_run(made_up_run(), tmp_path_factory.mktemp("planted") / "run")
