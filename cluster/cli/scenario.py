"""The commands scenarios, run and repro."""

import functools
import shlex
import signal
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import trio
from rich.text import Text

from rmqlab.cluster.cli.completion import complete_scenario
from rmqlab.cluster.cli.number import NumberRange
from rmqlab.cluster.cli.output.line_output import LineOutput
from rmqlab.cluster.cli.output.screen import console
from rmqlab.cluster.cli.output.tables import render_nodes
from rmqlab.cluster.cli.playall import PlayAll
from rmqlab.cluster.cli.terms import json_option, misused, no_result, print_json, print_lines
from rmqlab.cluster.lab import Cluster, WaitTimeoutError
from rmqlab.cluster.scenario.catalogue import (
    Listed,
    NoScenarioError,
    find_by_source,
    find_scenario,
    large_dir,
    list_scenarios,
)
from rmqlab.cluster.scenario.external import check_commands
from rmqlab.cluster.scenario.load import ScenarioError, check_settings, parse_scenario, scenario_text
from rmqlab.cluster.scenario.model import Scenario
from rmqlab.cluster.scenario.result import Options, Run
from rmqlab.cluster.scenario.run import KeepRunning, draw_seed, run_scenario
from rmqlab.cluster.scenario.rundir import RunDirectory, create_folder
from rmqlab.cluster.scenario.view import render_catalogue, render_head, render_run, render_summary
from rmqlab.cluster.simulation.play import play_simulated
from rmqlab.cluster.supervisor.files.directory import SetupError
from rmqlab.cluster.supervisor.plan.topology import MODES, PROFILES
from rmqlab.cluster.supervisor.serve import UP_FAILURES
from rmqlab.runtime.interrupts import as_ctrl_c
from rmqlab.runtime.text.counted import counted
from rmqlab.simulation.child import ChildEndedError
from rmqlab.verdict.runs import home

BOTH = "both"
profile_option = click.option(
    "--profile",
    help="4.9, hardened (all switches that depart from it), or both, one after the other. [that of the file, else 4.9]",
)
simulated_option = click.option(
    "--simulated", is_flag=True, help="On virtual time, in one process: fast, and the same with each seed."
)


@click.command()
@click.option("run_all", "--run", is_flag=True, help="Run all but the large ones, and show one table.")
@click.option("--both", is_flag=True, help="With --run: under both profiles also where the outcome is the same.")
@click.option("--jobs", "-j", type=click.IntRange(min=1), default=2, help="How many at a time.")
@click.option(
    "directory",
    "--dir",
    type=click.Path(path_type=Path),
    help="List or run the scenario files of this directory instead.",
)
@click.option("--keep-stores", is_flag=True, help="With --run: also where the claim holds.")
@click.option("--simulated", is_flag=True, help="With --run: on virtual time, as `run` does.")
@click.option("--retry", is_flag=True, help="With --run: repeat up to 5 runs that do not hold, each alone; for CI.")
@json_option
def scenarios(
    *,
    run_all: bool,
    both: bool,
    jobs: int,
    directory: Path | None,
    keep_stores: bool,
    simulated: bool,
    retry: bool,
    as_json: bool,
) -> None:
    """List the canonical scenarios, or run them all.

    Scenarios whose outcome differs run under both profiles. Exit status with --run: 0 all hold, 1 one is violated, 2
    one is unknown.
    """
    try:
        listed = list(list_scenarios(directory))
        if directory is None and not run_all:
            listed += list_scenarios(large_dir())
    except ScenarioError as exc:
        misused(str(exc))
    if run_all:
        try:
            create_folder(home() / "runs")  # else each of the scenarios fails for itself
        except SetupError as exc:
            no_result(str(exc))
        more = ["--keep-stores"] * keep_stores + ["--simulated"] * simulated
        _run_all(listed, jobs, as_json=as_json, both=both, more=more, retry=retry)
    elif as_json:
        print_json([_summary_of(it) for it in listed])
    else:
        console.print(render_catalogue(listed))


def _summary_of(listed: Listed) -> dict[str, Any]:
    scenario = listed.scenario
    return {
        "name": scenario.name,
        "claim": scenario.claim,
        "why": scenario.why,
        "sources": list(scenario.sources),
        "hardened": scenario.differs_hardened,
        "same_hardened": scenario.hardened.same if scenario.hardened else "",
        "file": str(listed.path),
    }


@click.command()
@click.argument("scenario", shell_complete=complete_scenario, help="A name that `rmqlab scenarios` lists, or a file.")
@profile_option
@click.option("--rate", type=NumberRange(min=0.01), help="Cluster seconds per real second.")
@click.option("--seed", type=int, help="Seed of random choices; drawn and printed if omitted.")
@click.option(
    "--promote-after",
    type=NumberRange(min=0.0),
    help="Seconds after which an operator promotes a slave of a master that is away.",
)
@click.option("--mode", help="dledger: use groups that elect their master instead of those of the scenario.")
@simulated_option
@click.option("--allow-commands", is_flag=True, help="Let steps run external commands, with your rights.")
@click.option("--keep-stores", is_flag=True, help="Keep the stores even if the claim holds.")
@click.option("--attach", is_flag=True, help="At rate 1, and up until Ctrl-C after the last step: for other programs.")
@json_option
def run(
    scenario: str,
    profile: str | None,
    rate: float | None,
    seed: int | None,
    promote_after: float | None,
    mode: str | None,
    *,
    simulated: bool,
    allow_commands: bool,
    keep_stores: bool,
    attach: bool,
    as_json: bool,
) -> None:
    """Run a scenario and judge it.

    Exit status: 0 the claim holds, 1 it is violated, 2 not known.
    """
    try:
        path = find_scenario(scenario)
    except NoScenarioError as exc:
        misused(str(exc))
    if attach and rate not in (None, 1.0):
        misused("--attach: other programs live in real time, so the rate is 1")
    if simulated and (attach or rate is not None):
        misused("--simulated: virtual time passes as fast as the machine can, without --rate and --attach")
    if mode not in (None, *MODES):
        misused(f"no mode {mode!r}; modes: {', '.join(MODES)}")
    if attach and profile == BOTH:
        misused("--attach: one cluster stays up, so expected one profile")
    options = {
        "profile": profile or "",
        "rate": 1.0 if attach else rate,
        "seed": seed,
        "promote_after": promote_after,
        "mode": mode,
        "allows_commands": allow_commands,
    }
    options["keeps_stores"] = True if keep_stores else None
    raise click.exceptions.Exit(_run(path, scenario, options, as_json=as_json, stays_up=attach, is_simulated=simulated))


@click.command()
@click.argument("issue", help="Such as rmq#1094 or ali#400.")
@profile_option
@click.option("--seed", type=int, help="Seed of random choices; drawn and printed if omitted.")
@simulated_option
@json_option
def repro(issue: str, profile: str | None, seed: int | None, *, simulated: bool, as_json: bool) -> None:
    """Run the scenarios that reproduce an issue.

    Exit status as `run`: the worst of them.
    """
    try:
        found = find_by_source(issue)
    except NoScenarioError as exc:
        misused(str(exc))
    except ScenarioError as exc:
        misused(str(exc))
    options = {"profile": profile or "", "seed": seed}
    statuses = (_run(it.path, it.scenario.name, options, as_json=as_json, is_simulated=simulated) for it in found)
    raise click.exceptions.Exit(_worst(statuses))


def _worst(statuses: Iterable[int]) -> int:
    """Return 1 (violated) if any status is, else the largest."""
    known = [*statuses]
    return 1 if 1 in known else max(known)


def _run(
    path: Path,
    target: str,
    options: dict[str, Any],
    *,
    as_json: bool,
    stays_up: bool = False,
    is_simulated: bool = False,
) -> int:
    """Run a scenario file, print the results, and return the exit status.

    The options choose one profile or both.
    """
    profile = options["profile"]
    once = functools.partial(_run_once, path, target, as_json=as_json, stays_up=stays_up, is_simulated=is_simulated)
    if profile not in ("", *PROFILES, BOTH):
        misused(f"no profile {profile!r}; profiles: {', '.join(PROFILES)}, or {BOTH}")
    if profile != BOTH:
        return once(options).verdict.exit_status
    seed = draw_seed() if options["seed"] is None else options["seed"]
    runs = []
    for one in PROFILES:
        runs.append(once({**options, "seed": seed, "profile": one}))
        if not as_json:
            console.print()
    if not as_json:
        row = {"scenario": runs[0].scenario.name, **{done.profile: done.as_json() for done in runs}}
        console.print(render_summary([row]))
    return _worst(done.verdict.exit_status for done in runs)


def _run_once(
    path: Path, target: str, options: dict[str, Any], *, as_json: bool, stays_up: bool, is_simulated: bool
) -> Run:
    """Run a scenario file under one profile, and print the result."""
    try:
        text = scenario_text(path)
        scenario = parse_scenario(text, str(path))
        check_commands(scenario, is_allowed=options.get("allows_commands", False), is_simulated=is_simulated)
        chosen = Options(
            source=text, target=target, **{**options, "profile": options["profile"] or scenario.own_profile}
        )
        played = scenario.under_profile(chosen.profile)
        check_settings(played, text, str(path))
    except (ScenarioError, OSError, ValueError) as exc:
        misused(str(exc))
    if not as_json:
        rate = None if is_simulated else chosen.rate or played.cluster.rate
        console.print(render_head(played, chosen.profile, rate))
    output = LineOutput(is_silent=as_json)
    try:
        directory = RunDirectory.create(scenario.name)
        if is_simulated:
            done = _play_simulated(scenario, chosen, directory, output)
        else:
            done = trio.run(_play, scenario, chosen, directory, output, stays_up)
    except BaseExceptionGroup as group:
        known = group.subgroup((*UP_FAILURES, WaitTimeoutError, TimeoutError))
        if known is None:
            raise
        no_result(str(_first(known)))
    except (*UP_FAILURES, ChildEndedError) as exc:
        no_result(str(exc))
    finally:
        output.show_progress(None)
    if done is None:
        no_result(f"interrupted; all nodes are stopped. Recorded so far: {directory.path}")
    if as_json:
        print_json(done.as_json())
    else:
        console.print(render_run(done))
    return done


def _play_simulated(scenario: Scenario, options: Options, directory: RunDirectory, output: LineOutput) -> Run | None:
    """Run a scenario on virtual time. None if a signal ended it."""
    try:
        with as_ctrl_c(signal.SIGTERM):
            return play_simulated(scenario, options, directory=directory, on_line=output.line)
    except KeyboardInterrupt:
        return None


async def _play(
    scenario: Scenario,
    options: Options,
    directory: RunDirectory,
    output: LineOutput,
    stays_up: bool,  # noqa: FBT001 -- trio.run hands arguments over by position
) -> Run | None:
    """Run a scenario.

    The first signal ends it: cleanly if all steps are done, otherwise at once.
    """
    scope, stay = trio.CancelScope(), None
    done: list[Run] = []

    async def ready(cluster: Cluster) -> None:
        where = shlex.quote(str(directory.path))
        if stay is not None:
            output.line(render_nodes(await cluster.status()))
            output.line(f"\nexport NAMESRV_ADDR='{cluster.namesrv_addr}'")
            output.line(f"rmqlab status --name {where}\nrmqlab watch --name {where}\n")
        else:
            output.line(Text(f"to watch it: rmqlab watch --name {where}", "dim"))

    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            if stays_up:
                stay = KeepRunning()
                nursery.start_soon(_print_when_played, stay, output)
            nursery.start_soon(_end_on_signal, signals, scope, stay, output)
            run = functools.partial(
                run_scenario, on_line=output.line, on_progress=output.show_progress, ready=ready, stay=stay
            )
            with scope:
                done.append(await run(scenario, options, directory=directory))
            nursery.cancel_scope.cancel()
    return done[0] if done else None


async def _print_when_played(stay: KeepRunning, output: LineOutput) -> None:
    await stay.played.wait()
    output.show_progress(None)
    output.line("all steps are done; the cluster stays up. Ctrl-C ends the run, and judges it.")


async def _end_on_signal(
    signals: AsyncIterator[int], scope: trio.CancelScope, stay: KeepRunning | None, output: LineOutput
) -> None:
    async for _ in signals:
        output.show_progress(lambda: "healing faults, stopping all nodes")
        if stay is not None and stay.played.is_set() and not stay.over.is_set():
            stay.over.set()
        else:
            scope.cancel()


def _run_all(
    listed: Sequence[Listed], jobs: int, *, as_json: bool, both: bool, more: Sequence[str], retry: bool
) -> None:
    """Run each scenario in its own process, `jobs` at a time, and print a summary."""
    output = LineOutput(is_silent=as_json)
    every = PlayAll.of(listed, output, more, both=both)

    async def work() -> None:
        await every.play(jobs)
        if retry:
            await every.retry()

    output.show_progress(lambda: f"playing {', '.join(every.playing)}")
    try:
        trio.run(work)
    except* KeyboardInterrupt:
        interrupted = True
    else:
        interrupted = False
    finally:
        output.show_progress(None)
    if interrupted:
        no_result("interrupted; every run is stopped, and its directory is kept")
    verdicts = every.verdicts()
    if as_json:
        print_json(every.rows())
    else:
        console.print(render_summary(every.rows()))
        counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        console.print(f"{counted(len(listed), 'scenarios')}, {counted(len(every.runs), 'runs')}: {counts}")
        if retry:
            print_lines(every.closing_lines())
    raise click.exceptions.Exit(1 if verdicts["violated"] else 2 if verdicts["unknown"] else 0)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    exc: BaseException = group
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return exc
