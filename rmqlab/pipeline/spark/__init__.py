"""Spark's processes: Java, its home, environment and workers."""
