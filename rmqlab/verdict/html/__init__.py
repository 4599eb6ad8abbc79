"""Parts of self-contained pages: the report, and comparisons of runs."""
