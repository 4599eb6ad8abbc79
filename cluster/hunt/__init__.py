"""The hunt for schedules of faults that break a claim.

They are drawn from seeds, played on simulated machines, and reduced to their smallest form.
"""
