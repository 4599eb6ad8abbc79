"""Draws the pictures of README from a real cluster and a real report.

Run it: `make pictures`. The live view is rendered as SVG by rich; the report is a picture of its page in Chromium.
Needs the extra `spark`, and Chromium on PATH.
"""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from rmqlab.cluster.cli.live.keys import Selection
from rmqlab.cluster.cli.live.view import render_live

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SCREEN = (100, 26)
"""Columns and lines of the live view."""
PAGE = (1120, 1075)
"""Pixels of the report's picture: its story, key figures and the first chart."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_WEB_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
_QUIETLY = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-sync")


def main() -> int:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rmqlab-pictures-") as folder:
        home = Path(folder)
        draw_live_view(home, IMAGES / "live-view.svg")
        rmqlab(home, "demo")
        rmqlab(home, "audit", "demo", "--report", expected=(0, 1))
        photograph(home / "demo" / "report.html", home, IMAGES / "report.png")
    return 0


def draw_live_view(home: Path, out: Path) -> None:
    """Run a cluster of two groups, kill a loaded master, and draw `rmqlab watch`."""
    rmqlab(home, "up", "--detach", "-n", "shop", "--groups", "2", "--role", "SYNC_MASTER")
    try:
        with workload(home, "produce", "-t", "orders", "-r", "20"), workload(home, "consume", "-t", "orders"):
            rmqlab(home, "wait", "-n", "shop", "slave-in-sync", "broker-a")
            rmqlab(home, "wait", "-n", "shop", "slave-in-sync", "broker-b")
            rmqlab(home, "kill", "-n", "shop", "broker-a")
            rmqlab(home, "wait", "-n", "shop", "route-gone", "broker-a")
            document = json.loads(rmqlab(home, "status", "-n", "shop", "--json"))
            lines = rmqlab(home, "events", "-n", "shop", "--json").splitlines()
            render(document, [json.loads(line) for line in lines], out)
    finally:
        rmqlab(home, "down", "-n", "shop")


def render(document: dict[str, Any], events: list[dict[str, Any]], out: Path) -> None:
    """Draw one screen of the live view."""
    width, height = SCREEN
    console = Console(record=True, width=width, height=height, file=io.StringIO())
    console.print(render_live(document, Selection(), events, width, height))
    drawn = console.export_svg(title="rmqlab watch")
    out.write_text(_WEB_FONT.sub("", drawn))  # a page that shows it must not load anything


def photograph(page: Path, home: Path, out: Path) -> None:
    """Take a picture of a page."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit(f"no browser: expected one of {', '.join(BROWSERS)} on PATH")
    size = f"--window-size={PAGE[0]},{PAGE[1]}"
    common = [browser, *_QUIETLY, f"--user-data-dir={home / 'profile'}", size]
    subprocess.run([*common, f"--screenshot={out}", page.as_uri()], check=True, capture_output=True, timeout=240)


@contextlib.contextmanager
def workload(home: Path, *words: str) -> Iterator[None]:
    """Run `rmqlab produce` or `consume` on the cluster meanwhile."""
    with subprocess.Popen(
        [*_RMQLAB, *words, "-n", "shop"], env=_environment(home), stdout=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.terminate()


_RMQLAB = (sys.executable, "-m", "rmqlab.cluster")


def rmqlab(home: Path, *words: str, expected: tuple[int, ...] = (0,)) -> str:
    """Run a command and return its output."""
    done = subprocess.run([*_RMQLAB, *words], env=_environment(home), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in expected:
        sys.exit(f"rmqlab {' '.join(words)} ended with {done.returncode}")
    return done.stdout


def _environment(home: Path) -> dict[str, str]:
    return {**os.environ, "RMQLAB_HOME": str(home)}


if __name__ == "__main__":
    sys.exit(main())
