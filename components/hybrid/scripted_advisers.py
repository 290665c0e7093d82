"""Three players of the homebrew cartridge that need no model: one knows the way, one is sure and wrong, and one walks about.

They are experiment arms: what a good adviser could bring, and what a bad one could cost. Chance is a function of the question
and a seed, so that there is nothing to save.
"""

from collections.abc import Sequence
from random import Random

from components.hybrid.adviser import Advice, Question
from components.hybrid.cartridge_rules import HILL, ROUTE, TOWN
from components.hybrid.game_facts import Action
from components.hybrid.game_text import Game
from components.identity import seed_for

_SENSIBLE_SHARE = 0.9
_RIGHT, _UP, _DOWN = 12, 4, 0
"""Facings."""


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


def competent_action(game: Game) -> Action:
    """The next button on the way to the starter, the first badge, level 15 and the second badge of the homebrew cartridge.

    **Example** in a new game at (4, 5): LEFT.
    """
    if game["battle_mode"]:
        return Action.A
    if game["menu"] or game["script"]:
        return Action.B
    if not game["party_count"]:
        return _action_to_starter(game)
    if game["map_number"] == HILL or (game["map_number"] == ROUTE and game["johto_badges"]):
        return _action_after_first_badge(game)
    if game["map_number"] == TOWN and game["x"] <= 2 and game["y"] in (3, 4):
        return Action.DOWN  # around the house
    if (game["map_number"] != TOWN or game["x"] > 4) and game["y"] != 4:
        return Action.UP if game["y"] > 4 else Action.DOWN
    return Action.A if game["map_number"] != TOWN and game["x"] == 7 and game["facing"] == _RIGHT else Action.RIGHT


def _action_to_starter(game: Game) -> Action:
    if game["y"] > 2:
        return Action.LEFT if game["x"] in (3, 4) else Action.UP
    return Action.LEFT if game["x"] > 1 else Action.A if game["facing"] == _UP else Action.UP


def _action_after_first_badge(game: Game) -> Action:
    """South to the hill, up and down its grass until level 15, then to the second gym."""
    if game["map_number"] == ROUTE:
        return Action.DOWN if game["x"] == 2 else Action.RIGHT if game["x"] < 2 else Action.LEFT
    if game["level"] < 15:
        return Action.DOWN if game["y"] < 3 or (game["y"] == 3 and game["facing"] == _DOWN) else Action.UP
    if game["y"] < 7:
        return Action.DOWN
    return Action.RIGHT if game["x"] < 8 else Action.A if game["facing"] == _DOWN else Action.DOWN


def _chance(seed: int, question: Question) -> Random:
    return Random(seed_for(seed, question.description, *(int(action) for action in question.recent)))
