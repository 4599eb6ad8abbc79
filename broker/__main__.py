"""`python -m broker CONFIG`: run one broker without any supervisor."""

from broker.config import load_config
from broker.main import main
from remoting.alone import run_alone


def run() -> None:
    """Read the command line, then be a broker."""
    run_alone("broker", load_config, main, name_of=lambda settings: settings.broker.broker_name)


if __name__ == "__main__":
    run()
