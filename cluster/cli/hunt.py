"""The command hunt: looks for schedules of faults that break a claim."""

import contextlib
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import click
import trio
from rich.console import Group
from rich.text import Text

from rmqlab.cluster.cli.completion import complete_scenario
from rmqlab.cluster.cli.hunt_seeds import hunt_seeds
from rmqlab.cluster.cli.number import NumberRange
from rmqlab.cluster.cli.output.hunt_progress import budget_document, shown, summary
from rmqlab.cluster.cli.output.screen import console
from rmqlab.cluster.cli.playall import run_subprocess
from rmqlab.cluster.cli.terms import json_option, misused, no_result, print_json
from rmqlab.cluster.hunt import hunt as hunting
from rmqlab.cluster.hunt.casefile import scenario_of
from rmqlab.cluster.hunt.faults import KINDS, kinds_for, kinds_in
from rmqlab.cluster.hunt.groupclaims import claims_in
from rmqlab.cluster.hunt.hunt import Failure, Hunt, HuntBudget, switches_in
from rmqlab.cluster.hunt.tomlfile import scenario_text
from rmqlab.cluster.scenario.binding import near
from rmqlab.cluster.supervisor.plan.topology import DLEDGER, FLUSH_TYPES, MASTER_ROLES, MASTER_SLAVE, MODES, PROFILES
from rmqlab.verdict.runs import home

SEEDS = 100
MOST_PROBLEMS = 5


@click.command()
@click.argument(
    "scenario",
    default=None,
    shell_complete=complete_scenario,
    help="Hunt for seeds with which this scenario fails, instead of drawing faults.",
)
@click.option("--claims", default="", show_default=False, help="Names of claims, with commas; all if omitted.")
@click.option("--faults", default="", show_default=False, help="Kinds of faults, with commas; all if omitted.")
@click.option(
    "--switches",
    default="",
    show_default=False,
    help="Switches to try on what is found in 4.9, with commas; all if omitted.",
)
@click.option("--on", default="", show_default=False, help="Switches that are on from the start in 4.9, with commas.")
@click.option(
    "--mode", default=MASTER_SLAVE, help="master-slave, or dledger (a group of three that elects its master)."
)
@click.option("--profile", default="4.9", help="4.9, or hardened (all switches that depart from it).")
@click.option("--seeds", type=click.IntRange(min=1), help=f"Number of schedules; {SEEDS} if omitted.")
@click.option("--minutes", type=NumberRange(min=0.01), help="How long to hunt, instead of --seeds.")
@click.option(
    "--first-seed", type=click.IntRange(min=0), default=1, help="Seed of the first schedule; the next ones count up."
)
@click.option("--jobs", "-j", type=click.IntRange(min=1), default=2, help="How many processes at a time.")
@click.option("directory", "--dir", type=click.Path(path_type=Path), help="Where to write what is found.")
@click.option("--role", default="", show_default=False, help="Role of all masters; drawn if omitted.")
@click.option("--flush", default="", show_default=False, help="Flush of all brokers; drawn if omitted.")
@click.option("--short", is_flag=True, help="Draw short schedules only: twice as many in the same time.")
@click.option("--replay/--no-replay", default=True, help="Play what is found on real processes, too.")
@click.option("listed", "--list", is_flag=True, help="Only list the claims and the kinds of faults.")
@json_option
def hunt(
    scenario: str | None,
    claims: str,
    faults: str,
    switches: str,
    on: str,
    mode: str,
    profile: str,
    seeds: int | None,
    minutes: float | None,
    first_seed: int,
    jobs: int,
    directory: Path | None,
    *,
    role: str,
    flush: str,
    short: bool,
    replay: bool,
    listed: bool,
    as_json: bool,
) -> None:
    """Play random schedules of faults on simulated clusters until a claim breaks.

    The seed decides the schedule. What breaks a claim is reduced to its smallest form, and written as a scenario
    file. Exit status: 0 nothing broke, 1 something did, 2 some schedules could not be judged.
    """
    _check_choice("mode", mode, MODES)
    if role and mode == DLEDGER:
        misused("--role: a DLedger group elects its master; expected no role with --mode dledger")
    if listed:
        _print_list(mode, as_json=as_json)
        return
    _check_options(profile, seeds, minutes, on, role, flush)
    many = None if minutes is not None else seeds or SEEDS
    budget = HuntBudget(first_seed=first_seed, seeds=many, minutes=minutes, jobs=jobs)
    if scenario is not None:
        if claims or faults or switches or on or short or role or flush or mode != MASTER_SLAVE:
            misused("a scenario has its own cluster, faults and claims: expected no options for them")
        hunt_seeds(scenario, profile, budget, as_json=as_json)
    planned = Hunt(
        claims=_names("claim", claims, claims_in(mode)),
        kinds=_names("kind of fault", faults, kinds_in(mode)) if faults else kinds_for(profile, mode),
        profile=profile,
        mode=mode,
        budget=budget,
        switches=_names("switch", switches, switches_in(mode)),
        on=_names("switch", on, switches_in(mode)) if on else (),
        is_short=short,
        role=role,
        flush=flush,
    )
    hunt_directory = directory or home() / "hunts" / time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    progress = hunting.Progress()
    try:
        hunt_directory.mkdir(parents=True, exist_ok=True)  # now, not after an hour of hunting
        failures = _hunt(planned, progress, hunt_directory, as_json=as_json)
        replays = {path: _replay(path, profile) for path in failures} if replay else {}
    except OSError as exc:
        no_result(f"{hunt_directory}: {exc.strerror}")
    finally:
        with contextlib.suppress(OSError):  # it has files, or could not be created
            hunt_directory.rmdir()
    if as_json:
        print_json(_document(planned, progress, failures, replays))
    else:
        console.print(_render(progress, failures, replays))
    raise click.exceptions.Exit(progress.exit_status(is_broken=bool(failures)))


def _check_options(profile: str, seeds: int | None, minutes: float | None, on: str, role: str, flush: str) -> None:
    """Exit with an error if options are invalid or exclude each other."""
    if profile not in PROFILES:
        misused(f"no profile {profile!r}; profiles: {', '.join(PROFILES)}")
    if seeds is not None and minutes is not None:
        misused("--seeds and --minutes: expected one of them")
    if on and profile != "4.9":
        misused(f"--on: all switches are on in {profile}; expected --profile 4.9")
    _check_choice("role", role, MASTER_ROLES)
    _check_choice("flush", flush, FLUSH_TYPES)


def _check_choice(what: str, given: str, known: Sequence[str]) -> None:
    if given and given not in known:
        misused(f"no {what} {given!r}{near(given, known)}")


def _names(what: str, given: str, known: Any) -> tuple[str, ...]:
    names = tuple(name.strip() for name in given.split(",") if name.strip())
    for name in names:
        if name not in known:
            misused(f"no {what} {name!r}{near(name, known)}")
    return names or tuple(known)


def _hunt(planned: Hunt, progress: hunting.Progress, hunt_directory: Path, *, as_json: bool) -> dict[Path, Failure]:
    """Hunt until the end or Ctrl-C. Return the failures by their scenario files."""
    found: dict[Path, Failure] = {}
    with shown(progress, planned.budget, as_json=as_json) as show:
        for failure in planned.run(progress, show):
            found[_write(failure, hunt_directory, planned)] = failure
            if not as_json:
                console.print(Text.assemble((failure.claim, "bold red"), f": {_faults_of(failure)}: {failure.found}"))
                console.print(Text(f"  {_command(failure, planned)}"), soft_wrap=True)
    return found


def _faults_of(failure: Failure) -> str:
    return ", ".join(map(str, failure.case.faults))


def _circumstances(failure: Failure) -> str:
    case = failure.case
    group = "" if case.mode == DLEDGER else f"{case.role}, "
    ending = "" if case.cut_at is None else f", ended at {case.cut_at:g} s"
    switches = f", with {' and '.join(case.switches)}" if case.switches else ""
    return f"{group}{case.flush}{ending}{switches}"


def _write(failure: Failure, hunt_directory: Path, planned: Hunt) -> Path:
    """Write the smallest form as a scenario file."""
    claim = claims_in(planned.mode)[failure.claim]
    path = hunt_directory / f"{failure.claim}-{failure.case.seed}.toml"
    comments = (
        f"Breaks the claim {failure.claim}: {claim.text}. Found: {failure.found}.",
        f"Each alone fixes it: {', '.join(failure.fixed_by)}." if failure.fixed_by else "No switch alone fixes it.",
        (
            f"replay: rmqlab run {shlex.quote(str(path))} --simulated --seed {failure.case.seed}"
            f" --profile {planned.profile}"
        ),
        f"drawn by: {_command(failure, planned)}",
    )
    scenario = scenario_of(failure.case, claim.expectations_for(failure.case), name=path.stem, claim=claim.text)
    path.write_text(scenario_text(scenario, comments))
    return path


def _command(failure: Failure, planned: Hunt) -> str:
    """Return the command that draws the case of a failure again, and reduces it."""
    words = ["rmqlab", "hunt", "--claims", failure.claim, "--profile", planned.profile]
    words += ["--first-seed", str(failure.case.seed), "--seeds", "1"]
    words += ["--mode", planned.mode] if planned.mode != MASTER_SLAVE else []
    are_all = planned.kinds == kinds_for(planned.profile, planned.mode)
    words += [] if are_all else ["--faults", ",".join(planned.kinds)]
    words += ["--short"] if planned.is_short else []
    words += ["--role", planned.role] if planned.role else []
    words += ["--flush", planned.flush] if planned.flush else []
    words += ["--on", ",".join(failure.case.switches)] if failure.case.switches else []
    return shlex.join(words)


def _replay(path: Path, profile: str) -> bool | None:
    """Play a file on real processes.

    Return whether the claim breaks there, too; None if that is unknown.
    """
    done = trio.run(run_subprocess, path, profile, [])
    verdicts = [expectation["verdict"] for expectation in done["expectations"]]
    return None if not verdicts or "unknown" in verdicts else "violated" in verdicts


def _document(
    planned: Hunt, progress: hunting.Progress, failures: dict[Path, Failure], replays: dict[Path, bool | None]
) -> dict[str, Any]:
    return {
        "profile": planned.profile,
        "mode": planned.mode,
        "claims": list(planned.claims),
        "faults": list(planned.kinds),
        "short": planned.is_short,
        **budget_document(progress, planned.budget),
        "failures": [
            {
                "claim": failure.claim,
                "found": failure.found,
                "seed": failure.case.seed,
                "role": failure.case.role,
                "flush": failure.case.flush,
                "moves": [attrs.asdict(fault) for fault in failure.case.faults],
                "cut_at": failure.case.cut_at,
                "switches": list(failure.case.switches),
                "fixed_by": list(failure.fixed_by),
                "after_seconds": round(failure.after_seconds, 2),
                "on_real_processes": replays.get(path),
                "file": str(path),
            }
            for path, failure in failures.items()
        ],
    }


def _render(progress: hunting.Progress, failures: dict[Path, Failure], replays: dict[Path, bool | None]) -> Group:
    said = {True: "it happens there, too", False: "it does not happen there", None: "not known"}
    lines: list[Text] = []
    for path, failure in failures.items():
        real = said[replays[path]] if path in replays else "not played"
        lines += [
            Text.assemble((failure.claim, "bold red"), f": {claims_in(failure.case.mode)[failure.claim].text}"),
            Text(f"  broken by: {_faults_of(failure)} ({_circumstances(failure)})"),
            Text(f"  found: {failure.found}"),
            Text(f"  fixed by: {' or '.join(failure.fixed_by) or 'no switch alone'}"),
            Text(f"  on real processes: {real}"),
            Text(f"  {path}", "dim"),
        ]
    lines += [Text(problem, "yellow") for problem in progress.problems[:MOST_PROBLEMS]]
    what = f"{'way' if len(failures) == 1 else 'ways'} to break a claim"
    return Group(*lines, Text(summary(progress, len(failures), what), "bold"))


def _print_list(mode: str, *, as_json: bool) -> None:
    claims = {claim.name: claim.text for claim in claims_in(mode).values()}
    faults = {name: KINDS[name].text for name in kinds_in(mode)}
    if as_json:
        print_json({"claims": claims, "faults": faults})
        return
    for title, rows in (("claims", claims), ("kinds of faults", faults)):
        console.print(Text(title, "bold"))
        for name, text in rows.items():
            console.print(f"  {name:16} {text}")
