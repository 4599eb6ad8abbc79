"""Set-up of Hadoop's client for HDFS.

Arrow uses libhdfs, which starts a JVM in this process.
"""

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

SCHEMES: Final = ("hdfs", "viewfs")
NEEDS: Final = (
    "This needs a JVM (JAVA_HOME) and Hadoop's libhdfs (ARROW_LIBHDFS_DIR or HADOOP_HOME). Or use webhdfs://, which"
    " needs only the Python packages fsspec and requests"
)


def is_default(root: str) -> bool:
    """Return True for `hdfs:///`, Hadoop's default file system, without options."""
    return root in {f"{scheme}:///" for scheme in SCHEMES}


def open_default() -> "FileSystem":
    """Return the file system of `fs.defaultFS` in core-site.xml. Raises OSError."""
    from pyarrow.fs import HadoopFileSystem  # noqa: PLC0415 - slow to import, and rarely needed

    return HadoopFileSystem("default")


def set_class_path() -> None:
    """Set CLASSPATH to Hadoop's configuration and classes, unless it is set.

    Spark has all classes that libhdfs uses. Without them, libhdfs may crash the process.
    """
    if os.environ.get("CLASSPATH"):
        return
    settings = [place for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if (place := os.environ.get(name))]
    jars = sorted((_spark_home() / "jars").glob("*.jar"))
    os.environ["CLASSPATH"] = os.pathsep.join([*settings, *map(str, jars)])


def _spark_home() -> Path:
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
