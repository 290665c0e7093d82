"""One run of the proof on a pretrained model: its training, and its play of held-out problems.

Each part is kept as soon as it is there, so that a command that was stopped goes on with the next.
"""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.arm_runs import SAMPLINGS, dose, seconds_of, steps_of_budget
from benchmarks.credit_study import load_team
from benchmarks.kept import read, write
from benchmarks.origin import read_origin, start_of_run
from benchmarks.pretrained_runs import (
    ARMS,
    HELD_OUT,
    NUM_PASS_PROBLEMS,
    NUM_PASS_SAMPLES,
    NUM_TRANSCRIPTS,
    STARTS,
    SUITES,
    Order,
    Row,
    slug,
    solve_rates,
)

SEED = 0
"""Of all draws of an evaluation, whatever the run's: before and after training are compared under the same draws."""


def finish_run(order: Order, home: Path) -> Row:
    """Train, play the held-out problems, and keep the row. What an earlier call did is not done again."""
    from components.artifacts.local import LocalArtifactStore
    from flows.train import train
    from troupe.runs.documents import run_document

    store = LocalArtifactStore(home / "store")
    config = order.config(home / "store")
    if order.budget_tokens is None:
        train(config, order.run_id)
        steps = run_document(store, order.run_id)["steps"][: order.num_steps]
    else:
        steps = steps_of_budget(config, order.run_id, store, budget_tokens=order.budget_tokens)
    began = time.monotonic()
    found = evaluate_run(order, config.model_copy(update={"num_steps": len(steps)}), home)
    counts = dose(steps, list(config.agents))
    row = Row(
        arm=order.arm,
        seed=order.seed,
        **found,
        solve_rates=solve_rates(steps, list(config.agents)),
        num_steps=len(steps),
        num_tokens=counts["num_tokens"],
        num_updates=counts["num_updates"],
        training_seconds=sum(seconds_of(step) for step in steps),
        evaluation_seconds=time.monotonic() - began,
        start=start_of_run(store, config, order.run_id),
        **read_origin(),
    )
    write(home / "rows" / f"{order.row_name}.json", asdict(row))
    return row


def evaluate_run(order: Order, config: Any, home: Path) -> dict[str, Any]:
    """The parts of a row that are played: by the team of the run after `config.num_steps` steps."""
    found: dict[str, Any] = {"solved": {}, "passes": {}}
    parts = Parts(order, home)
    with load_team(config, order.run_id) as team:
        for suite in ARMS[order.arm].suites:
            with closing(Table(team, configure_suite(config, suite))) as table:
                for sampling in SAMPLINGS:
                    key = f"{suite}, {sampling}"
                    found["solved"][key] = parts.part(key, partial(table.solved, order.num_problems, sampling))
                if suite != HELD_OUT:
                    continue
                if order.arm in STARTS:
                    num_problems = min(order.num_problems, NUM_PASS_PROBLEMS)
                    found["passes"] = parts.part("passes", partial(table.passes, num_problems, NUM_PASS_SAMPLES))
                num_problems = min(order.num_problems, NUM_TRANSCRIPTS)
                found["transcripts"] = parts.part("transcripts", partial(table.transcripts, num_problems))
    return found


@dataclass(frozen=True, slots=True)
class Parts:
    """The played parts of one row, each played unless it is kept."""

    order: Order
    home: Path

    def part(self, name: str, play: Callable[[], Any]) -> Any:
        file = self.home / "rows" / self.order.row_name / f"{slug(name)}.json"
        if not file.exists():
            began = time.monotonic()
            write(file, play())
            print(f"{self.order.name}: {name}, {time.monotonic() - began:.0f} s", flush=True)
        return read(file)


def configure_suite(config: Any, suite: str) -> Any:
    """The configuration under which the team of `config` plays a suite."""
    from components.config import parse_config
    from flows.presets import with_overrides

    return parse_config(with_overrides(config.model_dump(mode="json"), SUITES[suite]))


class Table:
    """A loaded team at the problems and with the tools of a configuration, which may seat it otherwise than it was trained."""

    def __init__(self, team: Any, config: Any) -> None:
        from components.rollout.router import Router
        from components.session.scenario import scenario_of
        from components.session.toolbox import Toolbox

        self._scenario = scenario_of(config)
        self._router = Router(team.generators, seats=self._scenario.seats, versions=team.versions)
        self._toolbox = Toolbox(self._scenario)

    def close(self) -> None:
        self._toolbox.close()

    def solved(self, num_problems: int, sampling: str) -> str:
        """One digit for each held-out problem: 1 if the team solved it."""
        from components.evaluation.held_out import EvalSetting, play_block
        from components.evaluation.suite_play import join_plays

        plan = self._plan(num_problems, sampling)
        setting = EvalSetting(
            family=self._scenario.family,
            router=self._router,
            rubric=self._scenario.rubric,
            tools=self._toolbox.tools(),
        )
        play = join_plays([play_block(plan, block, setting) for block in plan.blocks])
        return "".join(str(int(solved)) for (solved,) in play.solved_P_K)

    def passes(self, num_problems: int, num_samples: int) -> dict[str, list[int]]:
        """By agent, and for the team: how many of the samples of each problem were right.

        A sample is a whole episode, in which each agent answers once; an agent's answer is right if it solves the problem.
        """
        problems = self._problems(num_problems)
        episodes = self._play([(problem, sample) for problem in problems for sample in range(num_samples)], "sample")
        roles = dict.fromkeys(node.group.agent for episode in episodes for node in episode.path)
        of_problem = [episodes[at : at + num_samples] for at in range(0, len(episodes), num_samples)]
        return {
            "team": [sum(episode.success for episode in each) for each in of_problem],
            **{role: [sum(_solves(episode, role) for episode in each) for each in of_problem] for role in roles},
        }

    def transcripts(self, num_problems: int) -> list[dict[str, Any]]:
        """What each agent said of the first held-out problems, by its most likely tokens."""
        episodes = self._play([(problem, 0) for problem in self._problems(num_problems)], "greedy")
        return [
            {
                "problem": episode.problem.payload["statement"],
                "answer": episode.problem.payload["answer"],
                "said": [[node.group.agent, node.candidates[0].text] for node in episode.path],
                "success": episode.success,
            }
            for episode in episodes
        ]

    def _problems(self, num_problems: int) -> tuple[Any, ...]:
        return tuple(self._plan(num_problems, "sample").problems)

    def _plan(self, num_problems: int, sampling: Any) -> Any:
        suite = self._scenario.suite.model_copy(update={"num_problems": num_problems})
        return self._scenario.eval_plan(suite, sampling=sampling, seed=SEED)

    def _play(self, starts: list[tuple[Any, int]], sampling: Any) -> list[Any]:
        from components.evaluation.held_out import eval_rules
        from components.rollout.play import play
        from components.rollout.rules import Start

        config, block = self._scenario.config, self._scenario.config.evaluation.problems_per_block
        rules = eval_rules(
            self._scenario.turn_order,
            max_turns=config.environment.max_turns,
            sampling=sampling,
            split="test",
            seed=SEED,
        )
        episodes: list[Any] = []
        for at in range(0, len(starts), block):
            episodes += play(
                [Start(problem=problem, episode=episode) for problem, episode in starts[at : at + block]],
                rules,
                family=self._scenario.family,
                router=self._router,
                rubric=self._scenario.rubric,
                tools=self._toolbox.tools(),
            )
        return episodes


def _solves(episode: Any, role: str) -> bool:
    return any(node.candidates[0].outcome.solves for node in episode.path if node.group.agent == role)
