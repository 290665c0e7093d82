"""Play an environment in the terminal, as a person or by watching a run's team, the expert, a random or an idle agent."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, TextIO, TypeVar

from components.config import RewardConfig, RunConfig
from components.environments.base import MultiAgentEnv, Split
from components.environments.turn_orders import turn_order_of
from components.errors import ConfigurationError
from components.evaluation.answered_play import Ended, play_answers
from components.nearest import remedy_for
from components.plain_text import printable
from components.rewards.rubric import rubric_for
from components.schema import ActionOutcome
from tasks.run import Run
from tasks.scenario import scenario_of
from tasks.toolbox import Toolbox
from troupe.teams.players import AGENTS, Player, named_run, person, scripted, team_player
from troupe.teams.reports import PlayReport, counted
from troupe.teams.run_team import checked_sampling, run_team, team_order
from troupe.teams.suite_choice import played_config

SPLITS: tuple[Split, ...] = ("train", "test")
Name = TypeVar("Name", bound=str)
Progress = Callable[[int, int], None]
_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayOrder:
    """What the command was asked for, unchecked.

    `environment` is an environment's or a preset's name; None means that of the run which `agent` names as RUN or RUN@STEP.
    A run's own environment is played with the run's options; `options` are set on top. `split` None is train, for a run
    test; `sampling` None is greedy; `max_turns` None is what the preset or the run gives, and no limit for a person.
    """

    environment: str | None
    agent: str
    episodes: int
    seed: int
    options: Mapping[str, Any]
    split: str | None
    max_turns: int | None
    sampling: str | None
    store_uri: str | None


def play(
    order: PlayOrder, *, stdin: TextIO, stdout: TextIO, progress: Progress = lambda done, total: None
) -> PlayReport:
    """Play the first `episodes` problems of a split and report. A single episode is shown turn by turn.

    A person and a scripted agent answer for every role, a run's team as it was trained, as in an evaluation. Raises
    ConfigurationError naming the argument, its value and the remedy.
    """
    for name, value in (("episodes", order.episodes), ("max_turns", order.max_turns)):
        if value is not None and value < 1:
            raise ConfigurationError(f"{name} {value}: ask for at least 1")
    is_run = order.agent not in AGENTS
    split = _one_of("split", order.split or ("test" if is_run else "train"), SPLITS)
    if order.sampling is not None:
        checked_sampling(order.sampling)
        if not is_run:
            raise ConfigurationError(
                f"--sampling {order.sampling}: only a run's team samples, not {order.agent!r}; leave it out"
            )
    with ExitStack() as opened:
        if is_run:
            run, step = named_run(order.agent, order.store_uri)
            config = played_config(order.environment, order.options, own=run.config)
            player = _team(order, run, step, config, split, opened)
            print(f"{_introduced(player, order)}, plays {config.environment.name} ({split} problems)", file=stdout)
        else:
            config = played_config(order.environment, order.options, own=None)
            player = _without_run(order, config, stdin, stdout)
        finished = list(_finished(order, config, player, split, stdout, progress))
    report = PlayReport(env=config.environment.name, agent=player.name, **counted(finished))
    print(f"{report.env}, {report.agent}: {report.sentence}", file=stdout)
    return report


def _team(order: PlayOrder, run: Run, step: int | None, config: RunConfig, split: Split, opened: ExitStack) -> Player:
    # Told before anything is loaded.
    turn_order = team_order(run.config, config, named=f"ENV {config.environment.name}", team=run.run_id)
    sampling = checked_sampling(order.sampling or "greedy")
    team = opened.enter_context(run_team(run, step))
    return team_player(team, turn_order, sampling=sampling, suite=split, seed=order.seed)


def _without_run(order: PlayOrder, config: RunConfig, stdin: TextIO, stdout: TextIO) -> Player:
    environment = scenario_of(config).family
    turn_order = turn_order_of(environment, config.environment.turn_order)
    if order.agent == "human":
        return person(environment, turn_order, stdin, stdout)
    return scripted(order.agent, environment, turn_order, seed=order.seed)


def _introduced(player: Player, order: PlayOrder) -> str:
    """**Example** "run plan-path after 100 updates, greedy"."""
    run_id, _, step = player.name.partition("@")
    return f"run {run_id} after {step} update{'' if step == '1' else 's'}, {order.sampling or 'greedy'}"


def _finished(
    order: PlayOrder, config: RunConfig, player: Player, split: Split, stdout: TextIO, progress: Progress
) -> Iterator[Ended]:
    """The episodes that were played to their end."""
    scenario = scenario_of(config)
    environment, rubric = scenario.family, rubric_for(scenario.family, RewardConfig())
    max_turns = order.max_turns or (None if player.is_person else config.environment.max_turns)
    is_shown = order.episodes == 1 and not player.is_person
    with closing(Toolbox(scenario)) as toolbox:
        tools = toolbox.tools()
        for index in range(order.episodes):
            problem = environment.problem(scenario.options, split=split, index=index, seed=order.seed)
            if player.is_person:
                print(f"\n{environment.name}, episode {index + 1} of {order.episodes}", file=stdout)
            (ended,) = play_answers(
                [problem],
                [player.answers(index, problem)],
                family=environment,
                tools=tools,
                rubric=rubric,
                turn_order=player.turn_order,
                max_turns=max_turns,
                onlooker=_Screen(stdout) if is_shown else None,
            )
            if ended is None:
                return
            if order.episodes > 1 and not player.is_person:
                progress(index + 1, order.episodes)
            yield ended


class _Screen:
    """Shows an episode turn by turn."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout

    def began(self, env: MultiAgentEnv) -> None:
        self._show(env, "start")

    def acted(self, turn: int, role: str, action: str, outcome: ActionOutcome) -> None:
        print(f"turn {turn + 1}, {role}: {_inset(action)}{_refusal(outcome)}", file=self._stdout)

    def turn_ended(self, env: MultiAgentEnv, turn: int) -> None:
        self._show(env, f"after turn {turn + 1}")

    def _show(self, env: MultiAgentEnv, caption: str) -> None:
        picture = _drawn(env.render(color=self._stdout.isatty()))
        print(f"\n{caption}{', solved' if env.success else ''}\n{picture}", file=self._stdout)


def _drawn(picture: str) -> str:
    """A picture with its colours; whatever else a terminal would obey, which an agent may have written, is spelled out."""
    parts = _COLOR.split(picture)
    return "".join(part if number % 2 else printable(part) for number, part in enumerate(parts))


def _inset(action: str) -> str:
    """An action after its label: on the same line, or below it when it has several."""
    text = printable(action.strip())
    if "\n" not in text:
        return text or "(nothing)"
    return "\n" + "\n".join(f"    {line}" for line in text.splitlines())


def _refusal(outcome: ActionOutcome) -> str:
    """Why an answer changed nothing, on a line of its own."""
    return f"\n    not understood: {printable(outcome.error)}" if outcome.error else ""


def _one_of(field: str, value: str, known: tuple[Name, ...]) -> Name:
    for name in known:
        if value == name:
            return name
    remedy = remedy_for(value, known, otherwise=f"use one of {', '.join(known)}")
    raise ConfigurationError(f"{field} {value!r}: {remedy}")
