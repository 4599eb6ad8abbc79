from pathlib import Path

import pytest

from rmqlab.store.offline.keptstores import no_stores_hint


def test_only_runs_of_scenarios_without_stores_get_the_hint(tmp_path: Path) -> None:
    assert not no_stores_hint(tmp_path), "a cluster: `--keep-stores` is no option of it"
    (tmp_path / "scenario.toml").touch()
    assert no_stores_hint(tmp_path)
    (tmp_path / "broker-a" / "store").mkdir(parents=True)
    assert not no_stores_hint(tmp_path)


@pytest.mark.parametrize(
    ("record", "command"),
    [
        ('{"command": "rmqlab run kill-master --seed 7"}', "rmqlab run kill-master --seed 7"),
        ("{}", "rmqlab run NAME"),
        ("[]", "rmqlab run NAME"),
        ("no JSON", "rmqlab run NAME"),
        (None, "rmqlab run NAME"),
    ],
)
def test_the_hint_has_the_command_of_the_run(tmp_path: Path, record: str | None, command: str) -> None:
    (tmp_path / "scenario.toml").touch()
    if record is not None:
        (tmp_path / "run.json").write_text(record)
    assert no_stores_hint(tmp_path) == f"this run kept no stores: play it again with `{command} --keep-stores`"
