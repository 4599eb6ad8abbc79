"""mqadmin 4.9.8 prints the same of our cluster as of a real one where it fails.

So it does of a group without its master.

broker-requests section 6.1. What is left out: commands without a required option, which end mqadmin, and the black list
of settings, which 4.9.7 does not have.
"""

from collections.abc import Iterator, Mapping

import pytest

from tests.interop.admin_failures import failures, labels
from tests.interop.admin_tour import form
from tests.interop.java import Java
from tests.interop.ours import our_cluster
from tests.interop.realrocketmq import real_cluster

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]  # the first test runs all commands


@pytest.fixture(scope="module")
def real(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with real_cluster(java, tmp_path_factory.mktemp("real")) as cluster:
        yield failures(java, cluster)


@pytest.fixture(scope="module")
def seen(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with our_cluster(tmp_path_factory.mktemp("ours")) as cluster:
        yield failures(java, cluster)


@pytest.mark.parametrize("label", labels())
def test_command_prints_the_same_form(real: Mapping[str, str], seen: Mapping[str, str], label: str) -> None:
    assert form(seen[label]) == form(real[label])
