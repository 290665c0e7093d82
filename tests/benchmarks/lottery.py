"""A small game whose counterfactuals are known in closed form, and an engine that plays it by drawing digits.

The caller names a digit, the closer names one; together at least 13 win and end the episode. After two turns it is lost. If
digits are uniform, the closer wins after a call a with probability p(a) = max(0, a - 3) / 10, and a turn with the mean of p,
.21.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

from components.config import RunConfig
from components.config.parsing import parse_config
from components.environments.base import Step
from components.environments.environment import Environment
from components.errors import MalformedAction
from components.frozen import Frozen
from components.identity import seed_for
from components.schema import Episode, PolicyVersion
from tests.components.generation.scripted import CharacterTokenizer, ScriptedGenerator

WINNING = 13
MAX_TURNS = 2
TURN_WINS = 0.21
VERSION = PolicyVersion(policy="team", step=0, weights_digest="d")


class Lottery(Environment):
    """The game. A call that makes winning possible has a local reward, which is no part of the return."""

    roles = ("caller", "closer")
    weights: Mapping[str, float] = {"local.high": 0.1}
    alphabet = "0123456789ncalosert-"
    max_answer_characters = 1

    def draw(self, options: Frozen, rng: Random) -> Mapping[str, Any]:
        return {"number": rng.randrange(10**9), "call": None, "turn": 0}

    def observe(self, state: Any, agent: str) -> str:
        return f"{agent}-{state['number']}-{state['turn']}-{'n' if state['call'] is None else state['call']}"

    def step(self, state: Any, agent: str, answer: str) -> Step:
        if not answer.isdigit():
            raise MalformedAction("no digit")
        digit = int(answer)
        if agent == "caller":
            return Step(state={**state, "call": digit}, local={"high": float(digit > 3)})
        wins = state["call"] is not None and state["call"] + digit >= WINNING
        return Step(state={**state, "call": None, "turn": state["turn"] + 1}, solved=wins, local={"high": 0.0})

    def expert(self, state: Any, agent: str) -> str:
        return "9"


def lottery_config(**sections: Any) -> RunConfig:
    """A team of one policy on the game."""
    values = {
        "num_steps": 1,
        "environment": {"name": "tests.benchmarks.lottery:Lottery", "max_turns": MAX_TURNS},
        "agents": {"caller": {"policy": "team"}, "closer": {"policy": "team"}},
        "policies": {"team": {"base": "tiny"}},
        **sections,
    }
    return parse_config(values)


def drawing_engine() -> ScriptedGenerator:
    """A policy that names a uniform digit, whatever it sees."""
    engine = ScriptedGenerator(
        lambda prompt, seed: str(seed_for(seed, "digit") % 10), CharacterTokenizer(Lottery.alphabet)
    )
    engine.load(None, VERSION)  # type: ignore[arg-type]
    return engine


def worth(decision: Episode) -> tuple[float, ...]:
    """The exact E[R | do(candidate)] of a decision's candidates."""
    node = decision.nodes[-1]
    later = TURN_WINS if node.group.turn == 0 else 0.0
    if node.group.agent == "caller":
        wins_K = [max(0, int(candidate.text) - 3) / 10 for candidate in node.candidates]
    else:
        before = decision.nodes[-2]
        call = int(before.candidates[before.chosen].text)
        wins_K = [float(call + int(candidate.text) >= WINNING) for candidate in node.candidates]
    return tuple(wins + (1 - wins) * later for wins in wins_K)
