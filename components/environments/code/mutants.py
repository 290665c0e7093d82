"""Mutants of a program: one operator, comparison, constant, condition or name changed."""

import ast
from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from random import Random

from components.identity import seed_for

_OPPOSITES = ((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn))
_COMPARISONS = dict(_OPPOSITES) | {other: one for one, other in _OPPOSITES}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
_NAMES = {"min": "max", "max": "min", "all": "any", "any": "all"}


@lru_cache(maxsize=2048)
def mutants(program: str, *, max_mutants: int) -> tuple[str, ...]:
    """Up to `max_mutants` different programs, each `program` with one change; the same ones on every call.

    Some may behave like `program`; only running them shows it. The conditions of `while` loops are left alone, so that hardly
    any mutant runs for ever. A program that cannot be parsed has none.
    """
    try:
        tree = ast.parse(program)
        original = ast.unparse(tree)
        changes = list(_changes(tree))
        Random(seed_for(0, "mutants", original)).shuffle(changes)
        made: dict[str, None] = {}
        for node, name, value in changes:
            if len(made) == max_mutants:
                break
            before = getattr(node, name)
            setattr(node, name, value)
            mutant = ast.unparse(tree)
            setattr(node, name, before)
            if mutant != original:
                made[f"{mutant}\n"] = None
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return ()
    return tuple(made)


def _changes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, object]]:
    """All possible changes: a node, one of its attributes, and another value for it."""
    for node in _reachable(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
            yield node, "ops", [_COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OPERATORS:
            yield node, "op", _OPERATORS[type(node.op)]()
        elif isinstance(node, ast.BoolOp):
            yield node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            yield node, "value", node.value + 1
        elif isinstance(node, ast.Name) and node.id in _NAMES:
            yield node, "id", _NAMES[node.id]
        elif isinstance(node, ast.If | ast.IfExp):
            yield node, "test", ast.UnaryOp(op=ast.Not(), operand=deepcopy(node.test))


def _reachable(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and its descendants, except the tests of `while` loops and the statements in them that set a name of the test."""
    yield node
    if isinstance(node, ast.While):
        deciding = {part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)}
        for statement in node.body:
            if not any(isinstance(p, ast.Name) and p.id in deciding and _is_set(p) for p in ast.walk(statement)):
                yield from _reachable(statement)
        return
    for child in ast.iter_child_nodes(node):
        yield from _reachable(child)


def _is_set(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store | ast.Del)
