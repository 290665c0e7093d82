"""How an episode is played: pure functions of a position. Rollouts, the reward stage, evaluations, demonstrations, checks of
prompts and the contract of environments all play by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from components.environments.base import NO_TOOLS, Step, ToolCall, Tools
from components.environments.rules import TurnRules
from components.errors import ConfigurationError, ExecutionFailed, MalformedAction
from components.schema import ActionOutcome, Observation, Problem, ProgramEnd
from components.turn_order import Phase, TurnOrder, branching_phase, phase_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where an episode stands: the environment's state, and whether it has ended and is solved.

    After an answer that ended the episode, `beside` is the position before it, in which agents side by side with its author are
    still scored.
    """

    state: Any
    is_done: bool = False
    is_solved: bool = False
    beside: "Position | None" = None


class Referee:
    """Plays by the rules of one environment, with its tools. Holds no position.

    `measures_value`: outcomes hold `value_gain`, which costs a solver's search in some environments.
    """

    def __init__(self, rules: TurnRules, tools: Tools = NO_TOOLS, *, measures_value: bool = False) -> None:
        self.rules, self.tools, self.measures_value = rules, tools, measures_value

    def start(self, problem: Problem) -> Position:
        """The beginning of an episode."""
        assert problem.environment == self.rules.name, f"{problem.problem_id} belongs to {problem.environment!r}"
        return Position(state=self.rules.start(problem.payload))

    def next_phase(
        self, position: Position, turn_order: TurnOrder, *, after: Phase | None = None, max_turns: int | None = None
    ) -> Phase | None:
        """The agents who act after the phase `after`, None at the beginning; None at the end of the episode."""
        if position.is_done:
            return None
        if turn_order:
            return phase_after(turn_order, after, max_turns=max_turns)
        agents = self.rules.next_agents(position.state)
        return branching_phase(agents, after, roles=self.rules.roles, max_turns=max_turns)

    def observe(self, position: Position, agent: str) -> Observation:
        """What `agent` sees, with the earlier agents' answers of this turn."""
        self._check_role(agent)
        return self.rules.observe(position.state, agent)

    def choices(self, position: Position, agent: str) -> tuple[str, ...] | None:
        """All answers that `agent` may give, where answers are chosen among them; None where they are texts.

        Raises ConfigurationError where they are to be chosen, and the environment names none.
        """
        if self.rules.answer_format != "choice":
            return None
        choices = self.rules.choices(position.state, agent)
        if choices is None:
            raise ConfigurationError(
                f"environment.answer_format choice: {self.rules.name} names no answers in choices(); set it to strict or free"
            )
        return choices

    def calls(self, position: Position, agent: str, text: str) -> tuple[ToolCall, ...]:
        """The tool calls that `act` is sure to make, to be answered in parallel before it."""
        here = position.beside or position
        try:
            return self.rules.tool_calls(here.state, agent, self._read(here, agent, text))
        except MalformedAction:
            return ()

    def act(self, position: Position, agent: str, text: str) -> tuple[ActionOutcome, Position]:
        """The outcome of an agent's answer, and the position after it.

        Thinking in `<think>` tags is left out, and of an answer that reasons first its end is read. Never raises on an agent's
        text: an answer is malformed, an outcome with `error`, after the end, beyond `MAX_ANSWER_CHARACTERS`, if its thinking
        never ends, or if `step` refuses it. An agent side by side with one that has just ended the episode is scored in the
        position before that, and changes nothing. Raises ExecutionFailed if a tool failed.
        """
        self._check_role(agent)
        here = position.beside or position
        error = None
        try:
            step = self.rules.step(here.state, agent, self._read(here, agent, text), self.tools)
            local, solves, done, solved = _with_payoff(step, agent), step.solved, bool(step.done), bool(step.success)
        except MalformedAction as malformed:
            error = str(malformed) or "malformed"
            step = self.rules.after_malformed(here.state, agent, malformed)
            local = {**_with_payoff(step, agent), "malformed": 1.0}
            solves, done, solved = here.is_solved, here.is_done, here.is_solved
        outcome = self._make_outcome(step, local=local, solves=solves, done=done, error=error)
        if position.beside is not None:
            return outcome, position
        ended = done and not here.is_done
        return outcome, Position(state=step.state, is_done=done, is_solved=solved, beside=here if ended else None)

    def finish(
        self, position: Position, agent: str, last: ActionOutcome, end: ProgramEnd
    ) -> tuple[ActionOutcome, Position]:
        """The outcome of the last answer of a program that has ended, `agent`'s, and the position then: what the environment
        makes of the end, or `last` where it makes nothing of it, or the episode had ended before."""
        if position.is_done or last.unscorable is not None:
            return last, position
        try:
            step = self.rules.finish(position.state, end, self.tools)
        except ExecutionFailed as error:
            return _unscorable(error), position
        if step is None:
            return last, position
        step = replace(step, payoffs=step.payoffs or last.payoffs or {})
        local = {**last.local, **_with_payoff(step, agent)}
        outcome = self._make_outcome(step, local=local, solves=step.solved, done=True, error=last.error)
        return outcome, Position(state=step.state, is_done=True, is_solved=step.solved)

    def _make_outcome(
        self, step: Step, *, local: Mapping[str, float], solves: bool, done: bool, error: str | None
    ) -> ActionOutcome:
        team = {"solved": float(step.solved), **step.team}
        differing = {name: value for name, value in step.team_from_start.items() if value != team.get(name)}
        gain = step.value_gain if self.measures_value else None
        return ActionOutcome(
            team=team,
            local=local,
            solves=solves,
            done=done,
            error=error,
            team_from_start=differing or None,
            value_gain=None if gain is None else gain(),
            payoffs=dict(step.payoffs) or None,
        )

    def acts_together(self, phase: Phase) -> bool:
        """Whether the agents of a phase act by one joint step."""
        return self.rules.acts_together(phase.agents)

    def read_well_formed(self, position: Position, agent: str, text: str) -> str:
        """An agent's answer as a joint step gets it. Raises MalformedAction."""
        self._check_role(agent)
        answer = self.rules.read(position.state, agent, text)
        self.rules.check(answer)
        return answer

    def act_together(self, position: Position, answers: Mapping[str, str]) -> tuple[dict[str, ActionOutcome], Position]:
        """The outcome of each agent's answer, all given at once, and the position after them. If a tool failed, all are
        unscorable and the position is the same."""
        assert not position.is_done, f"{sorted(answers)} act after the end"
        read: dict[str, str | None] = {}
        errors: dict[str, str] = {}
        for agent, text in answers.items():
            try:
                read[agent] = self.read_well_formed(position, agent, text)
            except MalformedAction as malformed:
                read[agent], errors[agent] = None, str(malformed) or "malformed"
        try:
            step = self.rules.step_together(position.state, read, self.tools)
        except ExecutionFailed as error:
            return {agent: _unscorable(error) for agent in answers}, position
        team, done = {"solved": float(step.solved), **step.team}, bool(step.done)
        payoffs = dict(step.payoffs) or None
        outcomes = {
            agent: ActionOutcome(
                team=team,
                local={
                    **step.local.get(agent, {}),
                    **({"payoff": step.payoffs.get(agent, 0.0)} if step.payoffs else {}),
                    **({"malformed": 1.0} if agent in errors else {}),
                },
                solves=step.solved,
                done=done,
                error=errors.get(agent),
                payoffs=payoffs,
            )
            for agent in answers
        }
        return outcomes, Position(state=step.state, is_done=done, is_solved=step.solved and done)

    def act_or_unscorable(self, position: Position, agent: str, text: str) -> tuple[ActionOutcome, Position]:
        """As `act`; if a tool failed, an unscorable outcome and the same position."""
        try:
            return self.act(position, agent, text)
        except ExecutionFailed as error:
            return _unscorable(error), position

    def advance(
        self, position: Position, phase: Phase, answers: Sequence[str]
    ) -> tuple[tuple[ActionOutcome, ...], Position]:
        """The outcomes of the answers of a phase, of each of its agents up to one that ends the episode, and the position after
        them. An answer at which a tool failed is unscorable and changes nothing."""
        if self.acts_together(phase):
            of_agents, position = self.act_together(position, dict(zip(phase.agents, answers, strict=True)))
            return tuple(of_agents[agent] for agent in phase.agents), position
        outcomes = []
        for agent, text in zip(phase.agents, answers, strict=True):
            if not position.is_done:
                outcome, position = self.act_or_unscorable(position, agent, text)
                outcomes.append(outcome)
        return tuple(outcomes), position

    def picture(self, position: Position, *, color: bool) -> str:
        """The position for people, with ANSI colours or in plain ASCII."""
        return self.rules.picture(position.state, color=color)

    def _read(self, here: Position, agent: str, text: str) -> str:
        if here.is_done:
            raise MalformedAction(self.rules.environment.over)
        return self.rules.read(here.state, agent, text)

    def _check_role(self, agent: str) -> None:
        assert agent in self.rules.roles, f"agent {agent!r} is none of {self.rules.roles}"


def _with_payoff(step: Step, agent: str) -> Mapping[str, float]:
    """The local components of an agent's answer, with what it earned in a game of payoffs."""
    return {**step.local, "payoff": step.payoffs.get(agent, 0.0)} if step.payoffs else step.local


def _unscorable(error: ExecutionFailed) -> ActionOutcome:
    return ActionOutcome(team={}, local={}, solves=False, done=False, unscorable=str(error))


class Playthrough:
    """One problem being played, with its newest position: for people, scripts and tests, who play one line."""

    def __init__(self, referee: Referee, problem: Problem) -> None:
        self.referee, self.problem = referee, problem
        self.position = referee.start(problem)
        self.phase: Phase | None = None
        """Who is to act; None where that is not known."""

    @property
    def roles(self) -> tuple[str, ...]:
        return self.referee.rules.roles

    @property
    def done(self) -> bool:
        return self.position.is_done

    @property
    def success(self) -> bool:
        return self.position.is_solved

    def observe(self, agent: str) -> Observation:
        """What `agent` sees."""
        return self.referee.observe(self.position, agent)

    def choices(self, agent: str) -> tuple[str, ...] | None:
        """All well-formed answers of `agent`, however answers are read; None where they are texts."""
        return self.referee.rules.choices(self.position.state, agent)

    @property
    def acts_together(self) -> bool:
        """Whether those who are to act do so by one joint step, so that one answer alone changes nothing."""
        return self.phase is not None and self.referee.acts_together(self.phase)

    def refusal(self, agent: str, text: str) -> str | None:
        """Why an answer given together with others would be malformed; None if it would not be."""
        try:
            self.referee.read_well_formed(self.position, agent, text)
        except MalformedAction as malformed:
            return str(malformed) or "malformed"
        return None

    def apply(self, agent: str, text: str) -> ActionOutcome:
        """The outcome of the answer of one who acts alone, after which the game goes on from there."""
        if self.referee.rules.acts_together((agent,)):
            outcomes, self.position = self.referee.act_together(self.position, {agent: text})
            return outcomes[agent]
        outcome, after = self.referee.act(self.position, agent, text)
        self.position = replace(after, beside=None)
        return outcome

    def render(self, *, color: bool) -> str:
        """The position for people."""
        return self.referee.picture(self.position, color=color)
