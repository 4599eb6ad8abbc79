from pathlib import Path

from rmqlab.store.offline.keptstores import NO_STORES, no_stores_hint


def test_a_scenarios_run_without_stores_says_how_to_keep_them(tmp_path: Path) -> None:
    (tmp_path / "broker-a").mkdir()
    assert not no_stores_hint(tmp_path), "a cluster: `--keep-stores` is no option of it"
    (tmp_path / "scenario.toml").touch()
    assert no_stores_hint(tmp_path) == NO_STORES
    (tmp_path / "broker-a" / "store").mkdir()
    assert not no_stores_hint(tmp_path)
