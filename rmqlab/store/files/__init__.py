"""Files on disk: mapped, of bounded number, or replaced as a whole."""
