import subprocess
import sys

PROGRAM = """
import gc
from rmqlab.pipeline.spark.heap import freeze_imports

freeze_imports()
frozen = gc.get_freeze_count()
{then}
freeze_imports()
print(len(gc.get_objects()) < 1000, gc.get_freeze_count() - frozen > 1000)
"""


def frozen(then: str) -> str:
    """Whether collections skip what is imported, in a process of its own.

    And whether the second call froze more.
    """
    program = PROGRAM.format(then=then)
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def test_collections_skip_what_is_imported() -> None:
    assert frozen("import xml.dom.minidom, http.client") == "True True"


def test_garbage_of_a_task_is_still_collected() -> None:
    assert frozen("kept = [[number] for number in range(5000)]") == "False False"
