"""Typed headers, one file per family of requests."""
