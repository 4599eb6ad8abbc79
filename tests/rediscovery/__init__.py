"""A hunt that must find the flaws of 4.9 by itself."""
