from pathlib import Path

from rmqlab.cluster.supervisor.files.logs import LogTail, last_lines


def test_a_log_is_followed_into_its_next_file(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    path.write_text("old\n")
    tail = LogTail(path)
    with path.open("a") as log:
        log.write("one\ntw")
        log.flush()
        assert list(tail.added_lines()) == ["one"]
        log.write("o\n")
    path.rename(tmp_path / "node.log.1")
    assert list(tail.added_lines()) == ["two"]
    path.write_text("three\n")
    assert list(tail.added_lines()) == ["three"]
    assert list(tail.added_lines()) == []
    tail.close()


def test_the_last_lines_since_a_place_in_a_file_that_was_full(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    path.write_text("a\nb\n")
    assert last_lines(path, since=2) == ["b"]
    assert last_lines(path, since=1000) == ["a", "b"]


def test_a_log_that_is_not_there_yet_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    LogTail(tmp_path / "node.log").close()
    assert (tmp_path / "node.log").stat().st_mode & 0o777 == 0o600
