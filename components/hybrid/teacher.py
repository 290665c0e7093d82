"""Lessons for the homebrew cartridge that need no model: one of the way to both badges, and one that leads away from it.

They are experiment arms, as the scripted advisers are: what a good teacher could bring, and what a wrong one could cost. That
of a language model is in `language_model.py`; all three are read by `read_lesson`, and none pays more than `cap_pay` allows.
"""

from dataclasses import replace

from components.hybrid.game_facts import LARGEST
from components.hybrid.rewards import RewardWeights
from components.hybrid.subgoals import Lesson, cap_pay, read_lesson

GOOD_LESSON = """
up: party_count == 0 and y <= 2
near the table: party_count == 0 and y == 2 and x <= 2
at the table: party_count == 0 and y == 2 and x == 1 and facing == 4
starter: party_count > 0
around the house: party_count > 0 and map_number == 4 and x >= 5 and y <= 4
exit: party_count > 0 and map_number == 4 and x >= 8 and y == 4
route: map_number == 3
half the route: map_number == 3 and x >= 4 and y == 4
gym: map_number == 3 and x >= 7 and y == 4
challenge: battle_mode == 2
hill: johto_badges > 0 and map_number == 2
second gym: johto_badges > 0 and map_number == 2 and x >= 8 and y >= 7 and level >= 15
"""
WRONG_LESSON = """
east without a party: x >= 8 and party_count == 0
south-east: y >= 7 and x >= 6
menu: menu > 0
south of the town: party_count > 0 and y >= 7
south-west: party_count > 0 and x <= 1 and y >= 6
south of the route: map_number == 3 and y >= 7
"""


def read_scripted_lesson(text: str) -> Lesson:
    """The lesson of one of the texts above."""
    lesson = read_lesson(text, LARGEST)
    assert not lesson.refusals, lesson.refusals
    return lesson


def weights_with_lesson(weights: RewardWeights, lesson: Lesson, *, wanted: float = 10.0) -> RewardWeights:
    """The weights with a pay of all subgoals that cannot outweigh the smallest true goal: the party, or else the badge.

    **Example** 12 subgoals beside a party of 25: 25 * .25 / 12 = .52 each; where only a badge of 100 pays: 2.08 each.
    """
    smallest = min(weight for weight in (weights.party, weights.badges) if weight > 0)
    return replace(weights, subgoals=cap_pay(len(lesson.subgoals), wanted=wanted, smallest_goal=smallest))
