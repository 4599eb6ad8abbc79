"""Typed bodies, one file per subject."""
