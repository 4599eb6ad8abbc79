"""Leave the archive of classes from which sessions of tests start.

    python -m tests.pipeline.leave_archive

Its JVM writes it after the program has ended. Each process of tests has a session for all its files. If two start
without an archive, each writes one at its exit.
"""

import pathlib
import tempfile

from rmqlab.pipeline.audit.audit import audit_run
from rmqlab.pipeline.session import open_session
from tests.pipeline.violations import clean_run, write_run


def main() -> None:
    with tempfile.TemporaryDirectory() as place, open_session("local[2]") as spark:
        run = write_run(clean_run(), pathlib.Path(place))
        audit_run(spark, run)
        spark.read.format("rocketmq-store").load(f"{run}/*/store").write.json(f"{place}/records")


if __name__ == "__main__":
    main()
