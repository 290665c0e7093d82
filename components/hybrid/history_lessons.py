"""What a history of decisions teaches those who play on: who does better where, and what helped in a state."""

from collections.abc import Mapping
from dataclasses import dataclass

from components.hybrid.arbitration import Actor
from components.hybrid.decision_history import DecisionHistory
from components.hybrid.game_facts import Action
from components.hybrid.language_model import WORDS
from components.mathematics.intervals import wilson_interval

_LOOKED_AT, _LEAST, _Z = 1000, 30, 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLessons:
    """The better actor by phase of the game, "" for all together, and a sentence on a state by its `state_hash`."""

    better: Mapping[str, Actor]
    notes: Mapping[int, str]


def learn_from_history(history: DecisionHistory) -> HistoryLessons:
    """Who succeeds more often, by the last 1,000 decisions, 30 of each at least, at 95%; and what `history.patterns` finds.

    **Example** of 40 decisions each 35 successes of the language model and 5 of the policy: the language model is better. An
    action that helped in a state, and one that hurt: "Here Up helped before; Down hurt. ".
    """
    won: dict[tuple[str, str], list[bool]] = {}
    for each in history.recent_decisions(_LOOKED_AT):
        for phase in ("", each.phase):
            won.setdefault((phase, each.source), []).append(each.is_success)
    bounds = {key: wilson_interval(sum(own), len(own), _Z) for key, own in won.items() if len(own) >= _LEAST}
    better: dict[str, Actor] = {}
    for actor, other in ((Actor.LLM, Actor.RL), (Actor.RL, Actor.LLM)):
        for phase, source in bounds:
            if source == actor and (phase, other) in bounds and bounds[phase, actor][0] > bounds[phase, other][1]:
                better[phase] = actor
    history.analyse()
    said: dict[int, list[str]] = {}
    for pattern in history.patterns().patterns:
        buttons = ", ".join(WORDS[Action(action)] for action in pattern.actions)
        verb = "helped before" if pattern.effect == "helps" else "hurt"
        said.setdefault(pattern.state_hash, []).append(f"{buttons} {verb}")
    return HistoryLessons(better=better, notes={state: f"Here {'; '.join(each)}. " for state, each in said.items()})
