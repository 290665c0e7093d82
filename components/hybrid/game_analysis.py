"""What a state of a game means: battle, exploration, phase and danger, from its facts."""

from collections.abc import Mapping
from math import log
from typing import Any

import numpy as np

from components.hybrid.agent import description_hash
from components.hybrid.errors import DecisionValidationError
from components.hybrid.game_facts import LARGEST, Action, action_masks
from components.hybrid.game_text import describe_goal, describe_state, phase_name
from components.hybrid.llm_actor import Question
from components.text.suggestions import suggest

MEASURED = ("visited_tiles", "visited_maps", "idle_steps", "potential")
"""What an environment counts beside the facts: of an episode, and the steps since a new tile or reward."""
_STUCK_STEPS, _IN_DANGER, _URGENT = 8, 0.25, 0.5
_KINDS = ("none", "wild", "trainer")


class GameStateAnalysis:
    """Reads a state: the names of facts that `info["facts"]` has, those that are missing 0, and what an environment counts.

    Raises DecisionValidationError for other names, and numbers out of their range.

    **Example** `GameStateAnalysis({"party_count": 1, "hp": 3, "max_hp": 20}).criticality` is "emergency".
    """

    def __init__(self, state_variables: Mapping[str, Any]) -> None:
        if not isinstance(state_variables, Mapping):
            raise DecisionValidationError(
                f"state_variables {type(state_variables).__name__}: give info['facts'] or info['state'], facts by name"
            )
        for name, value in state_variables.items():
            if name not in LARGEST and name not in MEASURED:
                raise DecisionValidationError(
                    f"state_variables.{name}: no fact; {suggest(name, [*LARGEST, *MEASURED])}"
                )
            largest = LARGEST.get(name, float("inf"))
            if isinstance(value, str) or (name != "potential" and not 0 <= value <= largest):
                raise DecisionValidationError(f"state_variables.{name} {value!r}: give a number from 0 to {largest:g}")
        self.facts = {name: int(state_variables.get(name, 0)) for name in LARGEST}
        self._measured = {name: state_variables.get(name, 0) for name in MEASURED}

    @property
    def phase(self) -> str:
        """The part of the game. **Example** "start", "battle", "map 24.3, 1 badges"."""
        return phase_name(self.facts)

    @property
    def health_percentage(self) -> float:
        """The health of the party, 0 to 1; 1 without one."""
        whole = self.facts["party_max_hp"] or self.facts["max_hp"]
        part = self.facts["party_hp"] if self.facts["party_max_hp"] else self.facts["hp"]
        return part / whole if whole else 1.0

    @property
    def criticality(self) -> str:
        """How bad things are: "emergency" below a quarter of the health, "urgent" below half, else "normal"."""
        health = self.health_percentage
        return "emergency" if health < _IN_DANGER else "urgent" if health < _URGENT else "normal"

    @property
    def state_hash(self) -> int:
        """The number under which decisions in this state are remembered, the same that an agent uses."""
        facts_N = {name: np.array([value]) for name, value in self.facts.items()}
        legal = tuple(map(Action, np.flatnonzero(action_masks(facts_N)[0]).tolist()))
        return description_hash(Question(facts=self.facts, legal=legal).description)

    @property
    def is_stuck(self) -> bool:
        """Whether the last eight steps brought no new tile and no reward."""
        return bool(self._measured["idle_steps"] >= _STUCK_STEPS)

    def analyze_battle_state(self) -> dict[str, Any]:
        """The battle: kind, levels, shares of health, and who is ahead by log(own level x health / the enemy's).

        **Example** level 6 in full health against level 3 at half: log(6 / 1.5) = 1.39, "attack".
        """
        facts = self.facts
        in_battle = facts["battle_mode"] > 0
        own = facts["hp"] / max(1, facts["max_hp"])
        enemy = facts["enemy_hp"] / max(1, facts["enemy_max_hp"]) if in_battle else 0.0
        strengths = [max(1e-3, facts["level"] * own), max(1e-3, facts["enemy_level"] * enemy)]
        advantage = log(strengths[0] / strengths[1]) if in_battle else 0.0
        can_flee = facts["battle_mode"] == 1
        return {
            "in_battle": in_battle,
            "kind": _KINDS[facts["battle_mode"]],
            "own_level": facts["level"],
            "own_health": own,
            "enemy_level": facts["enemy_level"] if in_battle else 0,
            "enemy_health": enemy,
            "advantage": advantage,
            "can_flee": can_flee,
            "recommended": None if not in_battle else "flee" if advantage < 0 and can_flee else "attack",
        }

    def analyze_exploration_state(self) -> dict[str, Any]:
        """Where the player is, what is open, and what the episode has seen."""
        facts = self.facts
        return {
            "map": (facts["map_group"], facts["map_number"]),
            "position": (facts["x"], facts["y"]),
            "facing": facts["facing"],
            "in_menu": facts["menu"] > 0,
            "in_dialogue": facts["script"] > 0,
            "visited_maps": int(self._measured["visited_maps"]),
            "visited_tiles": int(self._measured["visited_tiles"]),
            "is_stuck": self.is_stuck,
            "badges": facts["johto_badges"] + facts["kanto_badges"],
            "goal": describe_goal(facts),
        }

    def get_summary(self) -> str:
        """The state and what to do next, in words. **Example** "You are in the town ... Goal: take your first monster ..."."""
        return f"{describe_state(self.facts)} Goal: {describe_goal(self.facts)}."
