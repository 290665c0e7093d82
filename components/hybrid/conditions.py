"""The language in which a teacher says when a subgoal is met: comparisons of facts with whole numbers, joined by and / or.

    party_count > 0 and map_number == 4 and (x >= 8 or 2 <= y < 5)

There is nothing else in it, so that a condition can be run anywhere: no calls, attributes, indices, arithmetic, texts or
fractions. Python's parser reads it, but Python never runs it. One condition serves one game and a thousand alike.
"""

import ast
import operator
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from components.hybrid.errors import ConditionRefused
from components.hybrid.game_facts import Booleans, Facts

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
    """A condition that was read from `text` by `read_condition`."""

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
