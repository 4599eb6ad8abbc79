"""The wire: frames, header codecs, typed headers, connections. Knows no broker."""
