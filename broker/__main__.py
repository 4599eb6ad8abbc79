"""`python -m rmqlab.broker CONFIG`: run one broker without any supervisor."""

from rmqlab.broker.config import load_config
from rmqlab.broker.main import main
from rmqlab.runtime.node.standalone import run_standalone


def run() -> None:
    """Parse the command line and run a broker."""
    run_standalone("broker", load_config, main, name_of=lambda settings: settings.broker.broker_name)


if __name__ == "__main__":
    run()
