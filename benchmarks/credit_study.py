"""One study of credit: a trained team, its decisions, what their candidates are worth, and the advantages they are given.

All of it is kept, block by block, below a folder named by what decides it.
"""

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.arm_runs import UNMIXED
from benchmarks.counterfactual import Rest, Valued, value_candidates
from benchmarks.fidelity import Ranked
from benchmarks.kept import read, read_record, write
from benchmarks.origin import read_origin, start_of_run
from benchmarks.own_rollouts import Sampled, advantages, sample_rollouts
from flows.steps import TEAM_PIPELINE as PIPELINE

EPISODES = ("rollout.mode=independent", *UNMIXED)
ESTIMATORS: Mapping[str, tuple[str, ...]] = {
    "at_grpo, team_credit node": (),
    "at_grpo, team_credit turn_end": ("rewards.team_credit=turn_end",),
    "at_grpo, team_credit episode_end": ("rewards.team_credit=episode_end",),
    "c3": ("rollout.mode=nested", "algorithm.advantage=c3", *UNMIXED),
    "grpo": (*EPISODES, "algorithm.advantage=grpo"),
    "dr_mas": (*EPISODES, "algorithm.advantage=dr_mas"),
    "rloo": (*EPISODES, "algorithm.advantage=rloo"),
    "gigpo": (*EPISODES, "algorithm.advantage=gigpo"),
    "solver_value": ("algorithm.advantage=solver_value",),
}
"""What each changes in the preset. Estimators with the same rollouts share them."""
DECISIONS_PER_BLOCK = 10
PROBLEMS_PER_DECISION = 2
ROLES = ("first role", "last role")


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One trained team: its decisions, their values, and each estimator's advantages, all kept below `home`."""

    game: str
    seed: int
    num_steps: int
    num_decisions: int
    num_continuations: int
    home: Path
    overrides: tuple[str, ...] = ()

    def config(self, changed: Sequence[str] = ()) -> Any:
        from flows.presets import preset_config

        overrides = [f"seed={self.seed}", "tracking.kind=none", "store.kind=local", f"store.root={self.home / 'store'}"]
        overrides += ["evaluation.every=0", "evaluation.sampling=[]", *self.overrides, *changed]
        return preset_config(self.game, overrides, num_steps=self.num_steps)

    @property
    def estimators(self) -> Mapping[str, tuple[str, ...]]:
        """Those that the game has: a solver's values need a solver."""
        from components.session.scenario import scenario_of

        has_solver = getattr(scenario_of(self.config()).family, "has_solver_value", False)
        return {name: changed for name, changed in ESTIMATORS.items() if has_solver or name != "solver_value"}

    @property
    def run_id(self) -> str:
        """The name of the training, by all that decides its weights; more steps continue it."""
        from components.identity import fingerprint

        decisive = {"config": self.config().result_fields(), "stages": PIPELINE.versions}
        return f"credit-{self.game}-{self.seed}-{fingerprint(decisive)[:10]}"

    @property
    def folder(self) -> Path:
        """Named by all that decides its content; in a record, the only one of its game, seed and counts."""
        counts = f"{self.num_steps}-{self.num_decisions}-{self.num_continuations}"
        if read_record(self.home) is not None:
            found = [*self.home.glob(f"credit-{self.game}-{self.seed}-*-{counts}")]
            assert len(found) <= 1, f"a record has one study of each kind, but here are {found}"
            if found:
                return found[0]
        return self.home / f"{self.run_id}-{counts}"

    @property
    def is_complete(self) -> bool:
        return all((self.folder / f"{name}.json").exists() for name in ("values", *self.estimators))

    def complete(self) -> None:
        """Compute what is missing. Needs running services."""
        if self.is_complete:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with train_team(self.config(), self.run_id) as team:
            decisions = self._decisions(team)
            self._values(decisions, team)
            found: dict[tuple[str, ...], Sampled] = {}
            for name, changed in self.estimators.items():
                self._advantages(name, changed, decisions, team, found)

    def rank_candidates(self, name: str) -> dict[str, list[Ranked]]:
        """By role: what the estimator says of each decision's candidates, and what they are worth."""
        stored, given = read(self.folder / "values.json"), read(self.folder / f"{name}.json")["advantages"]
        by_role: dict[str, list[Ranked]] = {role: [] for role in ROLES}
        for role, values_K, advantages_K in zip(stored["roles"], stored["values"], given, strict=True):
            by_role[role].append(Ranked(advantages_K=tuple(advantages_K), values_K=tuple(values_K)))
        return by_role

    def halves(self) -> dict[str, list[tuple[list[float], list[float]]]]:
        """By role: the values of each decision's candidates by the even and by the odd continuations."""
        stored = read(self.folder / "values.json")
        by_role: dict[str, list[tuple[list[float], list[float]]]] = {role: [] for role in ROLES}
        for role, one, other in zip(stored["roles"], stored["values_even"], stored["values_odd"], strict=True):
            by_role[role].append((one, other))
        return by_role

    def _decisions(self, team: "Team") -> list[Any]:
        from components.artifacts.codec import decode, encode
        from components.schema import RolloutShard

        file = self.folder / "decisions"
        if not file.exists():
            drawn = play_shard(self.config(), team, num_problems=PROBLEMS_PER_DECISION * self.num_decisions)
            picked = decisions_of(drawn.episodes, self.num_decisions, roles=team.scenario.turn_order, seed=self.seed)
            write(file, encode(replace(drawn, episodes=tuple(picked))))
        return list(decode(file.read_bytes(), RolloutShard).episodes)

    def _values(self, decisions: Sequence[Any], team: "Team") -> None:
        """The values of all decisions, block by block."""
        blocks = []
        for first in range(0, len(decisions), DECISIONS_PER_BLOCK):
            file = self.folder / f"values-{first:04}.json"
            if not file.exists():
                write(file, self._value_candidates(decisions[first : first + DECISIONS_PER_BLOCK], team))
                print(f"{self.folder.name}: {first + DECISIONS_PER_BLOCK} of {len(decisions)} decisions", flush=True)
            blocks.append(read(file))
        last = team.scenario.turn_order[-1]
        returns = [each["returns_K_C"] for block in blocks for each in block["valued"]]
        whole = {
            "roles": [ROLES[decision.nodes[-1].group.agent == last] for decision in decisions],
            "values": means(returns, slice(None)),
            "values_even": means(returns, slice(0, None, 2)),
            "values_odd": means(returns, slice(1, None, 2)),
            "num_tokens": sum(each["num_tokens"] for block in blocks for each in block["valued"]),
            "seconds": sum(block["seconds"] for block in blocks),
            "start": team.start,
            **read_origin(),
        }
        write(self.folder / "values.json", whole)

    def _value_candidates(self, decisions: Sequence[Any], team: "Team") -> dict[str, Any]:
        from components.rewards.rubric import rubric_for

        began, config, scenario = time.monotonic(), self.config(), team.scenario
        found: list[Valued] = value_candidates(
            decisions,
            Rest(
                turn_order=scenario.turn_order,
                max_turns=config.environment.max_turns,
                temperature=config.rollout.temperature,
                num_continuations=self.num_continuations,
                seed=self.seed,
            ),
            family=scenario.family,
            router=team.router(),
            rubric=rubric_for(scenario.family, config.rewards, from_start=True),
            tools=team.tools,
        )
        return {"valued": [asdict(each) for each in found], "seconds": time.monotonic() - began}

    def _advantages(
        self,
        name: str,
        changed: Sequence[str],
        decisions: Sequence[Any],
        team: "Team",
        found: dict[tuple[str, ...], Sampled],
    ) -> None:
        file, config = self.folder / f"{name}.json", self.config(changed)
        if file.exists():
            return
        kind = tuple(each for each in changed if each == "algorithm.advantage=solver_value" or "advantage" not in each)
        began = time.monotonic()
        if kind not in found:
            found[kind] = sample_rollouts(decisions, config, team.generators, team.versions, team.tools)
        given = advantages(decisions, found[kind], config, team.tools)
        print(f"{self.folder.name}: {name}, {time.monotonic() - began:.0f} s", flush=True)
        write(file, {"advantages": given})


def means(returns: Sequence[Sequence[Sequence[float]]], some: slice) -> list[list[float]]:
    """By decision, the mean return of each candidate over some of its continuations."""
    return [[statistics.fmean(returns_C[some]) for returns_C in returns_K_C] for returns_K_C in returns]


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A trained team, ready to play."""

    scenario: Any
    generators: Mapping[str, Any]
    versions: Mapping[str, Any]
    tools: Any
    """One ledger for all play: equal calls are made once, whoever makes them."""
    start: Mapping[str, str]
    """The digest of each policy before training."""

    def router(self) -> Any:
        from components.rollout.router import Router

        return Router(self.generators, seats=self.scenario.seats, versions=self.versions)


@contextmanager
def train_team(config: Any, run_id: str) -> Iterator[Team]:
    """The team of `config` after its last step, trained first unless it is in the store."""
    from flows.train import train

    train(config, run_id)
    with load_team(config, run_id) as team:
        yield team


@contextmanager
def load_team(config: Any, run_id: str) -> Iterator[Team]:
    """The team of a run after `config.num_steps` finished steps."""
    from components.runs.run import Run
    from components.runs.steps import checkpoints_before
    from components.session.session import Session
    from components.tool_calls.journal import ToolJournal
    from tasks.refresh_weights import load_checkpoint

    with Session(Run(run_id=run_id, config=config)) as session:
        checkpoints = checkpoints_before(session.store, session.run, config.num_steps)
        yield Team(
            scenario=session.scenario,
            versions={policy: load_checkpoint(session, each)[0] for policy, each in checkpoints.items()},
            generators={policy: session.engines.of(policy) for policy in config.policies},
            tools=session.toolbox.tools(journal=ToolJournal(session.store, f"benchmarks/{run_id}")),
            start=start_of_run(session.store, config, run_id),
        )


def play_shard(config: Any, team: Team, *, num_problems: int) -> Any:
    """A shard of trees on problems that no step of the training had."""
    from components.rollout.sampler import collect_shard
    from components.session.scenario import scenario_of

    later = -(-config.num_steps * config.rollout.num_problems // num_problems)
    many = config.rollout.model_copy(update={"num_problems": num_problems, "num_shards": 1})
    scenario = scenario_of(config.model_copy(update={"rollout": many}))
    plan = scenario.shard_plan(step=later, shard=0)
    return collect_shard(
        plan, family=scenario.family, router=team.router(), rubric=scenario.training_rubric, tools=team.tools
    )


def decisions_of(episodes: Sequence[Any], num_wanted: int, *, roles: Sequence[Any], seed: int) -> list[Any]:
    """At most `num_wanted` decisions, half of them of the first of `roles` and half of the last: of each problem at most one
    node, drawn among those of the role whose candidates differ."""
    rng, wanted, picked = Random(seed), [roles[0], roles[-1]], list[Any]()
    seen: set[str] = set()
    for episode in episodes:
        if len(picked) == num_wanted or episode.problem.problem_id in seen:
            continue
        seen.add(episode.problem.problem_id)  # a problem drawn again has other seeds: its first episode counts, or none
        if episode.error is not None:
            continue
        role = wanted[len(picked) % 2]
        differing = [
            n
            for n, node in enumerate(episode.nodes)
            if node.group.agent == role and len({candidate.text for candidate in node.candidates}) > 1
        ]
        if differing:
            picked.append(replace(episode, nodes=episode.nodes[: rng.choice(differing) + 1], success=False))
    return picked
