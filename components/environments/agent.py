"""agent: problems of one's own that a program of one's own plays, as a configuration alone names them."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from math import isfinite
from pathlib import Path
from random import Random
from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from components.environments.base import NO_TOOLS, Split, Step, Tools
from components.environments.environment import ToolEnvironment
from components.environments.program import AgentBox, AgentProgram, ProgramEnvironment
from components.environments.shared.custom_rows import CustomRow, make_row_reader
from components.environments.shared.dataset_rows import DatasetSource
from components.environments.shared.splits import divide_rows, shuffle_index, train_without_test
from components.errors import ConfigurationError
from components.frozen import Settings
from components.identity import canonical_json
from components.schema import Execution, ExecutionResult, ProgramEnd
from components.text.escaping import show_value
from components.text.suggestions import suggest
from components.user_code import load_function, own_source, user_code_error

Word = Annotated[str, StringConstraints(min_length=1)]
MAX_FILE_BYTES = 256 << 10
"""Of each file that is put beside a program: it is part of every problem."""
_FIELD = "environment.options"


class BoxOptions(Settings):
    """What a program may use in a box."""

    reads: tuple[Word, ...] = ()
    """Further files and folders that it sees, by their whole paths, as [/opt/my_agent]."""
    memory_mib: int = Field(2048, ge=64)
    """With the files that it writes."""
    disk_mib: int = Field(1024, ge=1)
    num_processes: int = Field(256, ge=2)
    num_cpus: float = Field(1.0, ge=0.01)


class AgentOptions(Settings):
    """A program, the problems that it is given, and who judges what it makes of them."""

    problems: DatasetSource
    """A JSONL file with an object on each line, one in five for tests unless test_problems names others. Its key `files`, if it
    has one, names files for the program's folder with their contents."""
    test_problems: DatasetSource | None = None
    """The held-out problems."""
    hidden: tuple[Word, ...] = ("answer",)
    """Keys of a problem that only its judge sees. A policy that sees the answer learns to copy it."""
    roles: tuple[Word, ...] = Field(("agent",), min_length=1)
    """The names of the models that the program asks for."""
    models: Mapping[Word, Word] = Field(default_factory=dict)
    """The roles of further names of models, for a program that asks for a fixed one, as {claude-opus-4-8: agent}."""
    sub_agents: str = ""
    """The role of what its sub-agents ask, where a header of its client tells them apart, as in Claude Code and codex."""
    command: tuple[Word, ...] = ()
    """The words of a command, as [python, agent.py]."""
    function: str = ""
    """Instead of a command: package.module:name, called with the problem in a process that is kept."""
    files: tuple[Word, ...] = ()
    """Text files below the current folder, put at the same places in the program's folder."""
    variables: Mapping[Word, str] = Field(default_factory=dict)
    """Environment variables of the program."""
    outputs: tuple[Word, ...] = ()
    """The files that it is asked to leave, each of at most 64 KiB; a larger one is as if it were not there."""
    volatile: tuple[Word, ...] = ()
    """Regular expressions for what is another when the program is run again, as `Wall time: [0-9.]+ seconds` in results of its
    tools. A request that differs in that alone gets the recorded answer after a kill."""
    seconds: float = Field(300.0, gt=0)
    """How long it may take."""
    box: BoxOptions | None = None
    """If it is given, the program runs in a box, whatever sandbox.agents says."""
    judge: str = ""
    """package.module:name, called with the whole problem and the ProgramEnd; it gives a score, 1 for solved, or true or false.
    It runs as you."""
    check: str = ""
    """Instead of a judge: a Python file for the sandbox. It reads JSON with `problem`, `exit_code`, `output` and `files` from
    standard input, and prints the score in its last line."""

    @model_validator(mode="after")
    def _names_one_of_each(self) -> Self:
        if bool(self.command) == bool(self.function):
            raise ValueError("command, function: name one of the two")
        if bool(self.judge) == bool(self.check):
            raise ValueError("judge, check: name one of the two; it scores how a program ended")
        for pattern in self.volatile:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(
                    f"volatile: {show_value(pattern)} is no regular expression ({error}); mend it"
                ) from error
        return self


class _Problem(CustomRow):
    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)

    files: dict[str, str] = Field(default_factory=dict)


_read_rows = make_row_reader(_Problem)


class AgentEnvironment(ProgramEnvironment, ToolEnvironment):
    """Problems from a file, each played by a program; worth the score of a judge."""

    roles = ("agent",)
    Options = AgentOptions
    weights: Mapping[str, float] = {"team.solved": 0.0, "team.score": 1.0, "team.check_failed": 0.0}  # type: ignore[misc]
    remedy = "name more problems"
    states_are_immutable = True

    def roles_for(self, options: AgentOptions) -> tuple[str, ...]:
        return options.roles

    def uses_sandbox(self, options: AgentOptions) -> bool:
        return bool(options.check)

    def problem(self, options: AgentOptions, *, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        """A row of the split's file with all that plays and judges it, each row once per epoch."""
        if "hidden" in options.model_fields_set:
            _check_hidden(options.hidden, options.problems, options.test_problems)
        rows = _list_problems(options.problems, options.test_problems, split)
        row = rows[shuffle_index(index, num_rows=len(rows), seed=seed, split=split)]
        if options.judge:
            _load_judge(options.judge)
        return {
            "problem": {name: value for name, value in row.items() if name != "files"},
            "hidden": list(options.hidden),
            "program": {
                "command": list(options.command),
                "function": options.function,
                "files": {**{name: _read_file("files", name) for name in options.files}, **row["files"]},
                "variables": dict(options.variables),
                "models": dict(options.models),
                "sub_agents": options.sub_agents,
                "outputs": list(options.outputs),
                "volatile": list(options.volatile),
                "seconds": options.seconds,
                "box": None if options.box is None else options.box.model_dump(mode="json"),
            },
            "judge": options.judge,
            "check": _read_file("check", options.check) if options.check else "",
        }

    def draw(self, options: AgentOptions, rng: Random) -> None:
        """None: problems are read."""

    def program(self, problem: Mapping[str, Any]) -> AgentProgram:
        shown = {name: value for name, value in problem["problem"].items() if name not in problem["hidden"]}
        program, box = problem["program"], problem["program"]["box"]
        lists = {name: tuple(program[name]) for name in ("command", "outputs", "volatile")}
        boxed = None if box is None else AgentBox(**{**box, "reads": tuple(box["reads"])})
        return AgentProgram(**{**program, **lists, "box": boxed}, shown=shown)

    def step(self, state: Any, agent: str, answer: str, tools: Tools = NO_TOOLS) -> Step:
        return Step(state=state, team={"score": 0.0, "check_failed": 0.0})

    def finish(self, state: Any, end: ProgramEnd, tools: Tools = NO_TOOLS) -> Step:
        if state["check"]:
            score, is_failed = _read_score(tools.run(_make_check(state, end)))
        else:
            score, is_failed = _ask_judge(state["judge"], state["problem"], end), False
        return Step(state=state, solved=score >= 1.0, team={"score": score, "check_failed": float(is_failed)})


def list_own_code(options: AgentOptions) -> dict[str, str]:
    """Field -> the code that it names."""
    named = {"function": options.function, "judge": options.judge}
    return {f"{_FIELD}.{name}": value for name, value in named.items() if value}


def digest_own_code(options: AgentOptions) -> str:
    """The digest of the code and files that `options` name. Raises ConfigurationError for what cannot be read."""
    own: dict[str, Any] = {
        field.removeprefix(f"{_FIELD}."): own_source(field, name) for field, name in list_own_code(options).items()
    }
    own["files"] = {name: _read_file("files", name) for name in options.files}
    own["check"] = _read_file("check", options.check) if options.check else ""
    return hashlib.sha256(canonical_json(own)).hexdigest()[:16]


def _make_check(state: Mapping[str, Any], end: ProgramEnd) -> Execution:
    told = {"problem": state["problem"], "exit_code": end.exit_code, "output": end.output, "files": dict(end.files)}
    return Execution(program=state["check"], stdin=json.dumps(told))


def _read_score(result: ExecutionResult) -> tuple[float, bool]:
    """The number in the last line that a check printed, and whether there was none."""
    lines = result.stdout.split()
    try:
        score = float(lines[-1]) if result.exit_code == 0 and lines else float("nan")
    except ValueError:
        score = float("nan")
    return (score, False) if isfinite(score) else (0.0, True)


def _ask_judge(name: str, problem: Mapping[str, Any], end: ProgramEnd) -> float:
    try:
        score = _load_judge(name)(dict(problem), end)
    except Exception as error:  # the border to user code, which may raise anything
        raise user_code_error(f"{_FIELD}.judge {name!r}", error) from error
    if not isinstance(score, bool | int | float) or not isfinite(score):
        raise ConfigurationError(
            f"{_FIELD}.judge {name!r}: gave {show_value(score)}; return a finite number, or true or false"
        )
    return float(score)


@cache
def _load_judge(name: str) -> Any:
    return load_function(f"{_FIELD}.judge", name, takes=("problem", "end"))


@lru_cache(maxsize=8)
def _list_problems(both: DatasetSource, test: DatasetSource | None, split: Split) -> Sequence[Mapping[str, Any]]:
    """The rows of a split, each once, none of the other split. Raises ConfigurationError if none is left."""
    source = both if split == "train" or test is None else test
    field = f"{_FIELD}.{'problems' if source == both else 'test_problems'}"
    rows = _read_rows(source, field)
    contents = list(_spell(rows))
    if test is None:
        kept = divide_rows(contents)[split]
    else:
        held_out = list(_spell(_list_problems(both, test, "test"))) if split == "train" else []
        kept = train_without_test(contents, held_out)
    if not kept:
        raise ConfigurationError(
            f"{field}.path {source.path!r}: no problem is left for the {split} split of {len(rows)}; add some"
        )
    return [rows[number] for number in kept]


@lru_cache(maxsize=8)
def _check_hidden(hidden: tuple[str, ...], both: DatasetSource, test: DatasetSource | None) -> None:
    """Raise ConfigurationError for a key that no problem has: what was to be hidden would be shown under its own name."""
    known = {name for split in ("train", "test") for row in _list_problems(both, test, split) for name in row}
    for name in hidden:
        if name not in known:
            raise ConfigurationError(
                f"{_FIELD}.hidden {name!r}: no problem has this key; {suggest(name, sorted(known))}"
            )


def _spell(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    return (canonical_json(row).decode() for row in rows)


def _read_file(field: str, name: str) -> str:
    """The text of a file below the current folder. Raises ConfigurationError."""
    path, folder = Path.cwd() / name, Path.cwd().resolve()
    if not path.resolve().is_relative_to(folder):
        raise ConfigurationError(f"{_FIELD}.{field} {name!r}: is outside of {folder}; name a file below it")
    try:
        content = path.read_bytes()
        if len(content) > MAX_FILE_BYTES:
            raise ConfigurationError(
                f"{_FIELD}.{field} {name!r}: {len(content)} bytes; at most {MAX_FILE_BYTES} are put beside a program; "
                "install larger ones as a package, or name them in the command by an absolute path"
            )
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{_FIELD}.{field} {name!r}: not UTF-8 text") from error
    except OSError as error:
        raise ConfigurationError(
            f"{_FIELD}.{field} {name!r}: {error.strerror}; it is looked for in {folder}"
        ) from error
