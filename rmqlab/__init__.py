"""A RocketMQ 4.9 master/slave cluster on a laptop.

Real processes, real protocols, real files, real failures.
"""

import sys

__version__ = "0.1.0"

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:  # Python is about to run a module, and imports its package
    _module = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
    if _module.partition(".")[0] == __name__:
        del sys.path[0]  # the working directory: a user's `queue.py` there would replace the standard one
