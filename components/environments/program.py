"""Environments whose agents are a program: it asks the policies by itself, through an endpoint, and need not know of Troupe."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from components.environments.base import Step
from components.environments.environment import Environment
from components.schema import ProgramEnd

LONGEST_ANSWER = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentBox:
    """What a program may use in a box: there it has no network but the endpoint, sees the system, Troupe's interpreter and the
    files that its command names, and writes in its own folder alone, /home/agent.

    `reads` are further files and folders that it sees. `memory_mib` counts the files that it writes, of which there are at most
    `disk_mib`.
    """

    reads: tuple[str, ...] = ()
    memory_mib: int = 2048
    disk_mib: int = 1024
    num_processes: int = 256
    num_cpus: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentProgram:
    """What is run for one problem: a `command`, or a `function` "package.module:name", called with the problem.

    It finds the endpoint in OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY, and asks for a role by
    the name of the model. It runs in an empty folder with `files` in it and the problem as `problem.json`; of what it leaves
    there, `outputs` of at most 64 KiB are kept. After `seconds` it is ended. With a `box` it runs in one; else if
    `sandbox.agents` says so.

    **Example** `AgentProgram(command=("python", "agent.py"))`, or `AgentProgram(function="my_agent:solve")`.
    """

    command: tuple[str, ...] = ()
    function: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict)
    """The roles of further names of models, for programs that ask for a fixed one. **Example** {"claude-opus-4-8": "coder"}."""
    sub_agents: str = ""
    """The role of what its sub-agents ask, whatever model they name, where its client tells them apart in a header, as Claude
    Code, codex and opencode do. Empty: the model's name decides."""
    volatile: tuple[str, ...] = ()
    """Regular expressions for what differs when it is run again, as times and random numbers in results of its tools: left out
    where its requests are compared."""
    shown: Mapping[str, Any] | None = None
    """What the program is given of the problem; None: the whole. What the policies must not see is left out: a program's tools
    may read its folder."""
    seconds: float = 300.0
    box: AgentBox | None = None


class ProgramEnvironment(Environment):
    """An environment that a program plays. Subclasses define `roles`, `draw`, `program`, and `finish` or `step`.

    **Example** an agent that is right if the file it writes holds the number:

        class Files(ProgramEnvironment):
            roles = ("clerk",)

            def draw(self, options, rng):
                return {"number": rng.randrange(1000)}

            def program(self, problem):
                return AgentProgram(command=("python", "/home/me/clerk.py"), outputs=("answer.txt",))

            def finish(self, state, end):
                return Step(state=state, solved=end.files.get("answer.txt") == str(state["number"]))
    """

    max_answer_characters = None

    @abstractmethod
    def program(self, problem: Mapping[str, Any]) -> AgentProgram | None:
        """The program that plays a problem; None if agents answer it without one."""

    def longest_answer(self, options: Any) -> int:
        """What an answer may take unless `agents.<role>.max_new_tokens` says otherwise, in characters."""
        return LONGEST_ANSWER

    def observe(self, state: Any, agent: str) -> str:
        """Empty: the program says what an agent reads."""
        return ""

    def step(self, state: Any, agent: str, answer: str, *args: Any, **kwargs: Any) -> Step:
        """The result of one answer, as it was sampled; by default nothing, as the program's end decides."""
        return Step(state=state)

    def finish(self, state: Any, end: ProgramEnd, *args: Any) -> Step | None:
        """The result of the whole, in place of that of the last answer; None, the default: that of the last answer stands.

        Write it as `finish(self, state, end)`, or in a ToolEnvironment as `finish(self, state, end, tools)`.
        """
        return None
