"""Requests that wait: for a message, for a flush, for a slave."""
