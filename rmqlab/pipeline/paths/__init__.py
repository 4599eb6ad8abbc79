"""Paths that users give: local, in object stores, and in HDFS."""
