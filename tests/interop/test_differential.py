"""The same valid and invalid requests to a real cluster and ours, compared.

The corpus is played once at both, side by side. Both masters must have stored the same records at the same offsets
in the end, so that every answer, and all that later requests find, is known to the byte. Then the masters are killed,
when their slaves have all that they had, and the slaves are asked the same. What no selected test needs is not played.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.interop.differential import corpus_admin, corpus_nameserver, corpus_pull, corpus_send, corpus_setup
from tests.interop.differential.case import Case, Outcome, differences
from tests.interop.differential.clusters import pair
from tests.interop.differential.departures import departs
from tests.interop.differential.normal import Record, records
from tests.interop.java import Java

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

_PARTS: Mapping[str, Iterable[Case]] = {
    "set up": corpus_setup.set_up(),
    "sends": corpus_send.cases(),
    "pulls": corpus_pull.cases("master"),
    "tools": corpus_admin.cases("master"),
    "nameserver": corpus_nameserver.cases(),
    "sends to a slave": corpus_send.at_slave(),
    "pulls from a slave": corpus_pull.cases("slave"),
    "tools at a slave": corpus_admin.cases("slave"),
}
_FIRST_AFTER_DEATH = "sends to a slave"
_CORE = ("set up", "sends")


class Played:
    """Outcomes of the corpus at one system."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.log: list[Record] = []
        self.problem: BaseException | None = None


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Played]:
    systems = {"real": Played(), "ours": Played()}
    parts = needed_parts(request.session.items)
    threads = [
        threading.Thread(target=_play, args=(name, java, tmp_path_factory.mktemp(f"differential-{name}"), parts, one))
        for name, one in systems.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in systems.values():
        if one.problem is not None:
            raise one.problem
    return systems


def needed_parts(items: Iterable[pytest.Item]) -> Sequence[str]:
    """The core and all parts up to the last selected: each depends on earlier ones."""
    calls = [item.callspec for item in items if isinstance(item, pytest.Function) and hasattr(item, "callspec")]
    wanted = {*_CORE, *(str(call.params.get("part")) for call in calls)}
    last = max(number for number, part in enumerate(_PARTS) if part in wanted)
    return [*_PARTS][: last + 1]


def _play(system: str, java: Java, directory: Path, parts: Sequence[str], played: Played) -> None:
    try:
        with pair(system, java, directory) as cluster:
            site = cluster.site()
            for part in parts:
                if part == _FIRST_AFTER_DEATH:
                    cluster.wait_synced()
                    cluster.master.kill()
                for case in _PARTS[part]:
                    assert case.name not in played.outcomes, f"two cases are called {case.name}"
                    played.outcomes[case.name] = site.play(case)
            site.close()
            files = cluster.master.describe().commit_log()
            played.log = records(b"".join(path.read_bytes() for path in files), site.names)
    except BaseException as exc:  # noqa: BLE001 - told by the fixture, in the thread that waits
        played.problem = exc


@pytest.mark.parametrize(
    "part", [part if part in _CORE else pytest.param(part, marks=pytest.mark.long) for part in _PARTS]
)
def test_requests_are_answered_as_by_4_9(part: str, played: Mapping[str, Played]) -> None:
    real, ours = played["real"].outcomes, played["ours"].outcomes
    found = {
        case.name: lines
        for case in _PARTS[part]
        if not departs(case.name) and (lines := differences(real[case.name], ours[case.name]))
    }
    assert found == {}


def test_sent_messages_are_stored_as_by_4_9(played: Mapping[str, Played]) -> None:
    real, ours = played["real"].log, played["ours"].log
    assert len(real) > 800
    assert real == ours
