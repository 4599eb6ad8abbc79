"""Request handlers, one file per family."""
