"""A random, deterministic toy environment: its whole state is the history of applied actions, which every prompt shows.

What an action does is a hash of the problem and the history, so an oracle can compute it without an environment object.
"""

import hashlib
import json
from dataclasses import dataclass
from random import Random
from typing import Any

from components.environments.base import NO_TOOLS, Tools
from components.frozen import Frozen
from components.identity import content_id
from components.rewards.base import Rubric
from components.rollout.router import RoleBinding, Router
from components.rollout.rules import Rules
from components.rollout.shards import NumberedProblem
from components.schema import ActionOutcome, ApiUsage, Observation, PolicyVersion, Problem
from tests.components.generation.scripted import CharacterTokenizer, ScriptedGenerator

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789:/|=,>-"
RUBRIC = Rubric(team_weight=2.0, weights={"team.quality": 1.0, "local.style": 0.5})
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
            team={"quality": quality + solves},
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


class ToyEnv:
    """The `Playthrough` of the toy. Every action counts; there is no proposal that is only simulated."""

    def __init__(self, payload: Any) -> None:
        if payload.get("unbuildable"):
            raise OSError("no such toy")
        self._laws = ToyLaws(payload)
        self._history: History = ()
        self._newest: ActionOutcome | None = None
        self.num_applied = 0

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self._laws.payload["roles"])

    def observe(self, agent: str) -> Observation:
        if self._laws.blind(self._history, agent):
            raise LookupError(f"{agent} sees nothing")
        return Observation(instructions=f"{agent}:", state=self._laws.text(self._history, agent))

    def calls(self, agent: str, action: str) -> tuple[Any, ...]:
        return ()

    def apply(self, agent: str, action: str) -> ActionOutcome:
        history = (*self._history, (agent, action))
        if self._laws.fails(history):
            raise RuntimeError(f"broke on {action}")
        self.num_applied += 1
        self._history, self._newest = history, self._laws.outcome(history)
        return self._newest

    def snapshot(self) -> Any:
        return (self._history, self._newest)

    def restore(self, snapshot: Any) -> None:
        self._history, self._newest = snapshot

    @property
    def team_reward(self) -> float:
        return RUBRIC.team(self._newest) if self._newest else 0.0

    def local_reward(self, agent: str) -> float:
        return RUBRIC.local(self._newest) if self._newest and self._history[-1][0] == agent else 0.0

    @property
    def done(self) -> bool:
        return self._newest is not None and self._newest.done

    @property
    def success(self) -> bool:
        return self._newest is not None and self._newest.solves

    def render(self, *, color: bool) -> str:
        return self._laws.text(self._history, "people")


class ToyOptions(Frozen):
    num_agents: int = 2
    done_rate: float = 0.1
    failure_rate: float = 0.0
    levels: int = 100
    num_names: int = 10**9
    """Few names make equal problems."""


class ToyFamily:
    """The `EnvironmentFamily` of the toy."""

    name = "toy"
    options_type = ToyOptions
    default_weights = RUBRIC.weights

    def __init__(self, num_agents: int = 2) -> None:
        self.roles = tuple(f"agent{i}" for i in range(num_agents))
        self.num_built = 0

    def problem(self, options: Any, *, split: str, index: int, seed: int) -> Problem:
        name = f"{split}{seed}x{index % options.num_names}"
        payload = {"name": name, "roles": list(self.roles), **options.model_dump(exclude={"num_names"})}
        return Problem(problem_id=content_id("toy", payload), environment="toy", payload=payload)

    copies_proposals = True

    def uses_sandbox(self, options: Any) -> bool:
        return False

    def retriever(self, options: Any) -> None:
        return None

    def build(self, problem: Problem, tools: Tools = NO_TOOLS) -> ToyEnv:
        self.num_built += 1
        return ToyEnv(problem.payload)

    def expert_action(self, env: Any, agent: str) -> str:
        return "a"

    def noisy_expert_action(self, env: Any, agent: str, *, noise: float, rng: Random) -> str:
        return rng.choice("ab")

    def random_action(self, env: Any, agent: str, rng: Random) -> str:
        return rng.choice("abc")

    def scramble(self, env: Any, rng: Random) -> None:
        raise NotImplementedError

    def alphabet(self, options: Any) -> str:
        return ALPHABET

    def max_action_characters(self, options: Any) -> int:
        return 8


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


def team_rules(handoff: float, group_size: int = 8) -> Rules:
    """Two agents for two turns; the first one's proposal is handed on at random with probability `handoff`."""
    return Rules(
        turn_order=("agent0", "agent1"),
        max_turns=2,
        group_size=group_size,
        temperature=1.0,
        seed=0,
        purpose=("rollout", 0),
        random_handoff_probability=handoff,
    )
