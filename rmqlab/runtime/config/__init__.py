"""Settings: files, types, and errors that name a key."""
