"""The examples that need Spark, as a user would run them."""

import pathlib
import subprocess
import sys

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def test_a_real_store_is_summed_up(golden: pathlib.Path) -> None:
    program = [sys.executable, str(EXAMPLES / "spark_store.py"), str(golden / "master")]
    told = subprocess.run(program, check=True, capture_output=True, text=True, timeout=300).stdout
    assert "|master|ok   |2161 |" in told
    assert "StoreBulk" in told
