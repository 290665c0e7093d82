"""agent_plan_path: plan_path walked by a program that asks one policy for its moves, with a tool, through an endpoint."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from components.environments.base import NO_TOOLS, Step, Tools
from components.environments.games.environment import PLAN_AGENT, Board
from components.environments.games.plan_path import PlanPathEnvironment, PlanPathOptions
from components.environments.program import AgentProgram, ProgramEnvironment
from components.errors import ConfigurationError
from components.machine.package_files import install_command
from components.schema import Execution

PROGRAM = "components.environments.games.walking_program:walk"
MOST_SECONDS = 120.0


class AgentPlanPathOptions(PlanPathOptions):
    """The options of agent_plan_path."""

    native: bool = False
    """Whether Troupe asks the policy itself, as in plan_path, in place of the program: with equal answers for comparison."""


class AgentPlanPathEnvironment(PlanPathEnvironment, ProgramEnvironment):
    """One walker. It sees the board, and its answer is the argument of the program's tool `move`."""

    roles = ("walker",)
    Options = AgentPlanPathOptions
    copies_proposals = False

    def puzzle(self, options: PlanPathOptions, drawn: Mapping[str, Any], rng: Any) -> dict[str, Any] | None:
        found = super().puzzle(options, drawn, rng)
        assert isinstance(options, AgentPlanPathOptions), f"options of another environment: {options!r}"
        return {**found, "native": True} if found is not None and options.native else found

    def uses_sandbox(self, options: Any) -> bool:
        return False

    def observe(self, state: Board[int], agent: str) -> str:
        return state.game.board_text(state.state)

    def instructions(self, state: Board[int], agent: str) -> str:
        return f"{state.game.legend}\n{state.game.grammar}"

    def tool_calls(self, state: Board[int], agent: str, answer: str) -> tuple[Execution, ...]:
        return ()

    def step(self, state: Board[int], agent: str, answer: str, tools: Tools = NO_TOOLS) -> Step:
        return super().step(state, PLAN_AGENT, answer, tools)

    def program(self, problem: Mapping[str, Any]) -> AgentProgram | None:
        if find_spec("openai") is None:
            get = install_command("extras", "'troupe[api]'")
            raise ConfigurationError(
                f"environment.name 'agent_plan_path': its walker is a program on the OpenAI SDK, not installed; get it by {get}"
            )
        return None if problem.get("native") else AgentProgram(function=PROGRAM, seconds=MOST_SECONDS)
