"""The main job: a cluster under load, its master killed, and the truth shown."""
