"""The hunt: draws schedules of faults from seeds, plays them on simulated machines, and shrinks what breaks a claim."""
