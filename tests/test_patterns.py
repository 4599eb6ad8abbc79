"""Patterns and readers of foreign text take linear time (issue 12.2).

All patterns of the servers' and clients' modules meet hostile texts in a process of its own. Its CPU time is limited,
because an exponential pattern would never end, and so is the CPU time of each text: all linear patterns together need a
tenth of it, one quadratic pattern needs twice as much. CPU time does not depend on what else the machine does.
"""

import contextlib
import importlib
import itertools
import pkgutil
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

LENGTH = 60_000
"""Characters; quadratic work on them takes 2 s at least."""
TEXT_SECONDS = 1
"""Limit of CPU time for one text. All that is linear takes 0.02 s on average."""
CPU_SECONDS = 60
PACKAGES = tuple(f"rmqlab.{name}" for name in ("remoting", "runtime", "broker", "nameserver", "client", "store"))
UNITS = (
    "/**/", "/*", "/***", "/* a */", "//", "// a\n", "*", " ", "\t", "\n", "\r\n", "\ufeff", "\\", "\\\\", "\\u00", '"', '\\"', "'",
    "''", "a", "aA", "_a", "0", "1", "1.", "1e", "e1", ".", "-", "--", "-- a\n", "=", ":", "a:1,", "{", "[", "[1]", ".a", "%", "||",
    "0x", "p1", "f", "$", "!", "#", "\u0661",
)  # fmt: skip
STARTS = ("", '"', "{a:", "0x1")
ENDS = ("", "@")


def hostile_texts() -> Iterator[str]:
    """Yield each beginning with each repeated unit, with matching and other ends."""
    for start, unit, end in itertools.product(STARTS, UNITS, ENDS):
        yield start + unit * (LENGTH // len(unit)) + end


def patterns() -> dict[str, re.Pattern[str]]:
    """Find all patterns for text at the top level of modules."""
    found = {}
    for package in PACKAGES:
        for info in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not info.name.endswith("__main__"):
                module = importlib.import_module(info.name)
                for name, value in vars(module).items():
                    if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                        found[f"{info.name}.{name}"] = value
    return found


def readers() -> list[Callable[[str], object]]:
    """Functions that are given foreign text whole."""
    from rmqlab.broker.filter.lexer import MAX_LENGTH
    from rmqlab.broker.filter.message_filter import filter_by_tags
    from rmqlab.broker.filter.sql92 import compile_filter
    from rmqlab.broker.filter.values import EvaluationError, compare
    from rmqlab.remoting import fastjson, properties
    from rmqlab.remoting.header import java_number
    from rmqlab.remoting.message import parse_properties
    from rmqlab.runtime.config import settings

    def compared(other: float) -> Callable[[str], object]:
        def read(text: str) -> object:
            with contextlib.suppress(EvaluationError):
                return compare(text, other)
            return None

        return read

    return [
        lambda text: fastjson.parse_fastjson(text.encode()),
        lambda text: fastjson.parse_fastjson(f'[{{"$ref":"$.{text[:30_000]}"}}]'.encode()),
        lambda text: compile_filter(f"a = {text[:MAX_LENGTH // 2]}"), compared(1), compared(1.5), filter_by_tags, java_number, parse_properties,
        properties.parse_properties_text, settings.snake, settings.camel,
    ]  # fmt: skip


def feed_all() -> None:
    """Run every pattern and reader over every text; then say how many."""
    from rmqlab.broker.filter.lexer import FilterError

    known, functions = patterns(), readers()
    for text in hostile_texts():
        began = time.process_time()
        for pattern in known.values():
            pattern.match(text)
            pattern.fullmatch(text)
        for read in functions:
            with contextlib.suppress(ValueError, FilterError):
                read(text)
        seconds = time.process_time() - began
        assert seconds < TEXT_SECONDS, f"{seconds:.1f} s of CPU time for {text[:20]!r}..."
    print(*sorted(known))


@pytest.mark.timeout(20 * CPU_SECONDS)  # on a busy machine; the processor time is what is limited
def test_patterns_and_readers_of_foreign_text_are_linear() -> None:
    fed = subprocess.run(
        [sys.executable, __file__],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS)),
    )
    assert fed.returncode == 0, fed.stderr or "more CPU time than any linear pattern needs"
    assert {"rmqlab.remoting.fastjson._TOKEN", "rmqlab.broker.filter.values._DECIMAL"} <= set(fed.stdout.split())


if __name__ == "__main__":
    feed_all()
