"""What a teacher asks for on the way: subgoals with conditions, whose pay is too small to be a goal of its own.

A language model writes them, an RL policy plays alone. Where the game's own reward is sparse they decide whether it is ever
found; where they are wrong they must not stop learning. On the twin after 65,536 steps, two seeds, the share of episodes with
the badge: paid by the badge alone 0 and 0, with twelve good subgoals .93 and .91; paid by all records .68 and .80, with six
wrong subgoals under the cap .82 and .82, with the same six at 10 each 0 and 0.
"""

import ast
import operator
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from components.errors import ConfigurationError
from components.hybrid.errors import ConditionRefused
from components.hybrid.game_facts import Booleans, Facts
from components.hybrid.rewards import RewardWeights

MOST_CHARACTERS = 200
LARGEST_CONSTANT = 1 << 24
"""The largest fact is smaller."""
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True, slots=True)
class _Comparison:
    left: str | int
    compare: Callable[[Any, Any], Any]
    right: str | int


@dataclass(frozen=True, slots=True)
class _Joined:
    join: Callable[[Any, Any], Any]
    parts: tuple["_Joined | _Comparison", ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was read from `text` by `read_condition`: comparisons of facts with whole numbers, joined by and / or.

        party_count > 0 and map_number == 4 and (x >= 8 or 2 <= y < 5)

    There is nothing else in the language, so that a condition can be run anywhere: no calls, attributes, indices, arithmetic,
    texts or fractions. Python's parser reads it, but Python never runs it. It serves one game and a thousand alike.
    """

    text: str
    _tree: _Joined | _Comparison

    def holds(self, facts: Facts) -> Booleans:
        """Whether it is true in each game (N,).

        **Example** `x >= 8 or y == 2` at x (4, 9, 4), y (2, 0, 0): (True, True, False).
        """
        return np.asarray(_value(self._tree, facts), np.bool_)


def read_condition(text: str, names: Collection[str]) -> Condition:
    """The condition that `text` says, over these names of facts.

    Raises ConditionRefused for anything outside the language, with the part that is refused and what to write instead.

    **Example** `len(x) > 1`: "`len(x)` (Call) is not in the language: compare facts and whole numbers up to 16777216".
    """
    if len(text) > MOST_CHARACTERS:
        raise ConditionRefused(f"a condition of {len(text)} characters: use at most {MOST_CHARACTERS}")
    try:
        with warnings.catch_warnings(action="error"):  # such as for `1and x`, which a later Python will not read
            body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, Warning, MemoryError, RecursionError) as error:
        raise ConditionRefused(f"{text!r} is not a condition ({error}): write one like `x >= 8 and y == 4`") from None
    return Condition(text=text.strip(), _tree=_read(body, names))


def _read(node: ast.expr, names: Collection[str]) -> _Joined | _Comparison:
    if isinstance(node, ast.BoolOp):
        join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
        return _Joined(join=join, parts=tuple(_read(part, names) for part in node.values))
    if isinstance(node, ast.Compare):
        if any(type(op) not in _COMPARISONS for op in node.ops):
            raise _refusal(node, "compare by ==, !=, <, <=, > or >=")
        operands = [_read_operand(part, names) for part in (node.left, *node.comparators)]
        pairs = zip(operands, node.ops, operands[1:], strict=False)
        parts = tuple(_read_comparison(node, left, op, right) for left, op, right in pairs)
        return parts[0] if len(parts) == 1 else _Joined(join=np.logical_and, parts=parts)
    remedy = f"write `{node.id} > 0`" if isinstance(node, ast.Name) else "write comparisons, joined by `and` and `or`"
    raise _refusal(node, remedy)


def _read_comparison(node: ast.Compare, left: str | int, op: ast.cmpop, right: str | int) -> _Comparison:
    if isinstance(left, int) and isinstance(right, int):
        raise _refusal(node, "compare a fact: two numbers are always the same")
    return _Comparison(left=left, compare=_COMPARISONS[type(op)], right=right)


def _read_operand(node: ast.expr, names: Collection[str]) -> str | int:
    if isinstance(node, ast.Name):
        if node.id in names:
            return node.id
        near = get_close_matches(node.id, names, n=1)
        known = f"did you mean `{near[0]}`?" if near else f"use one of {', '.join(sorted(names))}"
        raise ConditionRefused(f"`{node.id}` is not a fact: {known}")
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    constant = node.operand if isinstance(node, ast.UnaryOp) and sign < 0 else node
    if isinstance(constant, ast.Constant) and type(constant.value) is int and constant.value <= LARGEST_CONSTANT:
        return sign * constant.value
    raise _refusal(node, f"compare facts and whole numbers up to {LARGEST_CONSTANT}")


def _refusal(node: ast.expr, remedy: str) -> ConditionRefused:
    return ConditionRefused(f"`{ast.unparse(node)}` ({type(node).__name__}) is not in the language: {remedy}")


def _value(tree: _Joined | _Comparison, facts: Facts) -> Any:
    if isinstance(tree, _Comparison):
        left, right = (facts[side] if isinstance(side, str) else side for side in (tree.left, tree.right))
        return tree.compare(left, right)
    value = _value(tree.parts[0], facts)
    for part in tree.parts[1:]:
        value = tree.join(value, _value(part, facts))
    return value


MOST_SUBGOALS = 12
LARGEST_SHARE = 0.25
"""The most that all subgoals of an episode pay together, as a share of the smallest true goal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgoal:
    """A name for people, and the condition under which it is met. It pays once an episode."""

    name: str
    condition: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """The subgoals of a teacher's text, and why other lines of it were refused."""

    subgoals: tuple[Subgoal, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One `name: condition` a line, from which an equal lesson is read."""
        return "\n".join(f"{each.name}: {each.condition.text}" for each in self.subgoals)


def read_lesson(text: str, names: Collection[str]) -> Lesson:
    """The lesson of a text with one `name: condition` a line; empty lines are skipped.

    Refused are lines without a colon, conditions outside the language, repeated names, and what exceeds `MOST_SUBGOALS`. A
    refusal says the line and the remedy, so that it can be shown to the teacher.

    **Example** `starter: party_count > 0` and `win: fight()` give one subgoal and one refusal.
    """
    subgoals: dict[str, Subgoal] = {}
    refusals = []
    for number, line in enumerate(text.splitlines(), 1):
        name, colon, condition = (part.strip() for part in line.partition(":"))
        if not line.strip():
            continue
        try:
            if not (name and colon):
                raise ConditionRefused("write `name: condition`")
            if name in subgoals:
                raise ConditionRefused(f"{name!r} is there already: choose another name")
            if len(subgoals) == MOST_SUBGOALS:
                raise ConditionRefused(f"there are {MOST_SUBGOALS} subgoals already: leave out others")
            subgoals[name] = Subgoal(name=name, condition=read_condition(condition, names))
        except ConditionRefused as error:
            refusals.append(f"line {number}: {error}")
    return Lesson(subgoals=tuple(subgoals.values()), refusals=tuple(refusals))


def subgoals_met(subgoals: Sequence[Subgoal], facts: Facts, met_N_G: Booleans) -> Booleans:
    """Which subgoals the episodes have met up to now (N, G): those of before, and those whose condition holds.

    **Example** `x >= 8` was met at x 9: it is still met at x 3.
    """
    holding = [subgoal.condition.holds(facts) for subgoal in subgoals]
    return met_N_G | np.stack(holding, axis=-1) if holding else met_N_G


def cap_pay(num_subgoals: int, *, wanted: float, smallest_goal: float) -> float:
    """The pay of one subgoal, in units of reward: `wanted`, or less where all together would pay more than the cap.

    The cap is `LARGEST_SHARE` of the smallest true goal. So an episode that reaches a goal earns more than any that meets
    subgoals alone, however wrong they are. Raises ConfigurationError for a pay or a goal that is not positive.

    **Example** 12 subgoals beside a starter of 25: wanted 10 gives 25 * .25 / 12 = .52; 3 subgoals, wanted 1: 1.
    """
    if wanted <= 0 or smallest_goal <= 0:
        raise ConfigurationError(f"pay {wanted} beside a goal of {smallest_goal}: give positive numbers")
    return min(wanted, LARGEST_SHARE * smallest_goal / max(1, num_subgoals))


def weights_with_lesson(weights: RewardWeights, lesson: Lesson, *, wanted: float = 10.0) -> RewardWeights:
    """The weights with a pay of all subgoals that cannot outweigh the smallest true goal: the party, or else the badge.

    **Example** 12 subgoals beside a party of 25: 25 * .25 / 12 = .52 each; where only a badge of 100 pays: 2.08 each.
    """
    smallest = min(weight for weight in (weights.party, weights.badges) if weight > 0)
    return replace(weights, subgoals=cap_pay(len(lesson.subgoals), wanted=wanted, smallest_goal=smallest))
