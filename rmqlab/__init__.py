"""A RocketMQ 4.9 master/slave cluster on a laptop.

Real processes, real protocols, real files, real failures.
"""

import os
import sys

__version__ = "0.1.0"

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:  # Python is about to run a module, and imports its package
    _module = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
    _is_ours = _module.partition(".")[0] == __name__
    try:
        if _is_ours and sys.path[0] == os.getcwd():  # noqa: PTH109 -- a user's `pathlib.py` may be there
            del sys.path[0]  # a user's `queue.py` there would replace the standard one
    except FileNotFoundError:  # the working directory was deleted: it is not on the path
        pass
