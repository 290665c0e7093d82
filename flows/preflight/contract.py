"""A user's environment, tried for seconds before a run trusts it."""

import inspect
import re
import sys
import traceback
from collections.abc import Sequence
from itertools import islice
from random import Random
from threading import Thread
from time import monotonic

from components.environments.base import NO_TOOLS, Tools
from components.environments.contract import WatchedTools, answers_to_try, check_play, draw_problems
from components.environments.environment import Environment, ToolEnvironment, has_single_step
from components.errors import ConfigurationError, TroupeError
from components.session.scenario import Scenario
from components.session.toolbox import Toolbox
from components.user_code import own_line, source_location

_NUM_DRAWN = 8
"""Problems of each split that are drawn twice."""
_NUM_PLAYED = 4
_MOST_TURNS = 4
_NUM_PROGRAMS = 6
"""Answers tried in each position of an environment with tools, each of which may cost a program."""
_MOST_ANSWERS = 40
_FAST_SECONDS = 0.5
"""Where the first draws take longer, there are no more."""
ENOUGH_SECONDS = 5.0
"""About how long answers are tried."""
LIMIT_SECONDS = 60.0
"""After this long the environment is refused: training would wait for it again and again."""
_METHOD = re.compile(r"([a-z_]+)\(\)")
_PLACE = re.compile(r"\.py:\d+")


def check_contract(scenario: Scenario, toolbox: Toolbox | None = None) -> None:
    """Check that a user's environment draws, shows and steps as training relies on; built-in ones pass as they are.

    One with tools is checked where its `toolbox` is given, any other where it is not. Raises ConfigurationError with the file
    and the line of the method. `troupe.testing.check_environment` checks more, for longer.
    """
    family = scenario.family
    uses_tools = isinstance(family.environment, ToolEnvironment)
    if not family.rules.is_custom or uses_tools != (toolbox is not None):
        return
    found: list[Exception] = []
    tools = NO_TOOLS if toolbox is None else toolbox.tools()
    checking = Thread(target=_collect_violation, args=(scenario, tools, found), daemon=True, name="contract")
    checking.start()
    checking.join(LIMIT_SECONDS)
    if checking.is_alive():
        frames = traceback.extract_stack(sys._current_frames().get(checking.ident or 0))
        raise ConfigurationError(
            f"environment.name {family.name!r}: {own_line(frames)}: has not returned after {LIMIT_SECONDS:.0f} s of trying the "
            "environment; end what waits or loops there"
        )
    for violation in found:
        if isinstance(violation, TroupeError) and not isinstance(violation, ConfigurationError):
            raise violation
        raise locate_violation(family.name, family.environment, violation) from violation


def _collect_violation(scenario: Scenario, tools: Tools, found: list[Exception]) -> None:
    """Add to `found` what is wrong, if anything is."""
    try:
        _try_environment(scenario, tools)
    except Exception as error:  # the border to user code, whose states and answers may be anything
        found.append(error)


def _try_environment(scenario: Scenario, tools: Tools) -> None:
    """Draw and play, as much as a few seconds allow: a slow environment is tried with fewer problems, answers and turns."""
    began, family, options = monotonic(), scenario.family, scenario.options
    drawn = draw_problems(family, options, 1)
    if monotonic() - began < _FAST_SECONDS:
        drawn = draw_problems(family, options, _NUM_DRAWN)
    problems = [*drawn["train"][: _NUM_PLAYED // 2], *drawn["test"][: _NUM_PLAYED // 2]]

    def play(number: int, answers: Sequence[str], max_turns: int) -> None:
        order, referee = scenario.turn_order, family.referee(WatchedTools(tools))
        check_play(family, referee, problems[number], answers, Random(number), turn_order=order, max_turns=max_turns)

    began = monotonic()
    play(0, ("",), 1)
    per_answer = max(monotonic() - began, 1e-6)
    turns = min(scenario.config.environment.max_turns, _MOST_TURNS)
    most = min(int(ENOUGH_SECONDS / (per_answer * turns)), _MOST_ANSWERS if tools is NO_TOOLS else _NUM_PROGRAMS)
    for number in range(len(problems)):
        if most and monotonic() - began < ENOUGH_SECONDS:
            answers = answers_to_try(family, options, Random(number), every_character=False)
            play(number, list(islice(answers, most)), turns)


def locate_violation(name: str, environment: Environment, violation: Exception) -> ConfigurationError:
    """The error for the user, with file and line: those of the method that the violation names, or else of `step`."""
    text, kind = str(violation), type(environment)
    if not isinstance(violation, AssertionError | ConfigurationError):
        place = f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}"
        return ConfigurationError(f"environment.name {name!r}: {place}: {type(violation).__name__}: {text}")
    if _PLACE.search(text):
        return ConfigurationError(text)
    named = [method for method in _METHOD.findall(text) if callable(getattr(kind, method, None))]
    method = named[0] if named else "step" if has_single_step(kind) else "step_together"
    what = "" if text.startswith("environment.name") else f"environment.name {name!r}: "
    return ConfigurationError(f"{what}{source_location(getattr(kind, method))}: {text}")
