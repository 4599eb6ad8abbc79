"""Messages that a slave cut from its log: their fate, and sending them again."""
