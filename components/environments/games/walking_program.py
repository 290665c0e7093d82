"""An agent on the OpenAI SDK that knows nothing of Troupe: it walks to the goal of a board, with a tool for its moves."""

import json
from functools import cache
from typing import Any

STEPS = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
MOST_MOVES = 3
MOVE = {
    "type": "function",
    "function": {
        "name": "move",
        "description": "Walk a path of U, D, L and R.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}


@cache
def open_client() -> Any:
    """A client of what OPENAI_BASE_URL and OPENAI_API_KEY name, opened once."""
    import openai

    return openai.OpenAI()


def walk(problem: dict[str, Any]) -> str:
    """Ask for moves until the goal is reached, at most three times; how it ended."""
    place, goal = tuple(problem["start"]), tuple(problem["goal"])
    messages: list[Any] = [{"role": "user", "content": draw_board(problem["rows"], place, goal)}]
    for _ in range(MOST_MOVES):
        said = open_client().chat.completions.create(model="walker", messages=messages, tools=[MOVE]).choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        for call in said.tool_calls or []:
            place = take_path(problem, place, json.loads(call.function.arguments)["path"])
            board = draw_board(problem["rows"], place, goal)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": board})
        if place == goal or not said.tool_calls:
            break
    return "at the goal" if place == goal else "on the way"


def take_path(problem: dict[str, Any], place: tuple[int, ...], path: str) -> tuple[int, ...]:
    """Where a path leads; a path that is none leads nowhere."""
    if not path or len(path) > problem["max_moves"] or not set(path) <= STEPS.keys():
        return place
    for step in path:
        row, column = place[0] + STEPS[step][0], place[1] + STEPS[step][1]
        if 0 <= row < problem["size"] and 0 <= column < problem["size"] and problem["rows"][row][column] != "#":
            place = (row, column)
    return place


def draw_board(rows: list[str], place: tuple[int, ...], goal: tuple[int, ...]) -> str:
    """The rows with A for the walker and G for the goal, each with the end of a line."""
    cells = [list(row) for row in rows]
    cells[goal[0]][goal[1]] = "G"
    cells[place[0]][place[1]] = "A"
    return "".join("".join(row) + "\n" for row in cells)
