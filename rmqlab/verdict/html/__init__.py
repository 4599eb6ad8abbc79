"""Parts of self-contained pages: of one run (the report), and of runs side by side."""
