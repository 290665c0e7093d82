"""Texts that hold the right answer RIGHT and say something else; WRONG is a wrong answer, MORE one more move."""

MOVES = (
    # the list goes on
    "Answer: RIGHT, then MORE", "Answer: RIGHT, and finally MORE.", "Answer: RIGHT. Then MORE.",
    "Answer: RIGHT. MORE.", "Answer: RIGHT; then MORE", "Answer: RIGHT, ...", "Answer: RIGHT...", "Answer: RIGHT, …",
    "Answer: RIGHT etc.", "Answer: RIGHT, and so on.", "Answer: RIGHT\nThen MORE.", "Answer: RIGHT\nand finally MORE",
    "RIGHT\nThen MORE.", "[RIGHT], then MORE", "[RIGHT] ...", "[RIGHT] twice", "[RIGHT] x2", "[RIGHT] + [MORE]",
    "[MORE] + [RIGHT]", "[MORE]\n[RIGHT]", "[MORE], then [RIGHT]", "[RIGHT], repeated until the end",
    "[RIGHT] reversed", "Answer: RIGHT, gefolgt von MORE", "Answer: RIGHT, dann MORE", "Answer: RIGHT, puis MORE",
    "Moves: MORE,\nRIGHT", "RIGHT, etc.", "[RIGHT, ...]",
    # the list is denied, or only supposed
    "The answer is not [RIGHT].", "The answer is not RIGHT.", "Answer: not RIGHT", "Answer: anything but [RIGHT]",
    "Not [RIGHT].", "Never play [RIGHT].", "I cannot solve this. For example [RIGHT] would fail.",
    "Die Antwort ist nicht [RIGHT].", "La réponse n'est pas [RIGHT].", "La respuesta no es [RIGHT].",
    "If nothing were in the way: [RIGHT].", "Instead of:\nRIGHT", "Do not play:\n\n[RIGHT]",
    "My wrong answer was: RIGHT", "It isn't [RIGHT].", "答案不是 [RIGHT]。", "Neither [WRONG] nor [RIGHT]",
    "A list such as [RIGHT] is forbidden.", "**Not this:**\n```\nRIGHT\n```",
    # it is taken back
    "[RIGHT]\nWait, that is wrong. I do not know.", "Answer: RIGHT. No, that fails.", "[RIGHT]\n\nScrap that.",
    "Answer: RIGHT\nOn second thought, I give up.", "[RIGHT]. That is blocked.", "[RIGHT]\nHmm, I don't know.",
    "RIGHT\n\nThat would hit a wall.", "[RIGHT]\nNever mind.",
    # it is an alternative, or somebody else's
    "[RIGHT] or [WRONG]", "[WRONG] or [RIGHT]", "Answer: WRONG or RIGHT", "Answer: RIGHT or WRONG",
    "[WRONG], or maybe [RIGHT]", "[WRONG]\nor\n[RIGHT]", "Answer: WRONG.\nA wrong answer would be: RIGHT.",
    "Answer: WRONG\nThe plan of the tool agent was: RIGHT", "Answer: WRONG\nMy first plan: RIGHT",
    "Answer: WRONG\n(I considered [RIGHT] too.)", "My answer is [WRONG], not [RIGHT].",
    "Answer: [WRONG]\n\nThe tool proposed the list [RIGHT], which I reject.",
    "Answer: WRONG\n\nThe tool proposed [RIGHT].", "WRONG\nInstead of:\nRIGHT", "Answer: WRONG\nRIGHT",
    "Answer: WRONG\n\nRIGHT", "The list [RIGHT] fails.", "The tool agent proposed [RIGHT] and lost.",
    # JSON with other keys, and lists inside lists
    '{"moves": ["WRONG"], "rejected": [RIGHT]}', '{"moves": "WRONG", "draft": [RIGHT]}', '{"example": [RIGHT]}',
    '{"wrong_moves": [RIGHT]}', "[[RIGHT]]", '{"answer": null, "not": [RIGHT]}', "{'forbidden': [RIGHT]}",
    # thinking that is all there is
    "<think>[RIGHT]</think>", "<think>[RIGHT]", "<think>[RIGHT]</think>\n\nI give up.",
    "<think>a</think>[WRONG]<think>[RIGHT]</think>",
)  # fmt: skip
VALUES = (
    "Answer: RIGHT million", "Answer: RIGHT hundred", "Answer: RIGHT dozen", "The answer is RIGHT thousand.",
    "Answer: RIGHT 1/2", "Answer: RIGHT½", "Answer: RIGHT²", "Answer: RIGHT₂", "Answer: RIGHTe2", "Answer: RIGHT^2",
    "Answer: RIGHT**2", "Answer: RIGHT squared", "Answer: RIGHT cubed", "Answer: RIGHT plus 1",
    "Answer: RIGHT plus one", "Answer: RIGHT minus 1", "Answer: RIGHT times two", "Answer: RIGHT divided by 2",
    "Answer: RIGHT over three", "Answer: RIGHT mod 5", "Answer: RIGHT point 5", "Answer: RIGHT point five",
    "Answer: RIGHT halves", "Answer: RIGHT and a half", "Answer: RIGHT to 99", "Answer: RIGHT–99",
    "Answer: RIGHT..99", "Answer: RIGHT~99", "Answer: RIGHT ± 1", "Answer: RIGHT (or 99)", "Answer: RIGHT or 99",
    "Answer: RIGHT and 99", "Answer: RIGHT, 99", "Answer: RIGHT+", "Answer: RIGHT or more",
    "Answer: RIGHT at most or less", "Answer: more than RIGHT", "Answer: at least RIGHT", "Answer: < RIGHT",
    "Answer: ≥ RIGHT", "Answer: not RIGHT", "The answer is not RIGHT.", "It is not RIGHT.", "The answer isn't RIGHT.",
    "Answer: -RIGHT", "Answer: − RIGHT", "Answer: minus RIGHT", "Answer: RIGHTa", "Answer: RIGHT_000",
    "Answer: RIGHT 000", "Answer: RIGHT'000", "Answer: RIGHT,000", "Answer: RIGHT,5", "Answer: RIGHT.5",
    "Answer: RIGHT: 2", "Answer: RIGHT(2)", "Answer: RIGHT [2]", "Answer: RIGHT × 10^3", "Answer: √RIGHT",
    "Answer: 1/RIGHT", "Answer: RIGHT unless 99", "Answer: RIGHT if positive, else 99", "Answer: RIGHT base 8",
    "Answer: RIGHT apples and 3 pears", "Answer: RIGHT...99", "Answer: anything but RIGHT",
    "Answer: RIGHT. Wait, that is wrong.", "Answer: RIGHT\nNo, that is wrong.",
    "Answer: RIGHT\n\nOn second thought, I don't know.", "Answer: 99\nA wrong answer would be: RIGHT",
    "Answer: 99. A bad answer: RIGHT", "If it were so simple: RIGHT", "The wrong answer is RIGHT.",
    "\\boxed{RIGHT} million", "\\boxed{RIGHT} or \\boxed{99}", "\\boxed{99} or \\boxed{RIGHT}",
    "\\boxed{99}\\boxed{RIGHT}", "The answer is not \\boxed{RIGHT}.", "It isn't \\boxed{RIGHT}.",
    "\\boxed{RIGHT}\nWait, that is wrong.", "\\boxed{RIGHT} + 1", "\\boxed{RIGHT}^2", "\\boxed{RIGHT, 99}",
    "\\boxed{RIGHT \\text{ or } 99}", "\\boxed{RIGHT}, or maybe 99", "\\boxed{99} (not \\boxed{RIGHT})",
    "Die Antwort ist nicht RIGHT.", "La respuesta no es RIGHT.", "La réponse n'est pas RIGHT.",
    "Therefore there are RIGHT million people.", "Thus it exceeds RIGHT by far, never RIGHT.",
    "There are not RIGHT apples.", "It would have been RIGHT apples.", "We get RIGHT squared.",
    "6 * 7 = RIGHT million", "#### RIGHT or 99", "#### not RIGHT", "<think>RIGHT</think>",
    "<think>The answer is RIGHT.", "<think>\\boxed{RIGHT}</think> I give up.", "Answer: R1GHT", "Answer: RIGHT\u0336",
    "| answer | 99 |\n|---|---|\n| not | RIGHT |", '{"answer": 99, "draft": RIGHT}',
    "```\n99\n```\nThe answer of my colleague would be RIGHT.",
)  # fmt: skip
PERCENTS = (
    "Answer: RIGHT %", "Answer: RIGHT percent", "Answer: RIGHT%",
)  # fmt: skip
"""Right where a percentage may be asked for."""
NAMES = (
    "= WRONG\n\nor\n\n= RIGHT", "= RIGHT\n\nor\n\n= WRONG", "Final answer: WRONG. A worse answer: RIGHT",
    "= RIGHT\n= WRONG", "= WRONG\n= RIGHT", "Answer: WRONG (not RIGHT)", "= not RIGHT", "Answer: not RIGHT",
    "The answer is not:\n= RIGHT", "Do not write:\n= RIGHT", "It would be wrong to say:\n= RIGHT",
    "= RIGHT\nWait, that is wrong.", "= RIGHT\n\nNo, that is wrong. I do not know.",
    "= RIGHT\nOn second thought, no idea.", "Final answer: WRONG or RIGHT", "Answer: RIGHT or WRONG",
    "= RIGHT and WRONG", "= WRONG, RIGHT", "? RIGHT", "I would say RIGHT", "<think>= RIGHT</think>", "<think>= RIGHT",
    "= RIGHT\n? WRONG", "Instead of:\n= RIGHT", "Antworte nicht:\n= RIGHT", "= WRONG\nor maybe\n= RIGHT",
    "= neither WRONG nor RIGHT", "If I had to guess:\n= RIGHT\nBut I do not know.",
)  # fmt: skip
CALLS = (
    "WRONG or RIGHT", "RIGHT or WRONG", "WRONG\nnot RIGHT", "Not RIGHT", "No calls: none of RIGHT",
    "I will not do RIGHT", "I will not do RIGHT but WRONG", "Instead of RIGHT", "Never send: RIGHT",
    "Do not send:\n```json\nRIGHT\n```", "If it were allowed: RIGHT", "For example RIGHT",
    "RIGHT\nWait, that is wrong.", "RIGHT\nScrap that.", "RIGHT\n\nOn second thought, do nothing: []",
    "RIGHT\nNever mind.", "RIGHT, then WRONG", "[RIGHT]", '{"calls": WRONG, "draft": RIGHT}', '{"rejected": RIGHT}',
    '{"not_this": RIGHT}', "{'example': RIGHT}", "<think>RIGHT</think>WRONG", "<think>RIGHT</think>", "<think>RIGHT",
    "WRONG\nRIGHT", "RIGHT\nWRONG", 'RIGHT\n{"tool": "explode"', "WRONG, then RIGHT", "WRONG and RIGHT", "RIGHT ...",
    "Sende nicht: RIGHT", "N'envoie pas : RIGHT", "RIGHT\nNo, that is wrong.", "It isn't RIGHT",
)  # fmt: skip
PLANS = (
    "Do not: RIGHT", "Never do this:\nRIGHT", "Instead of:\nRIGHT", "RIGHT\nWait, that is wrong.",
    "RIGHT\n\nScrap that.", "If it were allowed:\nRIGHT", "RIGHT\nNo, that fails. I do not know.",
    "<think>RIGHT</think>", "<think>RIGHT", "Nicht so:\n`RIGHT`", "A wrong plan: RIGHT",
)  # fmt: skip
PROGRAMS = (
    "Never write:\n```python\nRIGHT\n```", "Do not use this:\n```python\nRIGHT\n```",
    "```python\nWRONG\n```\nInstead of:\n```python\nRIGHT\n```",
    "```python\nWRONG\n```\nNot like this:\n```python\nRIGHT\n```",
    "```python\nWRONG\n```\nIt would be wrong to write:\n```python\nRIGHT\n```",
    "<think>\n```python\nRIGHT\n```\n</think>\n```python\nWRONG\n```", "<think>\n```python\nRIGHT\n```",
    "```python\nRIGHT\n```\n```python\nWRONG\n```",
)  # fmt: skip
TESTS = (
    "<think>RIGHT</think>", "<think>RIGHT", "Not:\nRIGHT", "Do not write:\nRIGHT", "RIGHT\nWait, that is wrong.",
    "Instead of:\nRIGHT", "It would be wrong to write:\n`RIGHT`",
)  # fmt: skip
GUESSES = (
    "Answer: not RIGHT", "Answer: RIGHT\nWait, that is wrong.", "A wrong answer would be: RIGHT",
    "Answer: RIGHT or 5", "Not:\n```\nRIGHT\n```", "<think>RIGHT</think>", "Answer: RIGHT million",
    "```\nRIGHT\n```\nScrap that.", "The answer is not RIGHT.",
)  # fmt: skip
