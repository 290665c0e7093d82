"""Evaluation of constant Python expressions."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_LARGEST = 1_000_000
"""Limit of operands, so that no expression takes long."""


def constant(node: ast.expr) -> Any:
    """The value of literals, sums and products of literals, and `tuple(...)` or `list(...)` of one.

    Raises ValueError for anything else.

    **Example** `[3 * 19, "ab" + "c"]` is [57, "abc"]; `f(1)` is refused.
    """
    match node:
        case ast.List(elts=parts):
            return [constant(part) for part in parts]
        case ast.Tuple(elts=parts):
            return tuple(constant(part) for part in parts)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {constant(key): constant(value) for key, value in zip(keys, values, strict=True) if key is not None}
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _compute(type(op), constant(left), constant(right))
        case ast.Call(func=ast.Name(id="tuple" | "list"), args=[part], keywords=[]):
            return constant(part)
        case _:
            return ast.literal_eval(node)


def _compute(op: type[ast.operator], left: Any, right: Any) -> Any:
    numbers = all(isinstance(value, int | float) and abs(value) <= _LARGEST for value in (left, right))
    if not numbers and not (op is ast.Add and isinstance(left, str) and isinstance(right, str)):
        raise ValueError("neither small numbers nor strings to concatenate")
    if op is ast.Pow and abs(right) > 64:
        raise ValueError("too large an exponent")
    try:
        return _OPERATORS[op](left, right)
    except ArithmeticError as error:
        raise ValueError(str(error)) from error
