"""Answers that reason first in the puzzles whose moves are U, D, L and R, with the moves that a person reads in them."""

from tests.components.environments.reasoned.row import MALFORMED, Row

PLAN, TOOL = "plan_agent", "tool_agent"

PLAN_PATH = (
    Row(TOOL, "The goal is up and to the right, so I go up twice and then right.\n\n[U, U, R]", "UUR"),
    Row(TOOL, "<think>Left is a wall. [L] fails.</think>\n\n[U, R]", "UR"),
    Row(TOOL, "Left is a wall, and [L] fails. So up it is.\n</think>\n\n[U, R]", "UR"),
    Row(TOOL, "<think>Let me see. First U, then R, and then maybe [U, R] but wait, there is", MALFORMED),
    Row(TOOL, "<think>[U, R] looks right.</think>", MALFORMED),
    Row(TOOL, "**Plan**\n1. Go up.\n2. Go right.\n\n**Answer:** `[U, R]`\n\nI hope this helps!", "UR"),
    Row(TOOL, "First idea: [U, U, U]. Wait, the third step is blocked. Corrected: [U, U, R].", "UUR"),
    Row(TOOL, '```json\n["U", "R", "R"]\n```', "URR"),
    Row(TOOL, '{"reasoning": "up, then right", "moves": ["U", "R"]}', "UR"),
    Row(TOOL, "I am at [3, 0] and the goal is at [1, 2].\n[U, U, R, R]\nThis ends at [1, 2].", "UURR"),
    Row(PLAN, "The tool's list was marked y, so I keep it.\n\nU U R R", "UURR"),
    Row(PLAN, "Der Vorschlag stößt an die Wand. Besser zuerst nach rechts.\n\nAntwort: RRU", "RRU"),
    Row(PLAN, "先向上走两步，然后向右。\n最终答案：U U R", "UUR"),
    Row(PLAN, "El muro bloquea la derecha.\nLa respuesta final es [U, R].", "UR"),
    Row(PLAN, "So we step\nU\nU\nR\n\nand we are there.", "UUR"),
    Row(PLAN, "The answer is URR because it is the shortest.", "URR"),
    Row(PLAN, "[U, U] is blocked.\nAnswer: U, NE", MALFORMED),
    Row(PLAN, "[U, R] it is; positions are [row, col].", "UR"),
    Row(PLAN, "[U, R] is my list. My answer is the list above.", "UR"),
    Row(PLAN, "Step by step:\n1. U\n2. U\n3. R", "UUR"),
    Row(PLAN, "Step 1: U\nStep 2: U\nStep 3: R", "UUR"),
    Row(PLAN, "Here is my plan.\n**Move 1:** U\n**Move 2:** R\nThat is all.", "UR"),
    Row(PLAN, "Step 1: U\nStep 2: U\nThat is blocked.\nAnswer: R, U", "RU"),
    Row(PLAN, "Answer: R, U\nWhy?\nStep 1: right of me is free.", "RU"),
    Row(PLAN, "Moves: U -> U -> R", "UUR"),
    Row(PLAN, "Therefore \\boxed{UUR}.", "UUR"),
    Row(PLAN, "I would go up and then turn right at the wall. Good luck!", MALFORMED),
    Row(PLAN, "Going up: [U, U]. On second thought north-east is better: [U, NE].\n\nFinal: [U, X]", MALFORMED),
)

SOKOBAN = (
    Row(TOOL, "The box is right of me and the goal is behind it, so one push does it: [R]", "R"),
    Row(TOOL, "<think>\nPush from the left.\nNo, from below.\n</think>\nI push from below.\n[R, U, U]", "RUU"),
    Row(TOOL, "I need to walk around the box first.\n```\nL, U, U, R\n```", "LUUR"),
    Row(TOOL, "### Analysis\n- the box is at (2, 3)\n- the goal is at (2, 5)\n\n### Answer\n[R, R]", "RR"),
    Row(TOOL, "Pushing with [R, R] jams the box in the corner.\nInstead:\n\n**[D, R, R, U]**", "DRRU"),
    Row(TOOL, "<answer>D D R</answer>", "DDR"),
    Row(TOOL, "Okay, the user wants moves.</think>[D, D, R]", "DDR"),
    Row(TOOL, "my final answer is: ['D', 'L', 'L']", "DLL"),
    Row(TOOL, "The box cannot move, so nothing is to be done. []", ""),
    Row(TOOL, "I cannot see a solution, sorry.", MALFORMED),
    Row(PLAN, "y means that it solves, so I repeat it.\n[L, L, U]\nLet me know if you need anything else.", "LLU"),
    Row(PLAN, "La réponse : [L, U, U]", "LUU"),
    Row(PLAN, "Ответ: L U U", "LUU"),
    Row(PLAN, "まず左に押します。\n答えは [L, L] です。", "LL"),
    Row(PLAN, "> [U, U]\n\nThat proposal is blocked.\n\n> [R, U]", "RU"),
    Row(PLAN, "[U,\n U,\n R]", "UUR"),
    Row(PLAN, "<think>short</think><think>again</think>\nRRU", "RRU"),
    Row(PLAN, "Path = UUL", "UUL"),
    Row(PLAN, "The list `UUL` was tried. I decide:\n\n* RUL", "RUL"),
    Row(PLAN, "<think>The tag </think> ends thinking. </think> [R]", "R"),
)
