"""One broker's files on one disk. Independent of network and event loop."""
