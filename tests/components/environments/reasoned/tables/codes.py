"""Answers that reason first in the puzzles whose moves are codes of two or three characters."""

from tests.components.environments.reasoned.row import MALFORMED, Row

PLAN, TOOL = "plan_agent", "tool_agent"

SUDOKU = (
    Row(TOOL, "Row 1 lacks 3 and column 2 lacks 3, so 3 goes to row 1, column 2.\n\n[123]", "123"),
    Row(TOOL, "<think>123? Or 124?</think>\n[123, 214]", "123, 214"),
    Row(TOOL, "Row 1 is [1, 2, 3, 4] when filled.\nMy placements: [123, 214]\nRow 2 is then [3, 4, 1, 2].", "123, 214"),
    Row(TOOL, "```\n123 214\n```\nI hope this is right.", "123, 214"),
    Row(TOOL, "One per line:\n123\n214\n311", "123, 214, 311"),
    Row(TOOL, "- 123\n- 214\n- 311\n\nThese are forced.", "123, 214, 311"),
    Row(TOOL, "1. 123 because of the box\n2. 214 because of the row\n\nAnswer: 123, 214.", "123, 214"),
    Row(TOOL, '["123", "214"]', "123, 214"),
    Row(TOOL, "[123, 214] puts two threes into a column. Corrected: [124, 213]", "124, 213"),
    Row(TOOL, "The grid is solved when every row holds 1 to 4.", MALFORMED),
    Row(PLAN, "I take over what the tool agent proposed, without the last one.\n**[123, 214]**", "123, 214"),
    Row(PLAN, "Solved grid:\n\n123 412\n341 234\n\nso I place\n\n[111, 222]", "111, 222"),
    Row(PLAN, "La réponse est [123, 214].", "123, 214"),
    Row(PLAN, "答案是：123, 214", "123, 214"),
    Row(PLAN, "\\boxed{[123, 214]}", "123, 214"),
    Row(PLAN, "Column 2 lacks a 3.</think>\n\n[123]", "123"),
    Row(PLAN, "<think>still at row 3 [123, 214]", MALFORMED),
    Row(PLAN, "[123, 214]\nFinal: [129, 214]", MALFORMED),
    Row(PLAN, "Placements: `123`, `214`", "123, 214"),
    Row(PLAN, "<answer>\n123, 214\n</answer>", "123, 214"),
)

BLOCKSWORLD = (
    Row(TOOL, "c lies on a, so c goes to the table first, then a onto b.\n\n[c0, ab]", "c0, ab"),
    Row(TOOL, "<think>ab first? c is on a. So c0.</think>\n\nc0 ab", "c0, ab"),
    Row(TOOL, "The towers are [a, b, c] from the left.\n[c0, ab]\nThen they are [a, b] and [c].", "c0, ab"),
    Row(TOOL, '```json\n["c0", "ab"]\n```', "c0, ab"),
    Row(TOOL, "1. c0\n2. ab\n3. ca", "c0, ab, ca"),
    Row(TOOL, "[ab] is impossible, as c is on a. So: [c0, ab].", "c0, ab"),
    Row(TOOL, "Moves: c0 → ab → ca", "c0, ab, ca"),
    Row(TOOL, "Zuerst c auf den Tisch.\nDie Lösung: [c0, ab]", "c0, ab"),
    Row(TOOL, "A bad idea would be to be hasty.\nPut c down, then a onto b.", MALFORMED),
    Row(TOOL, "c0</think>", MALFORMED),
    Row(PLAN, "Marked y, so I copy it.\n\n**Answer**: c0, ab\n\nHope this helps.", "c0, ab"),
    Row(PLAN, "{'plan': ['c0', 'ab']}", "c0, ab"),
    Row(PLAN, "먼저 c를 내려놓습니다.\n정답: [c0, ab]", "c0, ab"),
    Row(PLAN, "First I thought [c0, ab].\n\nBut b must be clear: [c0, b0, ab]", "c0, b0, ab"),
    Row(PLAN, "<think>\n```\n[c0]\n```\n</think>\n```\n[c0, ab]\n```", "c0, ab"),
    Row(PLAN, "Nothing can be improved: []", ""),
    Row(PLAN, "The final move list is as follows.\n\n[ c0 , ab ]", "c0, ab"),
    Row(PLAN, "[c0, ab]\nNo, sorry: [c0, az]", MALFORMED),
    Row(PLAN, "> **c0**\n> **ab**", "c0, ab"),
    Row(PLAN, "\\boxed{c0, ab}", "c0, ab"),
)

EIGHT_QUEENS = (
    Row(TOOL, "Row 2 has no queen, and column 4 is free.\n[24]", "24"),
    Row(TOOL, "<think>Rows 2 and 5 are empty. 24 attacks 46? No.</think>\n\n[24, 57]", "24, 57"),
    Row(TOOL, "The queens stand at (1, 3) and (3, 5), that is [1, 3] and [3, 5].\nI place [24, 57].", "24, 57"),
    Row(TOOL, "| row | column |\n|---|---|\n| 2 | 4 |\n| 5 | 7 |\n\nAnswer: [24, 57]", "24, 57"),
    Row(TOOL, "Trying [22]: attacked. Trying [23]: attacked. Trying [24]: free.", "24"),
    Row(TOOL, "```text\n24, 57\n```", "24, 57"),
    Row(TOOL, "24\n57\n68", "24, 57, 68"),
    Row(TOOL, "* 24\n* 57", "24, 57"),
    Row(TOOL, "I need to think about this more carefully.", MALFORMED),
    Row(TOOL, "First the diagonals...</think>\n[24, 57]\nDone.", "24, 57"),
    Row(PLAN, "The proposal attacks in row 5. I move that queen: [24, 58]", "24, 58"),
    Row(PLAN, "Respuesta: 24, 57", "24, 57"),
    Row(PLAN, "解答：[24, 57]。", "24, 57"),
    Row(PLAN, '{"placements": ["24", "57"], "comment": "no attacks"}', "24, 57"),
    Row(PLAN, "The answer is [24, 57], since no two queens attack each other.", "24, 57"),
    Row(PLAN, "[24, 57]\n\nI checked all 28 pairs; 0 attack.", "24, 57"),
    Row(PLAN, "Good: [24, 57]\nBetter: [24, 50]", MALFORMED),
    Row(PLAN, "<think>never ending [24, 57]", MALFORMED),
    Row(PLAN, "Final answer:\n\n$$\\boxed{24, 57}$$", "24, 57"),
    Row(PLAN, "I repeat the tool's list.\n\n“24, 57”", "24, 57"),
)
