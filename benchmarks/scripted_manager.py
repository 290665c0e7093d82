"""A manager without a model, which reads what a model reads and knows the way of our own cartridge."""

import re
from typing import Any

from components.hybrid.cartridge_rules import HILL, ROUTE, TOWN
from components.hybrid.game_environment import competent_action
from components.hybrid.game_facts import LARGEST, Action
from components.hybrid.language_model import read_legal
from flows.api.hybrid.trainer.llm_manager import BaseLLMManager

_POSITION = re.compile(r"You are in the (town|route|hill) at column (\d+), row (\d+), facing (down|up|left|right)\.")
_MAPS = {"town": TOWN, "route": ROUTE, "hill": HILL}
_FACINGS = {"down": 0, "up": 4, "left": 8, "right": 12}


class ScriptedLLMManager(BaseLLMManager):
    """Reads what a model reads and knows the way of our own cartridge: no model, for tests and as the best adviser."""

    def get_action(self, context: str) -> tuple[int, dict[str, Any]]:
        """The next button on the way to both badges, with a confidence of .9; NONE, with 0, on other cartridges."""
        facts = read_game(context.split("\n")[-1])
        if facts is None:
            return int(Action.NONE), {"source": "scripted", "confidence": 0.0, "reasoning": "I do not know this place"}
        action, legal = competent_action(facts), read_legal(context)
        return int(action if action in legal else Action.NONE), {"source": "scripted", "confidence": 0.9}


def read_game(description: str) -> dict[str, int] | None:
    """The facts of our own cartridge that a description tells; None for what is not of it.

    **Example** "You are in the town at column 4, row 5, facing down. You have no party.": map 4, x 4, y 5, facing 0, no party.
    """
    facts = dict.fromkeys(LARGEST, 0)
    level, badges = re.search(r"Your level is (\d+)", description), re.search(r"Badges: (\d+)", description)
    if "You fight a" in description:
        return facts | {"battle_mode": 1}
    place = _POSITION.search(description)
    if place is None:
        return None
    return facts | {
        "map_number": _MAPS[place[1]],
        "x": int(place[2]),
        "y": int(place[3]),
        "facing": _FACINGS[place[4]],
        "script": int("Somebody talks" in description),
        "menu": int("The menu is open" in description),
        "party_count": int(level is not None),
        "level": int(level[1]) if level else 0,
        "johto_badges": int(badges[1]) if badges else 0,
    }
