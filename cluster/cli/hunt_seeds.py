"""The command hunt with a scenario: looks for seeds with which it fails."""

import shlex
from typing import NoReturn

import click
from rich.text import Text

from rmqlab.cluster.cli.output.hunt_progress import budget_document, shown, summary
from rmqlab.cluster.cli.output.screen import console
from rmqlab.cluster.cli.terms import misused, print_json
from rmqlab.cluster.hunt.hunt import HuntBudget, Progress, SeedHunt
from rmqlab.cluster.hunt.trial import Trial
from rmqlab.cluster.scenario.catalogue import NoScenarioError, find_scenario
from rmqlab.cluster.scenario.load import ScenarioError, load_scenario


def hunt_seeds(name: str, profile: str, budget: HuntBudget, *, as_json: bool) -> NoReturn:
    """Play a scenario with many seeds, print those that violate it, and exit."""
    try:
        scenario = load_scenario(find_scenario(name))
    except (NoScenarioError, ScenarioError) as exc:
        misused(str(exc))
    progress, found = Progress(), dict[int, Trial]()

    def replay(seed: int) -> str:
        return shlex.join(["rmqlab", "run", name, "--simulated", "--seed", str(seed), "--profile", profile])

    with shown(progress, budget, as_json=as_json) as show:
        for seed, trial in SeedHunt(scenario=scenario, profile=profile, budget=budget).run(progress, show):
            found[seed] = trial
            if not as_json:
                what = "; ".join(f"{title}: {value}" for title, value in trial.broken.items())
                console.print(Text.assemble((f"seed {seed}", "bold red"), f": {what}\n  {replay(seed)}"))
    if as_json:
        print_json(
            {
                "profile": profile,
                "scenario": scenario.name,
                **budget_document(progress, budget),
                "failures": [
                    {"seed": seed, "broken": dict(trial.broken), "command": replay(seed)}
                    for seed, trial in found.items()
                ],
            }
        )
    else:
        what = f"{'seed' if len(found) == 1 else 'seeds'} with which it is violated"
        console.print(summary(progress, len(found), what))
    raise click.exceptions.Exit(progress.exit_status(is_broken=bool(found)))
