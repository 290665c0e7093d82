"""Writes problems.jsonl: 300 problems, no two alike; sums, or with the argument `words` word problems of one or two steps."""

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

NAMES = ("Ann", "Ben", "Carla", "Dev", "Elif", "Femi", "Greta", "Hugo", "Ines", "Jonas", "Kofi", "Lena", "Mira", "Nico")
THINGS = ("apples", "stamps", "marbles", "pencils", "books", "shells", "coins", "cards", "eggs", "buttons", "tickets")
PLACES = ("box", "bag", "basket", "drawer", "tin", "crate")


def bought(who: str, things: str, r: random.Random) -> tuple[str, int]:
    have, more = r.randint(5, 90), r.randint(3, 60)
    return f"{who} has {have} {things} and buys {more} more. How many {things} does {who} have now?", have + more


def gave(who: str, things: str, r: random.Random) -> tuple[str, int]:
    given, left = r.randint(3, 40), r.randint(2, 50)
    return f"{who} had {given + left} {things} and gave away {given}. How many {things} are left?", left


def make_packing(who: str, things: str, r: random.Random) -> tuple[str, int]:
    num, each, place = r.randint(3, 12), r.randint(4, 15), r.choice(PLACES)
    return f"{who} fills {num} {place}s with {each} {things} each. How many {things} is that in all?", num * each


def make_sharing(who: str, things: str, r: random.Random) -> tuple[str, int]:
    friends, each = r.randint(2, 9), r.randint(3, 15)
    return f"{who} shares {friends * each} {things} equally among {friends} friends. How many does each get?", each


def paid(who: str, things: str, r: random.Random) -> tuple[str, int]:
    num, price = r.randint(2, 12), r.randint(2, 15)
    return f"{who} buys {num} {things} for {price} dollars each. How many dollars does {who} pay?", num * price


def between(who: str, things: str, r: random.Random) -> tuple[str, int]:
    fewer, more, other = r.randint(5, 50), r.randint(3, 40), r.choice([name for name in NAMES if name != who])
    return f"{who} has {fewer + more} {things}, {other} has {fewer}. How many more does {who} have?", more


def bought_and_lost(who: str, things: str, r: random.Random) -> tuple[str, int]:
    have, more = r.randint(10, 60), r.randint(5, 40)
    lost = r.randint(2, have)
    asks = f"{who} has {have} {things}, finds {more} more and loses {lost}. How many {things} does {who} have now?"
    return asks, have + more - lost


def make_packing_with_rest(who: str, things: str, r: random.Random) -> tuple[str, int]:
    num, each, loose, place = r.randint(2, 9), r.randint(4, 12), r.randint(2, 20), r.choice(PLACES)
    asks = f"{who} has {num} {place}s of {each} {things} each, and {loose} loose ones. How many {things} is that?"
    return asks, num * each + loose


WORDS: tuple[Callable[[str, str, random.Random], tuple[str, int]], ...] = (
    *(bought, gave, make_packing, make_sharing, paid, between, bought_and_lost, make_packing_with_rest),
)


def make_sum(r: random.Random) -> tuple[str, int]:
    numbers, signs = [r.randint(1, 20) for _ in range(3)], [r.choice("+-*") for _ in range(2)]
    expression = f"{numbers[0]}{signs[0]}{numbers[1]}{signs[1]}{numbers[2]}"
    return f"Compute {expression}.", eval(expression)  # made of digits and signs above


def problems(kind: str, num: int, seed: int) -> dict[str, int]:
    """Question -> answer, of word problems as many of each template."""
    r, found = random.Random(seed), dict[str, int]()
    while len(found) < num:
        if kind == "words":
            question, answer = WORDS[len(found) % len(WORDS)](r.choice(NAMES), r.choice(THINGS), r)
        else:
            question, answer = make_sum(r)
        found[question] = answer
    return found


if __name__ == "__main__":
    kind = sys.argv[1] if sys.argv[1:] else "sums"
    rows = [{"question": question, "answer": answer} for question, answer in problems(kind, 300, seed=0).items()]
    Path("problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
