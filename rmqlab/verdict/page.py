"""The page docs/checks.md, rendered from the declared metrics and verdict.

    python -m rmqlab.verdict.page > docs/checks.md

`make pages` runs this, and `tests/test_docs.py` fails while the page in the repository is another.
"""

import textwrap
from typing import Final

from rmqlab.verdict.catalogue import METRICS
from rmqlab.verdict.metrics import Metric, Source
from rmqlab.verdict.rules import PROFILES, ROLES, VERDICT_RULES, Groups, VerdictRule

_HEAD: Final = """\
# Checks

`rmqlab check RUN` and `rmqlab audit RUN` judge a run or a cluster by its journals and its stores. Both compute the same
metrics, `check` in plain Python and `audit` on Spark, by different code. Both derive the verdict in the same way.

```console
$ rmqlab check demo
$ rmqlab check demo --metric lost          # with evidence
$ rmqlab check demo --json | jq -r .verdict
```

This page is generated from `rmqlab/verdict/`: change the declarations there, then run `make pages`.

## Verdict

| verdict | exit status | meaning |
|---|---|---|
| `holds` | 0 | no row of the table below is violated, and no evidence for them is missing |
| `violated` | 1 | a row is violated; this is proven, whatever else is missing |
| `unknown` | 2 | no row is violated, but evidence is missing; the reasons name it |

The exit status is that of the verdict, also with `--metric`, which only chooses what is shown. A value above zero has
the effect that the table gives for the run's role and profile. A row that warns adds a warning, printed below the
verdict. Metrics that are not in the table are measurements, and have no part in the verdict.

Role and profile are in the journal since version 3. A run with an older journal is judged by every role and profile: if
their verdicts differ, it is unknown. A warning says so.

A scenario has its own verdict: that on its claim, from its expectations. An expectation on a metric replaces the rows
of that metric. What the other rows find is printed as warnings. A scenario without expectations has the verdict of
`rmqlab check`.

A source such as `store-and-ha section 4.3` is a section of the [protocol facts](protocol/README.md).

"""

_GAPS: Final = """
## Missing evidence

An incomplete journal is a gap. Each metric that rests on this journal is then unknown, or a lower bound if missing
entries can only lower its value. A gap in a broker's journal may hide a request that deleted a topic or a group, or
reset offsets: values above zero that such a request explains are then unknown. So are those that removed records, a
fault of clocks or changed settings explain, if a gap in the journal of the supervisor or a broker may hide these.

A gap in a broker's journal concerns only what its broker name stores, and a gap in a consumer's journal only the
metrics of its group and of all groups. What is found at other broker names remains: it is a lower bound. A gap also
makes the verdict `unknown`, unless a violation is proven.

| damage of a journal | how it is detected |
|---|---|
| damaged bytes | they are not a valid entry, and the numbers of the entries around them have a gap; reading continues at the next valid entry |
| entries removed, repeated or moved | since version 3 each entry has a number, `seq` |
| of another process | entries of another node, or events that only the supervisor records |
| of another run | since version 4 each start of a process begins with `journal_opened`, which has the id of the run |
| of another run, before version 4 | no entry is of the time in which the process ran, in a run without `clock` faults |
| values changed to another type, or times out of range | they are not a valid entry |
| entries changed, removed or added with new numbers | a workload that ends in good order counts its sends by outcome, and its deliveries; the count itself must be there |
| entries changed, removed or added in any way, in a start of a process without other damage | a process that ends in good order, and the supervisor, write the CRC-32 of the entries since their start into the last one |
| all numbers removed | a file with `journal_opened` has numbers |
| start of a server, or role and profile, removed from the supervisor's journal | the server's own journal, `cluster_ready` |
| role, profile or rate changed in the supervisor's journal | `cluster.json` and the `config.toml` of brokers name others |
| a process removed from all journals | brokers recorded a client at an address that only workloads of the cluster have, or nameservers a broker at that of a node, and the supervisor started neither |
| checksums of sends, or all ends of a broker's log, removed | since version 4 a workload records a checksum for each single message, and a broker that stops the end of its log |
| end cut off | since version 3 a process that ends in good order writes `journal_closed` last |
| last entry incomplete | a gap unless the supervisor saw the process killed or crashed, or still running |
| file deleted | the supervisor's journal names each process that it started |
| the supervisor's journal deleted or cut | it is missing, or processes closed their journals which it does not mention |
| journal of a producer missing | `stored_unsent`: messages in the stores that no journal names |

`stored_unsent` messages are a warning, not a gap, if brokers had producers from outside the cluster
(`producer_joined`), or if a workload was killed: its last sends are not recorded.

### The run of a journal

A run is one start of a cluster: by `rmqlab up`, a scenario or a simulation. The supervisor gives it a random id and
writes the id to `cluster.json` (member `run`). Each process writes it into its journal, each time that it starts. A
later `up` on the same stores is another run, with new journals. Each journal must have the id of `cluster.json`;
without that file, the id that most journals have. If no journal has an id, an older version made the run, and only
times show that a journal is of another run. Clients that rmqlab did not start have no journal: their messages are
`stored_unsent`.

A journal with entries of another process or run, or with repeated entries, allows no lower bounds: metrics that rest
on it are unknown.

### Stores with missing or foreign files

A store without some files of its log is incomplete if its broker recorded a later end of the log (`log_sampled`), and
no event removed the files: an expired file, a wiped store, a power loss. Messages that are in no other store are not
lost then: `lost`, `delivered_unstored`, `divergence`, `dangling` and others are unknown, and the reason has the bytes.
Messages of other broker names, whose stores are complete, still count as lost: they are a lower bound.
`missing NODE` still counts the messages that the store lacks. If a configuration file is missing, its older `.bak` does
not replace it.

The same applies to a log with a file of another place. The first record of each file states its commit log offset, the
address of the broker that stored it, and when: a file of another offset, of another broker name of the run, or of
another time than the run (without `clock` faults) is named, and metrics that its records could add to are unknown.

Other bytes of a file count as what the broker left: what was zeroed or overwritten is damage, not missing evidence.
`corrupt NODE` counts damaged records with others behind them. Where a log ends before the last end that its broker
recorded, and no event removed the rest, a warning names the bytes. So does a warning for bytes behind the end of a log
that are neither zero nor the begin of a record: no broker writes them.

### Warnings about files

Other warnings are of files that no metric compares: a table in `config` that exists and cannot be read (unless its node
lost power); topics and groups that a master and its slave configure differently, or one of them lacks, although both
tables have the same version; an index file of a node that always stopped in good order, of whose entries many do not
lead to a record with such a key, with an empty entry or entries out of order, with empty hash slots or a broken chain
of one, with fewer or more entries, other messages or other times than its head states, or with a name that is no time
or not in the order of its messages; a missing table that the broker certainly wrote, if it always stopped in good
order; log files that two nodes share by links. In a run without faults, also: the file `abort` of a broker that stopped
in good order (a full or failing disk, or records without queue entries as after a divergence, leave it as well), or its
absence after a kill; a checkpoint that is missing or invalid after a stop in good order, or with a later time than the
last record of a whole log; log files or queue files of different sizes, or with other names than offsets.

A further warning is of an offset in `consumerOffset.json` above all commits of its group: the group skips messages
when it continues. Consumers record each commit, so an operator, a client without a journal, or something else than a
broker set it. Not judged are groups that a request or a scenario reset, groups with members that keep no journal, were
killed or still run, and brokers that did not stop in good order.

Another warning is of a commit in a consumer's journal beyond the end of its queue in all stores of the broker name: no
consumer can have received what it commits. Not judged are broker names that lost records (power loss, wiped store, cut
log) or whose store is missing, all of them after a `disk` fault, deleted topics, and groups that a request reset.

Files and directories without permission to read them are named in a warning, and metrics that rest on them are unknown.
An unreadable journal is a gap, as a missing one. `audit` ends with 2 if a store has such a file.

### What is not reported

Some changes are not reported. In one log alone, those of records are `divergence`:

* a message's delay level and its other properties, changed alike in all logs: the checksum in the journal does not
  have them. A delayed message of another queue of SCHEDULE_TOPIC_XXXX, which decides
  about its delay, is a `place_disagreement`;
* body, flag, keys and tags, if the producer recorded no checksum, as clients without a journal, batches and older
  versions do;
* fields of headers that no other record and no journal states: reconsume times of messages that a consumer sent back
  and no consumer received again, such as dead letters, and the sysFlag of these messages; the sysFlag of messages whose
  producer recorded none; the port of a producer;
* commits in a consumer's journal beyond the messages that were delivered to its group, but not beyond the queue's end:
  a consumer with a filter commits beyond messages that it does not receive, and journals have no filters;
* messages that no send names and that are younger than a minute, while a producer runs: a producer records a send when
  it has ended, and that may take a minute (`stored_unsent`);
* topics and groups of a slave that differ from its master's, if the version of the table differs as well: a slave that
  could not copy its master's table looks the same;
* a slave's store that was replaced by a copy of its master's, or exchanged with it: both have the same bytes;
* a process, with its journal and its store, that was removed from the supervisor's journal as well, if all processes
  share one address: it looks like a client, or a broker, that rmqlab did not start;
* role, profile and rate, changed in the supervisor's journal and in `cluster.json` alike (and, but for the rate, in
  `config.toml` of the brokers);
* another profile in the supervisor's journal, if single brokers have their own, as after `restart --set profile=...`;
  files that an operator changed by `config set` are not compared with the journal either;
* some of the events `log_sampled`, removed with a new checksum: a broker's journal must have one;
* single entries of an index file with another time, or another commit log offset that keeps their order. In files of
  more than 131,071 entries, only empty entries are reported;
* an index file with another name of the right form, if the order of the files stays the same;
* another run's journal in the same span of time before version 4;
* the journal of a simulation of the same seed and the same cluster, but with other faults or another load, because
  its id is the same;
* entries that were changed into other valid entries, if the process was killed or still runs, if its journal has no
  checksum as in older versions, or if the checksum was changed as well;
* the cut end of a journal whose process was killed;
* removed entries in journals of version 1 and 2, which have no numbers;
* two consumers that hold a queue at once for less than 180 s, or while something disturbs the cluster: what both
  receive is a `duplicates.rebalance`, as between two consumers of which one has not yet heard of the other;
* more redeliveries of a message than its group allows, each from another place of the retry topic or with higher
  reconsume times: they are `duplicates.redelivery`, because a journal does not have the limit, nor failed calls;
* messages that a consumer skipped before it committed, because journals have no filters.

### Corrupt links, wrong clocks, deleted topics

Requests have no checksum of their own. So a broker stores what arrives, and a link fault `corrupt` between a producer
and a broker changes messages that are acknowledged: `content_disagreement` counts them, `lost` those whose unique id
changed, and the verdict is `violated`. Between a master and its slave it makes records `corrupt`, or the logs differ
(`divergence`). No fault excuses these values: a scenario that plays one states what it expects of them.

If the clock of a node disagrees with others, what compares its times is unknown: `order.stored` and `unreplicated` for
producers, metrics of groups, `offset_file_behind` for consumers, lags for brokers, routes for watchers. Offsets of
a group that a request reset (`offset_reset`) only warn if they move back.

Topics and consumer groups that a request deleted (`topic_deleted`, `group_deleted`) are judged by what surely followed
the last deletion at the broker name. Members of a group may still have messages and offsets from before.

| metric | counts after the deletion of a topic or group |
|---|---|
| `order.stored`, `order.delivered` | messages that were sent after it |
| `topics_missing`, `unqueued` | records that were stored after it |
| `offset_rollbacks`, `rolled_back` | moves from an offset that a consumer committed after it received such a message |
| `offset_file_behind` | such commits; of a deleted group those that are at least 1 s younger than the deletion |
| `groups_missing` | groups that received a message that was sent after it |

RocketMQ does not delete the queues of a slave: these keep their old entries, and new records below their end are
`unqueued` there.
"""

_METRICS_HEAD: Final = """
## Metrics

Seconds are of the cluster's clock. A QUEUE is written `topic@broker-a:0`, and a WATCHER is a nameserver or a workload.
A metric rests on the journals in the last column: it is unknown, or a lower bound, if one of them is incomplete.

"""

_DEFINITIONS_HEAD: Final = """
## Definitions

What each metric counts, what it cannot see, and what else makes it unknown.
"""
_COLUMNS: Final = 120


def render_page() -> str:
    """Return the whole page as Markdown."""
    rules = [_row(*_rule_cells(rule)) for rule in VERDICT_RULES]
    metrics = [_row(*_metric_cells(metric)) for metric in METRICS]
    return "".join(
        (
            _HEAD,
            _table("metric", "above zero", "roles", "profiles", "reason", "source"),
            *rules,
            _METRICS_HEAD,
            _table("metric", "unit", "what it is", "journals of"),
            *metrics,
            _GAPS,
            _DEFINITIONS_HEAD,
            *map(_definition, METRICS),
        )
    )


def _table(*columns: str) -> str:
    return _row(*columns) + "|" + "---|" * len(columns) + "\n"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _rule_cells(rule: VerdictRule) -> tuple[str, ...]:
    groups = "" if rule.groups is Groups.ANY else f", {rule.groups} consumers"
    optional = "" if rule.is_needed or rule.effect == "warns" else " (if known)"
    return (
        f"`{rule.metric}`{groups}",
        f"{rule.effect}{optional}",
        _any_of(rule.roles, ROLES),
        _any_of(rule.profiles, PROFILES),
        rule.because,
        rule.source,
    )


def _any_of(chosen: tuple[str, ...], every: tuple[str, ...]) -> str:
    return "any" if chosen == every else ", ".join(chosen)


def _metric_cells(metric: Metric) -> tuple[str, ...]:
    journals = ", ".join(source for source in Source if source in metric.rests_on)
    return f"`{metric.title}`", metric.unit, metric.text, journals


def _definition(metric: Metric) -> str:
    """Return the section of a metric; empty if its row says everything."""
    parts = [f"{_filled(metric.definition)}\n"] if metric.definition else []
    limits = {"Cannot see": metric.blind_to, "Unknown if": metric.unknown_when}
    parts += [_filled(f"{title}: {text}.", indent="  ", first="* ") for title, text in limits.items() if text]
    return "\n".join((f"\n### {metric.title}\n", *parts)).rstrip("\n") + "\n" if parts else ""


def _filled(text: str, indent: str = "", first: str = "") -> str:
    """Return the text in lines of the width of a page."""
    return textwrap.fill(
        text,
        _COLUMNS,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


if __name__ == "__main__":
    print(render_page(), end="")
