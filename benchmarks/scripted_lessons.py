"""Lessons for the homebrew cartridge that need no model: one of the way to both badges, and one that leads away from it.

They are experiment arms, as the scripted advisers are: what a good teacher could bring, and what a wrong one could cost.
"""

from components.hybrid.game_facts import LARGEST
from components.hybrid.subgoals import Lesson, read_lesson

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
