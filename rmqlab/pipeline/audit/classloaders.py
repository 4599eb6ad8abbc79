"""Let Spark compile the code of a query once.

Spark's cache of compiled code is keyed by the class loader of the calling thread. In a local run, threads that start
queries have another one than threads of tasks: both compile the code of each stage. A thread with the loader of tasks
fills the cache for them.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

_TASK_THREAD = "Executor task "


def find_task_loader(spark: SparkSession) -> Any:
    """Return Java's class loader of tasks; None if other processes execute them.

    Starts a job, since threads of tasks have it only after their first task.
    """
    jvm, context = spark._jvm, spark.sparkContext._jsc  # noqa: SLF001 - no other way
    if context is None or not context.sc().isLocal():
        return None
    context.parallelize(jvm.java.util.Collections.singletonList(0)).count()
    threads = jvm.java.lang.Thread.getAllStackTraces().keySet()
    return next((one.getContextClassLoader() for one in threads if one.getName().startswith(_TASK_THREAD)), None)


@contextlib.contextmanager
def class_loader(spark: SparkSession, loader: Any) -> Iterator[None]:
    """Give this thread a class loader for the duration of the block.

    None: its own.
    """
    if loader is None:
        yield
        return
    thread = spark._jvm.java.lang.Thread.currentThread()  # noqa: SLF001 - no other way
    own = thread.getContextClassLoader()
    thread.setContextClassLoader(loader)
    try:
        yield
    finally:
        thread.setContextClassLoader(own)
