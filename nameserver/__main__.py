"""`python -m nameserver CONFIG`: run one nameserver without any supervisor."""

import logging
import sys

from nameserver.config import load_config
from nameserver.main import main
from remoting.clock import ClockSettings, RatedClock
from remoting.process import run_process
from remoting.settings import SettingsError

USAGE = "usage: python -m nameserver CONFIG      (a .toml file, or a .properties/.conf file written for RocketMQ)"


def run() -> None:
    """Read the command line, then be a nameserver. Changes of state go to stderr, a line each."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(USAGE)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        config = load_config(sys.argv[1])
    except SettingsError as exc:
        sys.exit(str(exc))
    run_process(main, config, control=None, clock=RatedClock(ClockSettings.starting_now()), name="nameserver")


if __name__ == "__main__":
    run()
