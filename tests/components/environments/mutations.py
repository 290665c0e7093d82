"""Answers that are nearly right: what a model writes when it slips, and what somebody writes who means harm."""

import json
from random import Random
from typing import Any

from components.environments.stateful.tools import Call

STRANGE: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**30,
    1.5,
    "",
    " ",
    "x" * 50,
    "../..",
    "/",
    "/a/../b",
    "__import__('os')",
    "\ud800",
    "\x00",
    "ä",
    [],
    [[]],
    ["ann"] * 20,
    {},
    {"tool": "pay"},
)
HOSTILE = (
    *("", "null", "NaN", "[NaN]", "1e999", "[" * 5000, '{"a":' * 3000, '[{"tool":"pay","tool":"pay"}]'),
    *('[{"tool":1}]', "[[]]", "__import__('os').system('true')", '[{"tool": "pay"}, 3]', "\ud800", '"' * 3000),
    *("9" * 5000, "[" + "9" * 5000 + "]"),
)
SPLINTERS = (
    *("true", "1.0", "1e0", "1e400", "-0", "-1", "0x1", "NaN", "-Infinity", "null", "9" * 4299, "9" * 4301, "\uff11"),
    *('"\\ud800"', "\ud800", "\x00", "\u212a", "\u2028", "\x1b[2J", "\\", '"', "```\n", "\n"),
    *("[" * 99, "{" * 99, "]", "//", "/..", " " * 2000, ","),
)
"""What a damaged answer gets in the middle: numbers that are no counts, texts that are no names, and ends too early."""


def damage(answer: str, rng: Random) -> str:
    """`answer` with up to four cuts, each of which may put in something strange."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(answer) + 1)
        end = min(len(answer), start + rng.randrange(6))
        filling = rng.choice(["", answer[start : start + 9], rng.choice(SPLINTERS), chr(rng.randrange(0x3000))])
        answer = answer[:start] + filling + answer[end:]
    return answer


def mutate(calls: list[Call], rng: Random) -> str:
    """The calls as JSON with something changed in a value, a key, the number of calls, or the text itself."""
    changed = [dict(call) for call in calls] or [{"tool": "pay"}]
    call = rng.choice(changed)
    match rng.randrange(7):
        case 0:
            call[rng.choice([*call])] = rng.choice(STRANGE)
        case 1:
            del call[rng.choice([*call])]
        case 2:
            call[rng.choice(["count", "path", "people", "x"])] = rng.choice(STRANGE)
        case 3:
            changed *= rng.randint(2, 9)
        case 4:
            return _garble(json.dumps(changed), rng)
        case 5:
            return json.dumps(rng.choice([*STRANGE, changed[0], [changed], {"calls": changed}]))
        case 6:
            rng.shuffle(changed)
    return json.dumps(changed)


def _garble(text: str, rng: Random) -> str:
    start, end = sorted(rng.sample(range(len(text) + 1), 2))
    return rng.choice(
        [text[:start] + text[end:], text[:start] + text[start:end] * 2 + text[end:], text[end:] + text[:start]]
    )
