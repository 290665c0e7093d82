"""Three players of the homebrew cartridge that need no model: one knows the way, one is sure and wrong, and one walks about.

They are experiment arms: what a good adviser could bring, and what a bad one could cost. Chance is a function of the question
and a seed, so that there is nothing to save.
"""

from collections.abc import Sequence
from random import Random

from components.hybrid.game_environment import competent_action
from components.hybrid.game_facts import Action
from components.hybrid.llm_actor import Advice, Question
from components.identity import seed_for

_SENSIBLE_SHARE = 0.9


class _ScriptedAdviser:
    """An adviser whose answers are a function of its seed and the question."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def advise(self, questions: Sequence[Question]) -> list[Advice]:
        """One answer for each question."""
        return [self._advice(question) for question in questions]

    def _advice(self, question: Question) -> Advice:
        raise NotImplementedError


class CompetentAdviser(_ScriptedAdviser):
    """The next button on the way to both badges in 9 of 10 questions, with confidence .9; else any legal one, with .4."""

    def _advice(self, question: Question) -> Advice:
        chance = _chance(self._seed, question)
        sensible = competent_action(question.facts)
        if chance.random() < _SENSIBLE_SHARE and sensible in question.legal:
            return Advice(action=sensible, confidence=0.9)
        return Advice(action=chance.choice(question.legal), confidence=0.4)


class ConfidentBadAdviser(_ScriptedAdviser):
    """Walks to the south-west, opens the menu and flees, with a confidence of .95."""

    def _advice(self, question: Question) -> Advice:
        wanted = (Action.B,) if question.facts["battle_mode"] else (Action.DOWN, Action.LEFT, Action.START, Action.NONE)
        possible = [action for action in wanted if action in question.legal]
        return Advice(action=_chance(self._seed, question).choice(possible), confidence=0.95)


class AimlessAdviser(_ScriptedAdviser):
    """Walks about and presses A, with a confidence of .5: it visits tiles, which counts as progress, and wins nothing."""

    def _advice(self, question: Question) -> Advice:
        wanted = (Action.UP, Action.DOWN, Action.LEFT, Action.RIGHT, Action.A)
        possible = [action for action in wanted if action in question.legal] or list(question.legal)
        return Advice(action=_chance(self._seed, question).choice(possible), confidence=0.5)


def _chance(seed: int, question: Question) -> Random:
    return Random(seed_for(seed, question.description, *(int(action) for action in question.recent)))
