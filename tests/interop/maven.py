"""Real RocketMQ and our Java programs, fetched and compiled once by Maven.

See pom.xml.
"""

import fcntl
import functools
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
TARGET = HERE / "target"
_STAMP = TARGET / "built"


def missing_tools() -> list[str]:
    return [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]


@functools.cache
def build() -> None:
    """Run Maven if a source is newer than its last success.

    Its output is shown only if it fails.

    One process does it, and the others wait.
    """
    TARGET.mkdir(exist_ok=True)
    with (TARGET / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _build()


def _build() -> None:
    sources = [HERE / "pom.xml", *HERE.glob("*/pom.xml"), *HERE.glob("*/src/**/*.java")]
    if _STAMP.exists() and all(_STAMP.stat().st_mtime >= source.stat().st_mtime for source in sources):
        return
    done = subprocess.run(
        ["mvn", "--batch-mode", "--quiet", "package"], cwd=HERE, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"mvn package failed in {HERE}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    _STAMP.touch()


def servers_classpath(folder: str = "servers") -> str:
    return f"{TARGET}/lib/{folder}/*"


def spring_classpath() -> str:
    """Return the class path of the application on rocketmq-spring."""
    return f"{TARGET}/spring/classes:{TARGET}/lib/spring/*"


def old_clients_classpath(folder: str) -> str:
    """Return a class path: the program of clients42, and a client before 4.9."""
    return f"{TARGET}/clients42/classes:{TARGET}/lib/{folder}/*"


def clients_classpath(folder: str = "clients") -> str:
    """Return a class path: our programs, mqadmin, the client and the stock examples.

    They are of one of the lines below target/lib.
    """
    return f"{TARGET}/clients/classes:{TARGET}/lib/{folder}/*"
