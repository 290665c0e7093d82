"""A puzzle: one function that is task, reference program and oracle."""

import ast
import inspect
import string
import textwrap
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Literal

InputKind = Literal["integer", "integers", "text", "words"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """The distribution and kind of one argument or parameter."""

    kind: InputKind
    draw: Callable[[Random], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Puzzle:
    """A function with its draws. `inputs` are in the order of its arguments; `parameters` are its keyword-only ones."""

    name: str
    level: int
    function: Callable[..., Any]
    inputs: Mapping[str, Draw]
    parameters: Mapping[str, Draw]
    task: str
    """The value to compute, with the parameters' names in braces."""
    gives_list: bool


PUZZLES: dict[str, Puzzle] = {}
"""By name, in the order of their levels' files."""


def puzzle(
    level: int, inputs: Mapping[str, Draw], **parameters: Draw
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as a puzzle of `level`.

    **Example** `@puzzle(0, {"n": integer(0, 99)}, k=integer(2, 9))` over `def times(n, *, k)` with the task "{k} times n"
    and the body `return k * n` makes problems such as "Write f(n) that returns 7 times n."
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        task = inspect.getdoc(function)
        returned: Any = inspect.signature(function).return_annotation
        assert task is not None, f"{function.__name__} needs its task as a docstring"
        assert function.__name__ not in PUZZLES, f"two puzzles are called {function.__name__}"
        PUZZLES[function.__name__] = Puzzle(
            name=function.__name__,
            level=level,
            function=function,
            inputs=inputs,
            parameters=parameters,
            task=" ".join(task.split()),
            gives_list=typing.get_origin(returned) is list,
        )
        return function

    return register


def integer(low: int, high: int) -> Draw:
    """An integer from `low` to `high`."""
    return Draw(kind="integer", draw=lambda rng: rng.randint(low, high))


def integers(min_length: int, max_length: int, low: int, high: int) -> Draw:
    """A list of integers."""
    return Draw(
        kind="integers", draw=lambda rng: [rng.randint(low, high) for _ in range(rng.randint(min_length, max_length))]
    )


def text(min_length: int, max_length: int, characters: str = string.ascii_lowercase) -> Draw:
    """Characters without spaces."""
    return Draw(kind="text", draw=lambda rng: "".join(rng.choices(characters, k=rng.randint(min_length, max_length))))


def words(min_length: int, max_length: int, of: Draw | None = None) -> Draw:
    """A list of words, each drawn from `of`."""
    word = of or text(1, 6)
    return Draw(kind="words", draw=lambda rng: [word.draw(rng) for _ in range(rng.randint(min_length, max_length))])


def numbered(characters: str, low: int, high: int) -> Draw:
    """One of `characters` followed by an integer."""
    return Draw(kind="text", draw=lambda rng: f"{rng.choice(characters)}{rng.randint(low, high)}")


def source_of(one: Puzzle, parameters: Mapping[str, Any]) -> ast.FunctionDef:
    """The function as a syntax tree, with `parameters` as constants."""
    function = ast.parse(_source(one.name)).body[0]
    assert isinstance(function, ast.FunctionDef)
    _Constants(parameters).visit(function)
    return ast.fix_missing_locations(function)


@cache
def _source(name: str) -> str:
    """The function renamed `f`, with only its inputs as arguments and without its docstring."""
    one = PUZZLES[name]
    function = ast.parse(textwrap.dedent(inspect.getsource(one.function))).body[0]
    assert isinstance(function, ast.FunctionDef)
    function.name = "f"
    function.decorator_list = []
    function.returns = None
    function.args = ast.arguments(
        posonlyargs=[], args=[ast.arg(arg=name) for name in one.inputs], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    function.body = function.body[1:]
    return ast.unparse(ast.fix_missing_locations(function))


class _Constants(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(value=self._values[node.id]) if node.id in self._values else node
