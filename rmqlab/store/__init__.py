"""One broker's files on one disk. Knows no network and no event loop."""
