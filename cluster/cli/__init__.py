"""The command line, one file per kind of command."""
