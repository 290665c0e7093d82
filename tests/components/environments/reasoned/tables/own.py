"""Answers that reason first in an environment of the user's own, of which nothing is known but that an answer is one text."""

from tests.components.environments.reasoned.row import MALFORMED, Row

ROLE = "guesser"

OWN = (
    Row(ROLE, "12", "12"),
    Row(ROLE, "It was too low last time, so I go up.\n\n12", "12"),
    Row(ROLE, "<think>11? 13?</think>12", "12"),
    Row(ROLE, "11? 13? In between, then.</think>\n\n12", "12"),
    Row(ROLE, "Answer: 12\n\nI hope this helps!", "12"),
    Row(ROLE, "My guess is in a block.\n```\n12\n```\nGood luck.", "12"),
    Row(ROLE, "```\n11\n```\nNo, that was tried.\n```\n12\n```", "12"),
    Row(ROLE, "```\n11\n```\nNo, that was tried.\n\n**Final answer:** 12", "12"),
    Row(ROLE, "Answer: 11. Hm, too low.\nAnswer: 12.", "12"),
    Row(ROLE, "Die Antwort lautet 12.", "12"),
    Row(ROLE, "因为上次太小。\n答案：12", "12"),
    Row(ROLE, "**12**", "12"),
    Row(ROLE, "I take `11`.\n`12`", "12"),
    Row(ROLE, "The final answer is:\n\n12\n\nas it lies in the middle.", "12"),
    Row(ROLE, "Respuesta: 12", "12"),
    Row(ROLE, "```json\n12", "12"),
    Row(ROLE, "12.", "12"),
    Row(ROLE, "The result is surprising.\n12", "12"),
    Row(ROLE, r"\[ \boxed{\text{12}} \]", "12"),
    Row(ROLE, "I wait.\n#### 12", "12"),
    Row(ROLE, "Answer: $12$. I hope it is correct.", "12"),
    Row(ROLE, "<think>12", MALFORMED),
    Row(ROLE, "<think>12</think>", MALFORMED),
    Row(ROLE, "<think>a</think>\n<think>b</think>\n\n12", "12"),
)
