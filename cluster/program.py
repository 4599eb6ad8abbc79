"""The program `rmqlab`.

It starts the detached supervisor before it imports the command line, so that both import in parallel.
"""

import gc
import sys


def main() -> None:
    try:
        from rmqlab.cluster.supervisor.detachedprocess import (  # noqa: PLC0415 -- Ctrl-C may come during the import
            open_standard_streams,
            start_early,
        )

        open_standard_streams()
        start_early(sys.argv[1:])
        gc.disable()  # the imports would cause dozens of collections, which free nothing
        from rmqlab.cluster import __main__ as command_line  # noqa: PLC0415 -- see above
    except KeyboardInterrupt:  # during the imports: what click prints once a command runs
        from rmqlab.cluster.cli.failures import JUDGING  # noqa: PLC0415 -- not needed without an interrupt

        print("\nAborted!", file=sys.stderr)
        sys.exit(2 if sys.argv[1:] and sys.argv[1] in JUDGING else 1)  # 1 would be a verdict
    gc.freeze()
    gc.enable()
    command_line.main()
