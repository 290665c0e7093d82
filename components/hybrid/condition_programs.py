"""Conditions in Python: any expression over the facts of one state, which only ever runs in a sandbox.

    map_number in (3, 4) and abs(x - 8) + abs(y - 4) <= 2

Those of `conditions.py` are compared in place; these say more. Here they are read, and told what is wrong with them; whoever
collects experience is given a `ProgramRunner` that runs them.
"""

import ast
import builtins
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from components.hybrid.conditions import MOST_CHARACTERS
from components.hybrid.errors import ConditionRefused
from components.hybrid.game_facts import Booleans, Facts

BUILTINS = (
    *("abs", "all", "any", "bool", "divmod", "float", "int", "len", "list", "max"),
    *("min", "range", "round", "set", "sorted", "sum", "tuple", "zip"),
)
"""What a condition may call: functions whose value depends on their arguments alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A name for people, and the text of an expression that is true where the subgoal is met. It pays once an episode."""

    name: str
    text: str

    @property
    def names(self) -> set[str]:
        """The facts and functions that it uses."""
        return free_names(ast.parse(self.text, mode="eval"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramsHeld:
    """Whether each program was true of each state (R, G), and how each one failed, "" where it did not.

    A program is not true where it failed, whatever the reason: a wrong teacher must not stop learning.
    """

    held_R_G: Booleans
    failures_G: tuple[str, ...]


ProgramRunner = Callable[[Sequence[Program], Facts], ProgramsHeld]
"""Runs programs on R states. Raises SandboxUnavailable where the sandbox itself fails."""


def read_program(name: str, text: str, facts: Collection[str]) -> Program:
    """The program that `text` is, over these names of facts.

    Raises ConditionRefused for what is no expression, is too long, or uses a name that is neither a fact nor among `BUILTINS`.

    **Example** `open("/etc/passwd")`: "`open` may not be called: use abs, all, any, …".
    """
    if len(text) > MOST_CHARACTERS:
        raise ConditionRefused(f"a condition of {len(text)} characters: use at most {MOST_CHARACTERS}")
    try:
        with warnings.catch_warnings(action="error"):
            tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, Warning, MemoryError, RecursionError) as error:
        raise ConditionRefused(f"{text!r} is not an expression ({error}): write one like `abs(x - 8) <= 2`") from None
    for used in sorted(free_names(tree) - set(facts) - set(BUILTINS)):
        if hasattr(builtins, used):
            raise ConditionRefused(f"`{used}` may not be called: use {', '.join(BUILTINS)}")
        near = get_close_matches(used, [*facts, *BUILTINS], n=1)
        known = f"did you mean `{near[0]}`?" if near else f"facts are {', '.join(sorted(facts))}"
        raise ConditionRefused(f"`{used}` is neither a fact nor a function that may be called: {known}")
    return Program(name=name, text=text.strip())


def free_names(tree: ast.AST) -> set[str]:
    """The names that an expression uses and does not bind itself.

    **Example** `any(x == n for n in (1, 2))`: any, x.
    """
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {node.id for node in names} - bound
