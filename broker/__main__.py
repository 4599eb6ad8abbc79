"""`python -m broker CONFIG`: run one broker without any supervisor."""

import logging
import sys

from broker.config import load_config
from broker.main import main
from remoting.clock import ClockSettings, RatedClock
from remoting.process import run_process
from remoting.settings import SettingsError

USAGE = "usage: python -m broker CONFIG      (a .toml file, or a .properties/.conf file written for RocketMQ)"


def run() -> None:
    """Read the command line, then be a broker."""
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(USAGE)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        settings = load_config(sys.argv[1])
    except SettingsError as exc:
        sys.exit(str(exc))
    run_process(
        main, settings, control=None, clock=RatedClock(ClockSettings.starting_now()), name=settings.broker.broker_name
    )


if __name__ == "__main__":
    run()
