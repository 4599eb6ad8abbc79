import io
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmqlab.runtime.node.logfile import FORMAT, LogFile, PlainFormatter, RateLimit

log = logging.getLogger("tests.logfile")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines(clock: Clock) -> Iterator[io.StringIO]:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(PlainFormatter("%(levelname)s %(message)s"))
    handler.addFilter(RateLimit(handler, most=3, period=60, now=clock))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield written
    log.removeHandler(handler)


def complain(number: int) -> None:
    log.warning("peer %d sends nonsense", number)


def test_a_place_logs_so_often_in_a_period_and_then_how_often_more(lines: io.StringIO, clock: Clock) -> None:
    for number in range(1237):
        complain(number)
    log.info("another place")
    assert lines.getvalue().splitlines() == [
        "WARNING peer 0 sends nonsense",
        "WARNING peer 1 sends nonsense",
        "WARNING peer 2 sends nonsense",
        "INFO another place",
    ]
    clock.now += 60
    log.info("a third place")
    complain(7)
    assert lines.getvalue().splitlines()[4:] == [
        "WARNING ... 1,234 more like it in 60 s: peer %d sends nonsense",
        "INFO a third place",
        "WARNING peer 7 sends nonsense",
    ]
    clock.now += 60
    log.info("nothing was held back")
    assert len(lines.getvalue().splitlines()) == 8


def test_one_place_that_logs_several_kinds_of_things_has_a_limit_for_each(lines: io.StringIO) -> None:
    for number in range(20):
        log.info("%d", number, extra={"group": "even" if number % 2 == 0 else "odd"})
    assert lines.getvalue().split() == [word for number in range(6) for word in ("INFO", str(number))]


def test_a_record_is_one_line_that_steers_nothing_and_is_cut(lines: io.StringIO) -> None:
    # Past the logger: pytest captures what that gets, and its workers cannot send a lone surrogate.
    odd = {"levelname": "INFO", "msg": "group %s", "args": ("\x1b[2J\n2026 ERROR forged\u202e\ud800",)}
    log.handlers[0].handle(logging.makeLogRecord(odd))
    log.info("address %s", "x" * 6_000_000)
    log.error("failed", exc_info=ValueError("\x1b[2J" + "y" * 6_000_000))
    first, second, third, *traceback = lines.getvalue().splitlines()
    assert first == "INFO group \\x1b[2J\\n2026 ERROR forged\\u202e\\ud800"
    assert second.endswith("xx...(6000008 characters)")
    assert third == "ERROR failed"
    assert all(line.isprintable() for line in traceback)
    assert len(lines.getvalue()) < 100_000


def test_a_held_back_traceback_is_not_kept(lines: io.StringIO) -> None:
    del lines

    for _ in range(5):
        log.error("failed", exc_info=ValueError("held"))
    (limit,) = log.handlers[0].filters
    assert isinstance(limit, RateLimit)
    assert [window.like.exc_info for window in limit._windows.values()] == [None]


def test_a_log_uses_at_most_twice_its_size_and_is_private_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    handler = LogFile(path, takes_output=False, file_bytes=10_000)
    handler.setFormatter(PlainFormatter(FORMAT))
    for number in range(1000):
        handler.handle(logging.makeLogRecord({"name": "x", "msg": f"{number} \ud800" + "z" * 100}))
    handler.close()
    assert {one.name for one in tmp_path.iterdir()} == {"node.log", "node.log.1"}
    for one in tmp_path.iterdir():
        assert 0 < one.stat().st_size <= 10_000
        assert one.stat().st_mode & 0o777 == 0o600
    assert " 999 " in path.read_text().splitlines()[-1]


PROCESS = """
import logging, os, sys
from pathlib import Path
from rmqlab.runtime.node import logfile
path = Path(sys.argv[1])
with logfile.open_log(path) as log:
    os.dup2(log.fileno(), 1); os.dup2(log.fileno(), 2)
handler = logfile.LogFile(path, takes_output=True, file_bytes=5000)
logfile._log_to(handler, logfile.FORMAT, logging.INFO)
for number in range(40):
    print("x" * 200, flush=True)
    logging.info("record %d", number)
for number in range(60):
    logging.info("many")
logfile.end_logging()
print("last words", flush=True)
print("and a traceback", file=sys.stderr)
"""


def test_the_output_of_a_process_follows_its_log_rotation(tmp_path: Path) -> None:
    path = tmp_path / "node.log"
    subprocess.run([sys.executable, "-c", PROCESS, path], check=True)
    text = path.read_text()
    assert text.endswith("last words\nand a traceback\n")
    assert "INFO root: ... 10 more like it in 60 s: many\n" in text
    assert sum(one.stat().st_size for one in tmp_path.iterdir()) < 11_000


def test_each_period_ends_at_its_own_time(lines: io.StringIO, clock: Clock) -> None:
    for number in range(5):
        complain(number)
    clock.now += 30
    for _ in range(5):
        log.warning("later")
    clock.now += 20
    for _ in range(5):
        log.warning("last")
    clock.now += 10
    log.info("any record ends what is over")
    assert "... 2 more like it in 60 s: peer %d sends nonsense" in lines.getvalue()
    assert "more like it in 60 s: later" not in lines.getvalue()
    clock.now += 30
    log.info("any record ends what is over")
    assert "... 2 more like it in 60 s: later" in lines.getvalue()
    assert "more like it in 60 s: last" not in lines.getvalue()
