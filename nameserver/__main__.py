"""`python -m rmqlab.nameserver CONFIG`: run one nameserver without any supervisor."""

from rmqlab.nameserver.config import load_config
from rmqlab.nameserver.main import main
from rmqlab.runtime.node.standalone import run_standalone


def run() -> None:
    """Parse the command line and run a nameserver."""
    run_standalone("nameserver", load_config, main, name_of=lambda _config: "nameserver")


if __name__ == "__main__":
    run()
