"""Fixtures that more than one folder of tests uses, and what holds for all of them."""

import hypothesis

# A deadline judges the machine, not the code.
hypothesis.settings.register_profile("rmqlab", deadline=None)
hypothesis.settings.load_profile("rmqlab")
