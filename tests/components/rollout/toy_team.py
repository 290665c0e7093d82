"""A random, deterministic toy environment: its whole state is the history of applied actions, which every prompt shows.

What an action does is a hash of the problem and the history, so an oracle can compute it without an environment object.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from components.config import RolloutConfig
from components.environments.base import Step, Tools
from components.environments.environment import Demonstrator, ToolEnvironment
from components.environments.family import Family
from components.frozen import Frozen
from components.rewards.base import Rubric
from components.rollout.router import RoleBinding, Router
from components.rollout.rules import SamplingRules
from components.rollout.sampler import ShardPlan
from components.rollout.shards import NumberedProblem
from components.schema import ActionOutcome, ApiUsage, PolicyVersion
from tests.components.generation.scripted import CharacterTokenizer, ScriptedGenerator

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789:/|=,>-"
RUBRIC = Rubric(
    team_weight=2.0,
    weights={"team.solved": 0.0, "team.quality": 1.0, "local.style": 0.5, "local.malformed": 0.0},
)
VERSION = PolicyVersion(policy="p", step=0, weights_digest="d")
History = tuple[tuple[str, str], ...]


def chance(*parts: Any) -> float:
    """A number in [0, 1) that depends on `parts` alone."""
    return int.from_bytes(hashlib.md5(json.dumps(parts).encode()).digest()[:6], "big") / 2**48


@dataclass(frozen=True)
class ToyLaws:
    """What happens, as pure functions of a problem's payload and the history."""

    payload: Any

    def outcome(self, history: History) -> ActionOutcome:
        name, coarse = self.payload["name"], self.payload["levels"]
        done = chance(name, "done", history) < self.payload["done_rate"]
        solves = done and chance(name, "solves", history) < 0.5
        quality = int(chance(name, "quality", history) * coarse) / coarse
        return ActionOutcome(
            team={"solved": float(solves), "quality": quality + solves},
            local={"style": chance(name, "style", history[-1])},
            solves=solves,
            done=done,
        )

    def fails(self, history: History) -> bool:
        if len(history) == self.payload.get("fails_at"):
            return True
        return chance(self.payload["name"], "fails", history) < self.payload["failure_rate"]

    def blind(self, history: History, agent: str) -> bool:
        return chance(self.payload["name"], "blind", agent, history) < self.payload["failure_rate"] / 2

    def text(self, history: History, agent: str) -> str:
        shown = "/".join(f"{who}={what}" for who, what in history)
        return f"{self.payload['name']}|{agent}|{shown}>"


class ToyOptions(Frozen):
    num_agents: int = 2
    done_rate: float = 0.1
    failure_rate: float = 0.0
    levels: int = 100
    num_names: int = 10**9
    """Few names make equal problems."""


@dataclass(frozen=True)
class ToyState:
    """A problem's laws, and all answers so far."""

    laws: ToyLaws
    history: History = ()


class Toy(Demonstrator, ToolEnvironment):
    """The toy. Every answer counts; there is no proposal that is only simulated."""

    weights = RUBRIC.weights
    Options = ToyOptions
    alphabet = ALPHABET
    max_answer_characters = None
    states_are_immutable = True
    copies_proposals = True

    def __init__(self, roles: tuple[str, ...]) -> None:
        self.roles = roles  # type: ignore[misc]
        self.num_started = 0

    def draw(self, options: Any, rng: Random) -> None:
        """None: a toy is its split, seed and index."""

    def problem(self, options: Any, *, split: str, index: int, seed: int) -> Any:
        name = f"{split}{seed}x{index % options.num_names}"
        return {"name": name, "roles": list(self.roles), **options.model_dump(exclude={"num_names"})}

    def start(self, problem: Any) -> ToyState:
        self.num_started += 1
        if problem.get("unbuildable"):
            raise OSError("no such toy")
        return ToyState(ToyLaws(problem))

    def observe(self, state: ToyState, agent: str) -> str:
        if state.laws.blind(state.history, agent):
            raise LookupError(f"{agent} sees nothing")
        return state.laws.text(state.history, agent)

    def instructions(self, state: ToyState, agent: str) -> str:
        return f"{agent}:"

    def step(self, state: ToyState, agent: str, answer: str, tools: Tools) -> Step:
        history = (*state.history, (agent, answer))
        if state.laws.fails(history):
            raise RuntimeError(f"broke on {answer}")
        outcome = state.laws.outcome(history)
        team = {name: value for name, value in outcome.team.items() if name != "solved"}
        return Step(
            state=ToyState(state.laws, history),
            solved=outcome.solves,
            done=outcome.done,
            team=team,
            local=outcome.local,
        )

    def render(self, state: ToyState) -> str:
        return state.laws.text(state.history, "people")

    def longest_answer(self, options: Any) -> int:
        return 8

    def uses_sandbox(self, options: Any) -> bool:
        return False

    def expert(self, state: ToyState, agent: str) -> str:
        return "a"

    def noisy_expert(self, state: ToyState, agent: str, *, noise: float, rng: Random) -> str:
        return rng.choice("ab")

    def random_answer(self, state: ToyState, agent: str, rng: Random) -> str:
        return rng.choice("abc")


class ToyFamily(Family):
    """The toy for `num_agents` agents."""

    environment: Toy

    def __init__(self, num_agents: int = 2, toy: Callable[[tuple[str, ...]], Toy] = Toy) -> None:
        super().__init__("toy", toy(tuple(f"agent{i}" for i in range(num_agents))), is_custom=False)


def answer(prompt: str, seed: int) -> str:
    """A short text that depends on prompt and seed; few enough texts that siblings are sometimes equal."""
    return f"{seed % 7}{'xyz'[len(prompt) % 3]}{'k' * (seed % 3)}"


class RecordingGenerator(ScriptedGenerator):
    """A scripted engine that keeps what it was asked."""

    def __init__(self, version: PolicyVersion = VERSION, respond: Any = answer) -> None:
        super().__init__(respond, CharacterTokenizer(ALPHABET), version)
        self.calls: list[Any] = []

    def generate(self, requests: Any, version: PolicyVersion) -> Any:
        self.calls.append(tuple(requests))
        return super().generate(requests, version)


class PaidGenerator(RecordingGenerator):
    """Charges 1 for each call."""

    def take_usage(self) -> ApiUsage:
        used, self._told = len(self.calls) - getattr(self, "_told", 0), len(self.calls)
        return ApiUsage(num_requests=used, cost=float(used))


def toy_router(family: ToyFamily, generator: Any = None, *, max_new_tokens: int = 8) -> Router:
    """All roles played by one policy "p"."""
    seat = RoleBinding(policy="p", prompt_format="compact", max_new_tokens=max_new_tokens)
    engine = generator if generator is not None else RecordingGenerator()
    return Router({"p": engine}, seats=dict.fromkeys(family.roles, seat), versions={"p": VERSION})


def toy_problems(family: ToyFamily, num_problems: int, seed: int = 0, **options: Any) -> tuple[NumberedProblem, ...]:
    """Different problems, each the first of its kind."""
    chosen = ToyOptions(num_agents=len(family.roles), **options)
    return tuple(
        NumberedProblem(problem=family.problem(chosen, split="train", index=index, seed=seed), occurrence=0)
        for index in range(num_problems)
    )


def toy_plan(family: ToyFamily, num_problems: int, laws: Any = None, plan: Any = None, **settings: Any) -> ShardPlan:
    """Two turns of a shard of toy problems; `laws` are of the problems, `plan` of the shard, `settings` of its rollout."""
    values = {"step": 0, "shard": 0, "seed": 5, "max_turns": 2, **(plan or {})}
    rollout = RolloutConfig(num_problems=num_problems, **settings)
    return ShardPlan(settings=rollout, problems=toy_problems(family, num_problems, **(laws or {})), **values)


def team_rules(handoff: float, group_size: int = 8) -> SamplingRules:
    """Two agents for two turns; the first one's proposal is handed on at random with probability `handoff`."""
    return SamplingRules(
        turn_order=("agent0", "agent1"),
        max_turns=2,
        group_size=group_size,
        temperature=1.0,
        seed=0,
        purpose=("rollout", 0),
        random_handoff_probability=handoff,
    )
