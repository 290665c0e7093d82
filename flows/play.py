"""Play an environment in the terminal, as a person or by watching the expert, a random or an idle agent."""

import difflib
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, TextIO, TypeVar

from components.artifacts.refs import Frozen
from components.environments.base import EnvironmentFamily, MultiAgentEnv, Split, Tools
from components.environments.registry import family, family_options
from components.errors import ConfigurationError
from components.evaluation.statistics import wilson_interval
from components.identity import seed_for
from components.metrics import mean
from flows.suite_choice import bare_config
from tasks import world

Agent = Literal["human", "expert", "random", "noop"]
AGENTS: tuple[Agent, ...] = ("human", "expert", "random", "noop")
SPLITS: tuple[Split, ...] = ("train", "test")
Name = TypeVar("Name", bound=str)
Answer = Callable[[MultiAgentEnv, str], str | None]
"""What an agent answers in a state; None leaves the table."""


class PlayReport(Frozen):
    """How it went. `n` counts finished episodes, `interval` is the 95% Wilson interval of the success rate.

    `mean_reward` is the mean over episodes of the last acting agent's last reward under the environment's default weights.
    """

    env: str
    agent: str
    success_rate: float
    n: int
    interval: tuple[float, float]
    mean_reward: float


def play(
    environment: str,
    *,
    agent: str,
    episodes: int,
    seed: int,
    options: Mapping[str, Any],
    split: str,
    max_turns: int | None,
    stdin: TextIO,
    stdout: TextIO,
) -> PlayReport:
    """Play the first `episodes` problems of a split and report. One agent answers for every role.

    A single episode is shown turn by turn. `max_turns` None means as many as a preset gives the environment, or no limit for
    a person. Raises ConfigurationError naming the argument, its value and the remedy.
    """
    checked_agent = _one_of("agent", agent, AGENTS)
    for name, value in (("episodes", episodes), ("max_turns", max_turns)):
        if value is not None and value < 1:
            raise ConfigurationError(f"{name} {value}: ask for at least 1")
    config = bare_config(environment, options)
    session = _Session(
        family=family(environment),
        options=family_options(environment, options),
        tools=world.tools(config),
        agent=checked_agent,
        episodes=episodes,
        seed=seed,
        split=_one_of("split", split, SPLITS),
        max_turns=config.environment.max_turns if max_turns is None and checked_agent != "human" else max_turns,
        stdin=stdin,
        stdout=stdout,
    )
    try:
        report = _report(environment, checked_agent, list(session.finished()))
    finally:
        world.close_sandboxes()
    print(_summary(report), file=stdout)
    return report


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """What `play` was asked for, checked."""

    family: EnvironmentFamily
    options: Frozen
    tools: Tools
    agent: Agent
    episodes: int
    seed: int
    split: Split
    max_turns: int | None
    stdin: TextIO
    stdout: TextIO

    def finished(self) -> Iterator[MultiAgentEnv]:
        """The environments of the episodes that were played to their end."""
        for index in range(self.episodes):
            problem = self.family.problem(self.options, split=self.split, index=index, seed=self.seed)
            env = self.family.build(problem, self.tools)
            if self.agent == "human":
                print(f"\n{self.family.name}, episode {index + 1} of {self.episodes}", file=self.stdout)
            if not self._played(env, self._answers(index)):
                return
            yield env

    def _answers(self, index: int) -> Answer:
        """How the agent answers in one episode."""
        rng = Random(seed_for(self.seed, "play", index))
        match self.agent:
            case "human":
                return _Person(
                    self.stdin, self.stdout, explains=index == 0, writes_prose=not self.family.copies_proposals
                )
            case "expert":
                return self.family.expert_action
            case "random":
                return lambda env, role: self.family.random_action(env, role, rng)
            case "noop":
                return lambda env, role: ""

    def _played(self, env: MultiAgentEnv, answer: Answer) -> bool:
        """Play one episode to its end; False when somebody left. One that nobody types is drawn when it is the only one."""
        shown_on = self.stdout if self.episodes == 1 and self.agent != "human" else None
        turn = 0
        _show(env, "start", shown_on)
        while not env.done and (self.max_turns is None or turn < self.max_turns):
            turn += 1
            for role in env.roles:
                action = answer(env, role)
                if action is None:
                    return False
                env.apply(role, action)
                if shown_on:
                    print(f"turn {turn}, {role}: {_inset(action)}", file=shown_on)
            _show(env, f"after turn {turn}", shown_on)
        return True


def _report(environment: str, agent: Agent, finished: Sequence[MultiAgentEnv]) -> PlayReport:
    num_successes = sum(env.success for env in finished)
    return PlayReport(
        env=environment,
        agent=agent,
        success_rate=mean(float(env.success) for env in finished),
        n=len(finished),
        interval=wilson_interval(num_successes, len(finished)),
        mean_reward=mean(env.team_reward + env.local_reward(env.roles[-1]) for env in finished),
    )


def _show(env: MultiAgentEnv, caption: str, stdout: TextIO | None) -> None:
    if stdout:
        print(f"\n{caption}{', solved' if env.success else ''}\n{env.render(color=stdout.isatty())}", file=stdout)


def _inset(action: str) -> str:
    """An action after its label: on the same line, or below it when it has several."""
    if "\n" not in action.strip():
        return action.strip() or "(nothing)"
    return "\n" + "\n".join(f"    {line}" for line in action.strip().splitlines())


class _Person:
    """Asks a person in the terminal, explains errors and asks again, and shows where a proposal would lead.

    Where roles share a grammar of short moves, an answer is one line and Enter keeps the proposal. Elsewhere it is prose or a
    program (`writes_prose`): lines as typed, up to one that holds a dot alone.
    """

    def __init__(self, stdin: TextIO, stdout: TextIO, *, explains: bool, writes_prose: bool) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._proposal: str | None = None
        self._explains = explains
        self._writes_prose = writes_prose

    def __call__(self, env: MultiAgentEnv, agent: str) -> str | None:
        decides = agent == env.roles[-1]
        if self._explains:
            self._explain(env)
        if self._writes_prose:
            self._say(f"\n{_wrapped(env.observe(agent).instructions)}\n")
        if not decides or len(env.roles) == 1:
            self._say(f"\n{self._picture(env)}\n")
        while (text := self._asked(agent, decides)) is not None:
            before = env.snapshot()
            outcome = env.apply(agent, text)
            if outcome.error is None:
                self._say(self._consequence(env, agent, text, before, solves=outcome.solves))
            env.restore(before)
            if outcome.error is None:
                self._proposal = text
                return text
            self._say(f"Not understood: {outcome.error}.")
        return None

    def _explain(self, env: MultiAgentEnv) -> None:
        self._explains = False
        if self._writes_prose:
            self._say("You play every agent. An answer ends with a line that holds a dot alone; q alone quits.")
            return
        self._say(_wrapped(env.observe(env.roles[0]).instructions))
        if len(env.roles) > 1:
            self._say(
                "You play every agent: type a list, see what it would do, then decide: Enter keeps it, another list "
                "replaces it."
            )
        self._say("q quits.")

    def _asked(self, agent: str, decides: bool) -> str | None:
        """The line typed, in capitals; the proposal for an empty line of who decides; None when the person left."""
        self._stdout.write(f"{agent}> ")
        self._stdout.flush()
        if self._writes_prose:
            return self._lines()
        line = self._stdin.readline()
        text = line.strip().upper()
        if line == "" or text == "Q":
            return None
        return self._proposal if decides and text == "" and self._proposal is not None else text

    def _lines(self) -> str | None:
        """What was typed up to a line with a dot alone or the end of the input; None for a lone q or nothing at all."""
        lines: list[str] = []
        while (line := self._stdin.readline()) and line.strip() != ".":
            if not lines and line.strip() in ("q", "Q"):
                return None
            lines.append(line)
        return "".join(lines).strip() if lines or line else None

    def _consequence(self, env: MultiAgentEnv, agent: str, text: str, before: Any, *, solves: bool) -> str:
        """What the answer does or, for an agent that only proposes, would do."""
        if agent == env.roles[-1] or self._writes_prose:
            return f"{self._picture(env)}\nSolved." if solves and env.success else ""
        env.restore(before)
        env.apply(env.roles[-1], text)
        return f"would lead to{' the solution' if solves else ''}:\n{self._picture(env)}"

    def _picture(self, env: MultiAgentEnv) -> str:
        return env.render(color=self._stdout.isatty())

    def _say(self, text: str) -> None:
        print(text, file=self._stdout)


def _wrapped(text: str) -> str:
    """`text` in lines of a terminal's width, broken between words; its own line breaks stay."""
    width = min(shutil.get_terminal_size().columns, 100)
    return "\n".join(textwrap.fill(line, width, break_long_words=False) for line in text.splitlines())


def _one_of(field: str, value: str, known: tuple[Name, ...]) -> Name:
    for name in known:
        if value == name:
            return name
    nearest = difflib.get_close_matches(value, known, n=1, cutoff=0.4)
    remedy = f"did you mean {nearest[0]!r}?" if nearest else f"use one of {', '.join(known)}"
    raise ConfigurationError(f"{field} {value!r}: {remedy}")


def _summary(report: PlayReport) -> str:
    low, high = report.interval
    return (
        f"{report.env}, {report.agent}: {report.success_rate:.1%} of {report.n} solved "
        f"(95% interval {low:.1%} to {high:.1%}), mean reward {report.mean_reward:.3f}"
    )
