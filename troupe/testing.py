"""The contract of an environment, as one check for its tests."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from functools import cache
from random import Random
from typing import Any

from components.config import ExecutionConfig, SandboxConfig
from components.environments.base import NO_TOOLS, AnswerFormat, Tools
from components.environments.contract import (
    WatchedTools,
    answers_to_try,
    check_expert,
    check_play,
    check_variety,
    draw_problems,
)
from components.environments.environment import Environment
from components.environments.family import Family
from components.environments.registry import validate_options
from components.environments.turn_orders import check_team
from components.errors import ConfigurationError
from components.schema import Limits
from components.session.toolbox import new_sandbox
from components.tool_calls.ledger import ExecutionLedger, ToolSources

_ANSWER_CPU_SECONDS = 1.0
_NUM_SEARCHED = 3
"""The number of problems on which every character is tried at the greatest length; the others get a sample."""


def check_environment(
    environment: type[Environment],
    options: Mapping[str, Any] | None = None,
    *,
    num_problems: int = 25,
    max_turns: int = 4,
    answer_format: AnswerFormat = "strict",
    tools: Tools | None = None,
) -> None:
    """Check that `environment` with `options` satisfies what training relies on; raise AssertionError with the violation.

    Problems are plain JSON and determined by their seed; train and test share none. Observations and the effect of an answer
    depend on the state alone. Every answer up to `max_answer_characters` is accepted or refused as malformed, and nothing else
    is raised; a refused answer changes nothing, unless `after_malformed` says so; no call changes the state that it gets.
    `choices` are the same when asked again, and each is accepted. The answers of an expert, if there is one, are well-formed,
    written in `alphabet`, and solve every problem within `max_turns`. With `answer_format` "free" all is read as under
    that setting of `environment`, and `final_answer` keeps the expert's answers as they are. A `ToolEnvironment` plays with
    `tools`, by default its own retriever and a sandbox, opened for the check as in training, and makes every call that
    `tool_calls` tells. Raises ServiceMissing, with the install command, where no sandbox works.

    **Example**

    >>> check_environment(Mine, {"size": 5})  # doctest: +SKIP
    """
    try:
        check_team(environment.__qualname__, environment)
        family = Family(environment.__qualname__, environment(), answer_format)
        settings = validate_options(family.options_type, options or {})
        family = family.under(settings)
        problems = draw_problems(family, settings, num_problems)
        check_variety(problems)
        with _open_tools(family, settings) if tools is None else nullcontext(tools) as playing:
            for number, problem in enumerate((*problems["train"], *problems["test"])):
                every_character = number < _NUM_SEARCHED
                tried = list(answers_to_try(family, settings, Random(number), every_character=every_character))
                referee = family.referee(WatchedTools(playing, most_cpu_seconds=_ANSWER_CPU_SECONDS))
                order = family.turn_order
                check_play(family, referee, problem, tried, Random(number), turn_order=order, max_turns=max_turns)
                if family.has_expert:
                    check_expert(family, referee, settings, problem, max_turns)
    except ConfigurationError as error:
        raise AssertionError(str(error)) from error


@contextmanager
def _open_tools(family: Family, settings: Any) -> Iterator[Tools]:
    """The tools that training opens for the environment, until the end of the block."""
    retriever, limits = family.retriever(settings), Limits(**ExecutionConfig().model_dump())
    with ExitStack() as opened:
        sandbox = cache(lambda: opened.enter_context(closing(new_sandbox(SandboxConfig(), limits))))
        if family.uses_sandbox(settings):
            sandbox()  # before any answer is tried
        elif retriever is None:
            yield NO_TOOLS
            return
        yield ExecutionLedger(ToolSources(sandbox=sandbox, retriever=lambda: retriever, limits=limits))
