"""Play an environment in the terminal, or watch a run's team, the expert, a random or an idle agent play it."""

import re
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, TextIO

from components.config import RewardConfig
from components.environments.base import Split
from components.environments.play import Playthrough
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.methods.open_subjects import team_order
from components.rewards.rubric import rubric_for
from components.runs.history import Progress
from components.schema import ActionOutcome
from components.session.scenario import scenario_of
from components.text.escaping import printable
from components.text.suggestions import suggest
from flows.suites import build_played_config
from troupe.teams.human import Payments
from troupe.teams.players import AGENTS, Player, find_named_run, make_scripted, person, play_episodes, team_player
from troupe.teams.reports import PlayReport, count_successes, mean_payoffs, success_sentence
from troupe.teams.run_team import check_sampling, run_team

SPLITS = ("train", "test")
MOST_SHOWN = 10
"""So many episodes or fewer are shown turn by turn unless the user says how many."""
_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")


def play(
    environment: str | None,
    agent: str,
    *,
    episodes: int,
    seed: int,
    options: Mapping[str, Any],
    split: str | None,
    max_turns: int | None,
    sampling: str | None,
    store: str | None,
    stdin: TextIO,
    stdout: TextIO,
    num_shown: int = 1,
    progress: Progress = lambda done, total: None,
) -> PlayReport:
    """Play the first `episodes` problems of a split and report. The first `num_shown` are shown turn by turn.

    A person and a scripted agent answer for every role; a run's team plays as in an evaluation. `environment` is the name of
    an environment or preset, or a configuration file; None means that of the run, with its options. `options` are set on top.
    `split` None is train, for a run test; `sampling` None is greedy; `max_turns` None is the preset's or the run's, and no
    limit for a person. Raises ConfigurationError naming the argument, its value and the remedy.
    """
    _check_numbers(episodes=episodes, max_turns=max_turns)
    is_run = agent not in AGENTS
    if split not in (None, *SPLITS):
        remedy = suggest(split, SPLITS, otherwise=f"use one of {', '.join(SPLITS)}")
        raise ConfigurationError(f"split {split!r}: {remedy}")
    chosen: Split = "test" if split == "test" or (split is None and is_run) else "train"
    draws = check_sampling(sampling or "greedy")
    if sampling is not None and not is_run:
        raise ConfigurationError(f"--sampling {sampling}: only a run's team samples, not {agent!r}; leave it out")
    with ExitStack() as opened:
        run, step = find_named_run(agent, store) if is_run else (None, None)
        config = build_played_config(environment, options, own=run.config if run else None)
        scenario = scenario_of(config)
        if run is not None:
            order = team_order(run.config, config, team=run.run_id)
            team = opened.enter_context(run_team(run, step))
            player = team_player(team, order, sampling=draws, split=chosen, seed=seed)
            print(f"{_introduce(player, draws)}, plays {config.environment.name} ({chosen} problems)", file=stdout)
        else:
            order = turn_order_of(scenario.family, config.environment.turn_order)
            player = make_scripted(agent, scenario.family, order, seed)
            if agent == "human":
                player = person(scenario.family, order, stdin, stdout, num_episodes=episodes)
        problems = [
            scenario.family.problem(scenario.options, split=chosen, index=index, seed=seed) for index in range(episodes)
        ]
        finished = play_episodes(
            scenario,
            player,
            problems,
            rubric=rubric_for(scenario.family, RewardConfig()),
            max_turns=max_turns or (None if agent == "human" else config.environment.max_turns),
            progress=progress,
            onlooker=Payments(stdout) if agent == "human" else _Screen(stdout, episodes, num_shown),
        )
    report = PlayReport(env=config.environment.name, agent=player.name, **count_successes(finished))
    print(f"{report.env}, {report.agent}: {success_sentence(report, mean_payoffs(finished))}", file=stdout)
    if num_shown == 0 and agent != "human":
        print("\nto see the turns of the first 3: --show 3", file=stdout)
    return report


def _check_numbers(**named: int | None) -> None:
    """Raise ConfigurationError if one of them is set and below 1."""
    for name, value in named.items():
        if value is not None and value < 1:
            raise ConfigurationError(f"{name} {value}: ask for at least 1")


def _introduce(player: Player, sampling: str) -> str:
    """**Example** "run plan-path after 100 updates, greedy"."""
    run_id, _, step = player.name.partition("@")
    return f"run {run_id} after {step} update{'' if step == '1' else 's'}, {sampling}"


class _Screen:
    """Shows the first episodes turn by turn, one after the other."""

    def __init__(self, stdout: TextIO, num_episodes: int, num_shown: int) -> None:
        self._stdout = stdout
        self._num_episodes = num_episodes
        self._num_shown = num_shown
        self._num_begun = 0

    @property
    def _is_on(self) -> bool:
        return self._num_begun <= self._num_shown

    def began(self, played: Playthrough) -> None:
        self._num_begun += 1
        if self._num_episodes > 1 and self._is_on:
            print(f"\nepisode {self._num_begun} of {self._num_episodes}", file=self._stdout)
        self._show(played, "start")

    def show_action(self, turn: int, role: str, action: str, outcome: ActionOutcome) -> None:
        if not self._is_on:
            return
        refusal = f"\n    not understood: {printable(outcome.error)}" if outcome.error else ""
        print(f"turn {turn + 1}, {role}: {_indent(action)}{refusal}", file=self._stdout)

    def turn_ended(self, played: Playthrough, turn: int) -> None:
        self._show(played, f"after turn {turn + 1}")

    def _show(self, played: Playthrough, caption: str) -> None:
        if not self._is_on:
            return
        picture = _color_picture(played.render(color=self._stdout.isatty()))
        print(f"\n{caption}{', solved' if played.success else ''}\n{picture}", file=self._stdout)


def _color_picture(picture: str) -> str:
    """A picture with its colors; other control sequences, which an agent may have written, are escaped."""
    parts = _COLOR.split(picture)
    return "".join(part if number % 2 else printable(part) for number, part in enumerate(parts))


def _indent(action: str) -> str:
    """An action after its label: on the same line, or below it if it has several lines."""
    text = printable(action.strip())
    if "\n" not in text:
        return text or "(nothing)"
    return "\n" + "\n".join(f"    {line}" for line in text.splitlines())
