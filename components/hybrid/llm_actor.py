"""Who may be asked for a button: the protocol of advisers. Many states in, one answer each out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from components.hybrid.game_facts import Action
from components.hybrid.game_text import describe_goal, describe_state


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A game before a decision: its facts, the legal actions, and the last actions, oldest first."""

    facts: Mapping[str, int]
    legal: tuple[Action, ...]
    recent: tuple[Action, ...] = ()

    @property
    def description(self) -> str:
        """The state, the goal and the legal actions in words: questions with equal ones may have the same answer.

        **Example** "You are in the town ... Goal: take your first monster ... Buttons: A, B, START, ..."
        """
        buttons = ", ".join(action.name for action in self.legal)
        return f"{describe_state(self.facts)} Goal: {describe_goal(self.facts)}. Buttons: {buttons}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A legal action, the adviser's own confidence in it from 0 to 1, and its reason if it gives one."""

    action: Action
    confidence: float
    reasoning: str = ""
    draw: int | None = None
    """Its number among the draws that the adviser keeps to learn from; None: it keeps none."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"confidence {self.confidence}: give a number from 0 to 1")


class LlmActor(Protocol):
    """Answers questions in batches. Equal questions have equal answers, so that a resumed game goes on alike."""

    def advise(self, questions: Sequence[Question]) -> list[Advice]:
        """One answer for each question, in order; its action is legal."""
        ...
