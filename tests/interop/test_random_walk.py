"""A real cluster and ours reply equally to random sequences of requests."""

import random
from pathlib import Path
from types import ModuleType

import pytest

from tests.interop.differential import corpus_nameserver_walk, corpus_setup, corpus_walk
from tests.interop.differential.compare import compare
from tests.interop.java import Java

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize("is_new", [False, True], ids=["seed 1", "new seed"])
@pytest.mark.parametrize("walk", [corpus_walk, corpus_nameserver_walk], ids=["walk", "nameserver-walk"])
def test_replies_of_a_random_walk_are_those_of_4_9(
    java: Java,
    tmp_path: Path,
    walk: ModuleType,
    is_new: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """`python -m tests.interop.differential.compare walk --seed N` repeats it."""
    seed = random.randrange(10**6) if is_new else 1
    found = compare([*corpus_setup.set_up(), *walk.cases(seed)], java, tmp_path, corpus_walk.SETTINGS)
    assert found == {}, f"seed {seed}"
