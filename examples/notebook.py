# %% [markdown]
# # What a dead master cost
# Plots an audited run: sends per second by outcome, the time without writes, and what was lost.
# Open it as a notebook (VS Code, Jupytext), or run it: `python examples/notebook.py RUN [PICTURE]`, after
# `rmqlab audit RUN`. Needs `pip install "/path/to/rmqlab[spark]" matplotlib`.

# %%
"""A notebook about an audited run: sends, outages and losses, with a plot."""

import sys

import matplotlib as mpl

mpl.use("agg")
from matplotlib import pyplot as plt
from pyspark.sql import functions as f

from rmqlab.pipeline.auditframes import audit_frames
from rmqlab.pipeline.session import open_session

run = sys.argv[1] if len(sys.argv) > 1 else "demo"
picture = sys.argv[2] if len(sys.argv) > 2 else "run.png"

# %%
with open_session() as spark:
    tables = audit_frames(spark, run)
    print(tables.describe("fates"))

    # %% Sends of each second, by outcome; `at` is in milliseconds of the cluster's clock.
    bins = tables["send_bins"]
    began = bins.agg(f.min("at")).first()[0] or 0
    second = ((f.col("at") - began) / 1000).cast("int").alias("second")
    sends = bins.groupBy(second, "outcome").agg(f.sum("sends").alias("sends")).orderBy("second").collect()

    # %% Times without a successful write to a broker name. Its queues have their own rows, such as orders@broker-a:0.
    writes = tables["outages"].where("operation = 'write' and not contains(target, '@')")
    outages = [
        (row.target, (row.began_at - began) / 1000, (row.ended_at - began) / 1000)
        for row in writes.orderBy(f.desc(f.col("ended_at") - f.col("began_at"))).limit(3).collect()
    ]

    # %% Messages that were acknowledged, and that no store has.
    lost = tables["fates"].where("send.acknowledged and not is_stored and not is_expired")
    lost_count = lost.count()
    lost.select("message_id", "send.broker", "send.outcome").show(5, truncate=False)

# %%
for target, start, end in outages:
    print(f"writes to {target} failed for {end - start:.1f} s, from {start:.1f} s after the first send on")
print(f"lost: {lost_count} messages")

# %%
figure, axes = plt.subplots(figsize=(9, 3.2), layout="constrained")
below = dict.fromkeys((row.second for row in sends), 0)  # bars are stacked, so one send of an outcome is visible, too
for outcome in sorted({row.outcome for row in sends}):
    bars = {row.second: row.sends for row in sends if row.outcome == outcome}
    bottoms = [below[second] for second in bars]
    axes.bar(list(bars), list(bars.values()), width=1, align="edge", bottom=bottoms, label=outcome)
    below |= {second: below[second] + count for second, count in bars.items()}
for number, (target, start, end) in enumerate(outages[:1]):
    axes.axvspan(start, end, alpha=0.15, color="red", zorder=0, label=f"no writes to {target}" if number == 0 else None)
axes.set(title=f"{run}: sends per second, {lost_count} lost", xlabel="seconds after the first send", ylabel="sends")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
figure.savefig(picture, dpi=120)
print(f"plot: {picture}")
