"""Messages that are stored a second time later: delayed and half messages."""
