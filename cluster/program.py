"""The program `rmqlab`.

It starts the detached supervisor before it imports the command line, so that both import in parallel.
"""

import gc
import sys

from rmqlab.cluster.supervisor.detachedprocess import open_standard_streams, start_early


def main() -> None:
    try:
        open_standard_streams()
        start_early(sys.argv[1:])
        gc.disable()  # the imports would cause dozens of collections, which free nothing
        from rmqlab.cluster import __main__ as command_line  # noqa: PLC0415 -- see above
    except KeyboardInterrupt:  # during the imports: what click prints once a command runs
        print("\nAborted!", file=sys.stderr)
        sys.exit(1)
    gc.freeze()
    gc.enable()
    command_line.main()
