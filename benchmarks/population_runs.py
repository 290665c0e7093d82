"""The runs behind the benchmark of populations: their settings, their training by the real flow, and what is kept of each."""

import re
import resource
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.kept import read, read_record, row_in, write
from benchmarks.origin import read_origin, start_of_run
from benchmarks.population_tables import Table, open_tables

PRESET = "population-kuhn"
MAZE = "maze"
MEMBER = (
    "{base: tiny, tiny: {hidden_size: 64, num_layers: 2, num_heads: 4, intermediate_size: 128}, "
    "adapter: {rank: 8, alpha: 16}, learning_rate: 1.0e-2}"
)
OWN_RETURNS = "method.training_mode={type: competitive, competition_intensity: 0.0}"
"""Returns as they are."""
QUICK = ("loss.clip_low=0.3", "loss.clip_high=0.3", "training.lr_schedule=linear")
SMALL = (*QUICK, "rollout.num_problems=16", "rollout.group_size=4", "loss.entropy_coefficient=0.003")
"""Payoffs of joint actions differ by a tenth of those of Kuhn poker, and so does what entropy may pay."""
MODES = ("cooperative", "competitive", "mixed", "hierarchical")
NUM_GAMES_A_PAIR = 4000
DIGITS_OF_KEY = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """What a run changes in the preset: the environment, the members, and its own lines."""

    environment: str
    num_members: int
    num_steps: int
    overrides: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """All overrides of the preset."""
        names = [f"player_{number}" for number in range(self.num_members)]
        agents = ", ".join(f"{name}: {{policy: m{number}}}" for number, name in enumerate(names))
        policies = ", ".join(f"m{number}: {MEMBER}" for number in range(self.num_members))
        return (
            f"environment={{{self.environment}, answer_format: choice}}",
            f"agents={{{agents}}}",
            f"policies={{{policies}}}",
            *self.overrides,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Poker:
    """A game of OpenSpiel and what a run of it changes in the preset. The report tells after which step the average policy's
    exploitability is first at or below `bound`, in what the game pays."""

    title: str
    bound: float
    lines: tuple[str, ...] = ()
    num_steps: int | None = None
    """None: those of the preset."""


POKERS: Mapping[str, Poker] = {
    "kuhn": Poker(title="Kuhn poker", bound=0.15),
    "leduc": Poker(
        title="Leduc poker",
        bound=2.0,
        lines=(
            "environment.options.game=leduc_poker",
            "environment.max_turns=8",
            *(f"policies.{name}.adapter=null" for name in ("first", "second")),
            *(f"policies.{name}.learning_rate=3.0e-3" for name in ("first", "second")),
            "loss.entropy_coefficient=0.05",
            "training.num_epochs=2",
            "training.num_minibatches=8",
        ),
        num_steps=16,
    ),
}
"""Prompts of Leduc poker are twice as long as those of Kuhn poker, and more: its updates are many steps of few rows each."""


def one_shot(name: str, num_members: int, options: str = "", *overrides: str, num_steps: int = 12) -> Game:
    """A game of one joint action, so that a member's policy is one number."""
    also = f", {options}" if options else ""
    environment = f"name: {name}, options: {{num_steps: 1{also}}}, max_turns: 1"
    return Game(environment=environment, num_members=num_members, num_steps=num_steps, overrides=(*SMALL, *overrides))


def _mode(mode: str) -> str:
    leader = ", leader: player_0" if mode == "hierarchical" else ""
    return f"method.training_mode={{type: {mode}{leader}}}"


def _make_leader_game(*overrides: str) -> Game:
    """A public good in which player_0 answers first, and the others see it."""
    options = "game: public_goods, options: {num_members: 4, share: 0.95, num_steps: 1}, leader: player_0"
    return Game(
        environment=f"name: led, options: {{{options}}}, max_turns: 2",
        num_members=4,
        num_steps=20,
        overrides=(*SMALL, _mode("hierarchical"), *overrides),
    )


GOODS = "num_members: 4, share: 0.8"
LED, LED_UNPAID = "public_goods .95, led", "public_goods .95, led without bonus"
GAMES: Mapping[str, Game] = {
    "coop_compete, 2": one_shot("coop_compete", 2, "num_members: 2", OWN_RETURNS),
    "coop_compete, 4": one_shot("coop_compete", 4, "num_members: 4", OWN_RETURNS),
    "staged, 8": one_shot("staged", 8, "warmup_episodes: 0", OWN_RETURNS),
    "team_battle, 8": one_shot("team_battle", 8, "warmup_episodes: 0", OWN_RETURNS),
    MAZE: Game(
        environment="name: maze, options: {layout: simple, num_members: 1, num_steps: 24}, max_turns: 24",
        num_members=1,
        num_steps=30,
        overrides=(
            *QUICK,
            "method.training_mode={type: cooperative, cooperation_strength: 0.0}",
            "rollout.num_problems=8",
            "rollout.group_size=4",
            "loss.entropy_coefficient=0.02",
        ),
    ),
    **{
        f"public_goods, {mode}": one_shot(
            "public_goods", 4, GOODS, _mode(mode), num_steps=24 if mode == "hierarchical" else 12
        )
        for mode in MODES
    },
    LED: _make_leader_game("method.training_mode.compliance_bonus=0.5"),
    LED_UNPAID: _make_leader_game("method.training_mode.compliance_bonus=0.0"),
}
"""LED: followers lose .05 by cooperating, and are paid .5 for following a leader to whom it pays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One run of the report; `overrides` come after those of its game."""

    game: str
    seed: int
    num_steps: int
    overrides: tuple[str, ...] = ()

    def config(self, store: Path = Path()) -> Any:
        """The run's configuration. Nothing is evaluated within it."""
        from flows.presets import preset_config

        lines = (f"seed={self.seed}", "tracking.kind=none", *(GAMES | POKERS)[self.game].lines)
        lines += (*self.overrides, "store.kind=local", f"store.root={store}", "evaluation={every: 0, sampling: []}")
        return preset_config(PRESET, lines, num_steps=self.num_steps)

    @property
    def run_id(self) -> str:
        """The name of the run and of its row; it depends on all that decides the weights, and on the number of steps."""
        from components.identity import fingerprint

        decisive = {"config": self.config().result_fields(), "stages": _versions_of_stages()}
        name = re.sub(r"[^a-z0-9]+", "-", self.game)
        return f"{name}-{self.seed}-{self.num_steps}-{fingerprint(decisive)[:DIGITS_OF_KEY]}"


@cache
def _versions_of_stages() -> dict[str, int]:
    from flows.steps import POPULATION_PIPELINE as PIPELINE

    return PIPELINE.versions


def orders(games: Sequence[str], *, seeds: int, num_steps: int | None, overrides: Sequence[str] = ()) -> list[Order]:
    """The runs of a report, seed by seed."""
    from flows.presets import preset_config

    def steps(game: str) -> int:
        return num_steps or (GAMES | POKERS)[game].num_steps or preset_config(PRESET).num_steps

    return [
        Order(game=game, seed=seed, num_steps=steps(game), overrides=tuple(overrides))
        for seed in range(seeds)
        for game in games
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One finished run. `tables` are the policies before training and after each step; none for the maze, which has `spl`."""

    game: str
    seed: int
    num_steps: int
    training_cpu_seconds: float
    """Of this process and of the trainer, without the tables; an earlier part of an interrupted run is not in it."""
    tables: Sequence[Table] = ()
    spl: float | None = None
    metrics: Sequence[Mapping[str, float]] = ()
    """Those of the population, by step."""
    start: Mapping[str, str] = field(default_factory=dict)
    """The digest of each member's weights before training."""
    processor: str | None = None
    commit: str | None = None
    overrides: Sequence[str] = field(default_factory=tuple)


def load_row(order: Order, home: Path) -> Row | None:
    """The row of a finished run, or None."""
    found = row_in(home, order.run_id, pattern=f"{order.run_id.rsplit('-', 1)[0]}-*")
    return None if found is None else Row(**found)


def rows_of_record(home: Path) -> list[Row]:
    """All rows of a record, whatever their numbers of steps; none if `home` is no record."""
    return [] if read_record(home) is None else [Row(**read(file)) for file in sorted((home / "rows").glob("*.json"))]


def finish_run(order: Order, home: Path) -> Row:
    """Train by the flow, tabulate every step's policies, and keep the row. What an earlier call did is not done again."""
    from components.artifacts.local import LocalArtifactStore
    from flows.train import train_population
    from troupe.runs.documents import run_document

    config = order.config(home / "store")
    before = cpu_seconds()
    train_population(config, order.run_id)
    used = cpu_seconds() - before
    tables: list[Table] = []
    spl = None
    if order.game == MAZE:
        spl = success_by_path_length(config, order.run_id)
    else:
        with open_tables(config, order.run_id) as opened:
            tables = [opened.at(step) for step in range(order.num_steps + 1)]
    store = LocalArtifactStore(home / "store")
    steps = run_document(store, order.run_id)["steps"]
    row = Row(
        game=order.game,
        seed=order.seed,
        num_steps=order.num_steps,
        training_cpu_seconds=used,
        tables=tables,
        spl=spl,
        metrics=[{k: v for k, v in step["metrics"].items() if k.startswith("population/")} for step in steps],
        overrides=list(order.overrides),
        start=start_of_run(store, config, order.run_id),
        **read_origin(),
    )
    write(home / "rows" / f"{order.run_id}.json", asdict(row))
    return row


def success_by_path_length(config: Any, run_id: str, *, num_problems: int = 100) -> float:
    """The mean SPL of sampled play of held-out problems: success times the shortest path over that taken."""
    from components.evaluation.held_out import eval_rules
    from components.rollout.play import play
    from components.rollout.rules import Start
    from components.runs.run import Run
    from components.runs.steps import checkpoints_before
    from components.session.checkpoint_loading import load_checkpoint
    from components.session.session import Session

    with Session(Run(run_id=run_id, config=config)) as session:
        scenario = session.scenario
        checkpoints = checkpoints_before(session.store, session.run, config.num_steps)
        versions = {policy: load_checkpoint(session, each)[0] for policy, each in checkpoints.items()}
        problems = [
            scenario.family.problem(scenario.options, split="test", index=index, seed=0)
            for index in range(num_problems)
        ]
        episodes = play(
            [Start(problem=problem, episode=number) for number, problem in enumerate(problems)],
            eval_rules(
                scenario.turn_order, max_turns=config.environment.max_turns, sampling="sample", split="test", seed=0
            ),
            family=scenario.family,
            router=session.router(versions),
            rubric=scenario.rubric,
            tools=session.toolbox.tools(),
        )
    return sum(each.path[-1].candidates[0].outcome.team["spl"] for each in episodes) / len(episodes)


def cpu_seconds() -> float:
    """CPU time of this process and of its ended children, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
