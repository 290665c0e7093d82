"""Checks of what a user's environment returns: each function says what is wrong, or None."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import Any

from components.environments.base import JointStep, Step
from components.environments.program import AgentBox, AgentProgram
from components.errors import ConfigurationError
from components.identity import canonical_json
from components.schema import Execution, Query
from components.text.escaping import show_value
from components.text.suggestions import suggest

_ROLE = re.compile(r"(?!\.{1,2}$)[\w.\-: ]+")
_LONGEST_ROLE = 100


def check_role_names(field: str, roles: Iterable[str]) -> None:
    """Raise ConfigurationError for a role that no metric's name can hold, as MLflow takes them."""
    for role in roles:
        if not _ROLE.fullmatch(role) or len(role) > _LONGEST_ROLE:
            raise ConfigurationError(
                f"{field}: {show_value(role)} cannot be part of a metric's name; use at most {_LONGEST_ROLE} letters, digits, "
                "spaces, '_', '-', '.' and ':', and not dots alone"
            )


def find_step_fault(step: Any) -> str | None:
    """What is wrong with the value of `step` or `after_malformed`."""
    if not isinstance(step, Step):
        return f" returned {type(step).__name__}; return a Step"
    if step.value_gain is not None and not callable(step.value_gain):
        return f": value_gain is {show_value(step.value_gain)}; give a function without arguments, or None"
    return (
        _find_truth_fault(step, optional=("done", "success"))
        or _find_number_fault("team", step.team)
        or _find_number_fault("local", step.local)
        or _find_number_fault("team_from_start", step.team_from_start)
        or _find_number_fault("payoffs", step.payoffs)
    )


def find_program_fault(program: Any, roles: Sequence[str]) -> str | None:
    """What is wrong with the value of `program`, of an environment with these roles."""
    if program is None:
        return None
    if not isinstance(program, AgentProgram):
        return f" returned {type(program).__name__}; return an AgentProgram, or None"
    if bool(program.command) == bool(program.function):
        return ": give a command or a function, one of the two"
    if program.function and not re.fullmatch(r"[\w.]+:\w+", program.function):
        return f': function is {show_value(program.function)}; write "package.module:name"'
    if isinstance(program.command, str) or not all(isinstance(part, str) for part in program.command):
        return f': command is {show_value(program.command)}; give its words, as ("python", "agent.py")'
    for name, given in (("models", program.models.values()), ("sub_agents", filter(None, [program.sub_agents]))):
        if unknown := next((role for role in given if role not in roles), None):
            return f": {name} names {show_value(unknown)}, which is no role; {suggest(str(unknown), roles)}"
    if fault := _find_words_fault(program):
        return fault
    if not _is_number(program.seconds) or program.seconds <= 0:
        return f": seconds is {show_value(program.seconds)}; give a positive number"
    return None if program.box is None else _find_box_fault(program.box)


def _find_words_fault(program: AgentProgram) -> str | None:
    for name, example in (("outputs", "answer.txt"), ("volatile", "took [0-9]+ s")):
        given = getattr(program, name)
        if isinstance(given, str) or not all(isinstance(part, str) and part for part in given):
            return f': {name} is {show_value(given)}; give texts, as ("{example}",) with its comma'
    for pattern in program.volatile:
        try:
            re.compile(pattern)
        except re.error as error:
            return f": volatile has {show_value(pattern)}, which is no regular expression ({error})"
    for name in ("files", "variables"):
        given = getattr(program, name)
        texts = [*given.keys(), *given.values()] if isinstance(given, Mapping) else [None]
        if not all(isinstance(text, str) for text in texts):
            return f": {name} is {show_value(given)}; give a dict of texts"
    return None


def _find_box_fault(box: Any) -> str | None:
    if not isinstance(box, AgentBox):
        return f": box is {show_value(box)}; give an AgentBox"
    if isinstance(box.reads, str) or not all(isinstance(path, str) and path.startswith("/") for path in box.reads):
        return f': box.reads is {show_value(box.reads)}; give whole paths, as ("/opt/my_agent",)'
    for name, least in (("memory_mib", 64), ("disk_mib", 1), ("num_processes", 2), ("num_cpus", 0.01)):
        if not least <= getattr(box, name) < 1 << 20:
            return f": box.{name} is {show_value(getattr(box, name))}; give at least {least}"
    return None


def find_joint_step_fault(step: Any) -> str | None:
    """What is wrong with the value of `step_together`."""
    if not isinstance(step, JointStep):
        return f" returned {type(step).__name__}; return a JointStep"
    if not isinstance(step.local, Mapping):
        return f': local is {show_value(step.local)}; give a dict of dicts, as {{"ann": {{"clean": 1.0}}}}'
    locals_of_agents = (_find_number_fault(f"local[{agent!r}]", values) for agent, values in step.local.items())
    return (
        _find_truth_fault(step, optional=("done",))
        or _find_number_fault("team", step.team)
        or next(filter(None, locals_of_agents), None)
        or _find_number_fault("payoffs", step.payoffs)
    )


def find_problem_fault(value: Any) -> str | None:
    """What is wrong with a problem that `draw`, `completed` or `problem` gives."""
    if not isinstance(value, Mapping):
        return f" returned {show_value(value)}; return a dict, or None for no problem"
    return find_json_fault(dict(value), is_read_again=True)


def find_json_fault(value: Any, *, is_read_again: bool = False) -> str | None:
    """What is wrong with a value that is written as JSON, and perhaps read again."""
    try:
        again = json.loads(canonical_json(value))
    except (TypeError, ValueError, RecursionError) as error:
        return f" returned a value that is no JSON ({error}); use numbers, text, lists and dicts"
    if is_read_again and again != value:
        shown, read = show_value(value), show_value(again)
        return f" returned {shown}, which comes back from JSON as {read}; use lists, and texts as keys"
    return None


def find_text_fault(value: Any) -> str | None:
    """What is wrong with a text. It may hold half a character, which an agent may have written."""
    return None if isinstance(value, str) else f" returned {type(value).__name__}, not text"


def find_choices_fault(value: Any, agent: str) -> str | None:
    """What is wrong with the choices of an agent."""
    is_listed = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
    are_texts = is_listed and all(isinstance(each, str) and each for each in value)
    if are_texts and len({*value}) == len(value):
        return None
    return f" returned {show_value(value)} for {agent!r}; return different texts that are not empty, or None"


def find_calls_fault(calls: list[Any]) -> str | None:
    """What is wrong with the calls of an answer."""
    wrong = [call for call in calls if not isinstance(call, Execution | Query)]
    return f" gave {show_value(wrong[0])}; give Execution(...) and Query(...)" if wrong else None


def _find_truth_fault(step: Step | JointStep, *, optional: tuple[str, ...]) -> str | None:
    for name in ("solved", *optional):
        value = getattr(step, name)
        if not (_is_truth(value) or (value is None and name in optional)):
            return f": {name} is {show_value(value)}; use True or False, as in {name}=bool(...)"
    return None


def _is_truth(value: Any) -> bool:
    """Whether a value is true or false; numpy has a type of its own."""
    return (
        isinstance(value, bool) or type(value).__name__ in ("bool", "bool_") or (_is_number(value) and value in (0, 1))
    )


def _find_number_fault(name: str, values: Any) -> str | None:
    if not isinstance(values, Mapping):
        return f': {name} is {show_value(values)}; give a dict of numbers, as {{"progress": 0.5}}'
    for component, value in values.items():
        if not isinstance(component, str):
            return f": {name} has the name {show_value(component)}; use text"
        if not _is_number(value):
            return f": {name}[{component!r}] is {show_value(value)}, not a finite number"
    return None


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, Real) and isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False
