"""The base classes of all environments: how a problem is drawn, what each agent sees of it, and what an answer does."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, ClassVar

from components.environments.base import JointStep, Retriever, Split, Step, ToolCall, Tools
from components.environments.shared.answer_extraction import final_text
from components.environments.shared.text import PRINTABLE
from components.errors import MalformedAction
from components.frozen import Frozen
from components.turn_order import TurnOrder


class Environment(ABC):
    """All problems of one kind, and how a team plays them. Subclasses define `roles`, `draw`, `observe` and `step`, or where
    agents act at once `step_together`.

    A state is any value that `copy.deepcopy` can copy; each call gets its own copy, so `step` may change it. `step` must depend
    on nothing else: no clock, no global random numbers. Programs and searches come from a `ToolEnvironment`'s tools.

    **Example** One agent that must repeat a number (the README has a team of two):

        class Echo(Environment):
            roles = ("pupil",)

            def draw(self, options, rng):
                return {"number": rng.randrange(1000)}

            def observe(self, state, agent):
                return str(state["number"])

            def step(self, state, agent, answer):
                return Step(state=state, solved=answer == str(state["number"]))
    """

    roles: ClassVar[tuple[str, ...]]
    """The agents, in turn order unless `turn_order` or `next_role` is defined: one after another, or where only `step_together`
    is defined all at once; `roles_for` where options decide how many."""
    turn_order: ClassVar[TurnOrder] = ()
    """The agents of a turn, if not each of `roles` once. Agents of an inner tuple act side by side: all see the state before
    any of them has answered, then `step` applies their answers one after another. `environment.turn_order` of a configuration
    overrides it. After an answer that ends the episode, those of agents side by side are scored in the state before it and
    change nothing.

    **Example** `(("ann", "bob"), "judge")`, where 6 is right and the reward is the number of right answers so far. Ann's
    candidates 6 and 5 earn 1 and 0, and the 6 is applied. Bob's 6 and 4, stepped in the state after it, earn 2 and 1: Ann's
    part is the same in both, so his advantages do not depend on her. A reward for "somebody is right" would be 1 and 1 and
    teach Bob nothing: put what each of them did into `local`. The judge then sees both answers.
    """
    Options: ClassVar[type[Frozen]] = Frozen
    """A pydantic model of the keys of `environment.options`."""
    weights: ClassVar[Mapping[str, float]] = {}
    """Reward weights by component, `team.<name>` and `local.<name>`, beside `team.solved` (1), `local.malformed` (-.1) and,
    where steps pay agents, `local.payoff` (1)."""
    return_weights: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """The weights in the return of a whole episode that differ from `weights`."""
    max_answer_characters: ClassVar[int | None] = 64
    """Longer answers are malformed, without the reasoning before them. The default of `max_new_tokens` allows one token per
    character. None: `step` refuses them itself, and `longest_answer` says how long they may be."""
    answer_ending: ClassVar[str] = "your answer alone in the last ``` block, or else in the last line."
    """How an answer that reasons first ends, for the instructions under `environment.answer_format: free`."""
    alphabet: ClassVar[str] = PRINTABLE
    """All characters of observations and answers, for models trained from scratch."""
    over: ClassVar[str] = "the episode is over"
    """The error of an answer after the end."""
    remedy: ClassVar[str] = "a fifth of all different problems is for tests, so let draw() make more different ones"
    """What to change if the options allow hardly any problem."""
    states_are_immutable: ClassVar[bool] = False
    """Whether no call changes its state, so that none needs a copy."""
    has_solver_value: ClassVar[bool] = False
    """Whether steps hold a `value_gain`."""

    @abstractmethod
    def draw(self, options: Any, rng: Random) -> Mapping[str, Any] | None:
        """A random problem, as plain JSON; None if this draw gives none. All its randomness comes from `rng`."""

    @abstractmethod
    def observe(self, state: Any, agent: str) -> str:
        """What `agent` sees of `state`."""

    def step(self, state: Any, agent: str, answer: str, *args: Any, **kwargs: Any) -> Step:
        """The result of `answer`; write it as `step(self, state, agent, answer)`. Raises MalformedAnswer for one outside the
        grammar; the state is then unchanged."""
        raise NotImplementedError

    def step_together(self, state: Any, answers: Mapping[str, str | None], *args: Any, **kwargs: Any) -> JointStep:
        """The result of what the agents of a phase answer at once, by agent; None for a malformed answer. Write it as
        `step_together(self, state, answers)`.

        If it is defined, agents side by side act by it: candidate k of each is played with candidate k of the others, and the
        game goes on from the k with the best mean reward. Where `step` is not defined, one agent alone acts by it, too.
        """
        raise NotImplementedError

    def next_role(self, state: Any) -> str | Sequence[str] | None:
        """The role that acts in `state`, or several that act side by side; None if the episode is over. Only teams that branch
        override this. It must depend on the state alone, because rewards are computed by replaying the episode.

        Every call begins a new turn, so `environment.max_turns` limits the number of calls.

        **Example** `return "editor" if state["draft"] else "writer"`.
        """
        raise NotImplementedError

    def roles_for(self, options: Any) -> tuple[str, ...]:
        """The agents under `options`, for games of any number of players; by default `roles`, which are those of the default
        options. Override it together with `next_role`: a `turn_order` names agents that are always there."""
        return self.roles

    def choices(self, state: Any, agent: str) -> Sequence[str] | None:
        """All well-formed answers of `agent` in `state`, in a fixed order, of which a model draws one under
        `environment.answer_format: choice`; None, the default: answers are texts.

        They are different and short, because engines that choose among them read each token by token. One may begin with
        another, as "Offer 1" and "Offer 12" do: the end of the answer tells them apart. None is empty.

        **Example** ("Pass", "Bet").
        """
        return None

    def start(self, problem: Mapping[str, Any]) -> Any:
        """The initial state of a drawn problem; by default the problem itself."""
        return problem

    def deciding(self, problem: Mapping[str, Any]) -> Any:
        """The part of a drawn problem, as JSON, that decides its right answers; by default the whole.

        Problems with equal parts are in the same split, train or test.
        """
        return problem

    def complete_problem(self, options: Any, drawn: Mapping[str, Any], rng: Random) -> Mapping[str, Any] | None:
        """The whole problem, where `draw` gives only its deciding part because the rest costs more; by default what was drawn.
        None if it cannot be completed within `options`."""
        return drawn

    def problem(self, options: Any, *, split: Split, index: int, seed: int) -> Mapping[str, Any] | None:
        """Problem `index` of a split as plain JSON, of an environment that reads its problems instead of drawing them: a pure
        function of its arguments. None, the default: it is drawn."""
        return None

    def instructions(self, state: Any, agent: str) -> str:
        """The role and answer grammar of an agent, for chat models. Small models only see `observe`."""
        return ""

    def final_answer(self, state: Any, agent: str, text: str) -> str:
        """The answer in a text that may reason first, for `step`; read under `environment.answer_format: free`, without the
        thinking in `<think>` tags. It takes time linear in the text.

        By default the last fenced block, unless a line such as `Answer: 5` follows it; else what such a line tells, or else the
        last line. Override it, and `ending`, if answers have several lines or another end. An answer without reasoning must
        come back as it is, and a text without an answer too, for `step` to refuse. Raises MalformedAnswer.
        """
        return final_text(text)

    def ending(self, state: Any, agent: str) -> str:
        """How an answer of `agent` that reasons first ends; by default `answer_ending`."""
        return self.answer_ending

    def after_malformed(self, state: Any, agent: str, error: MalformedAction) -> Step:
        """The result of a malformed answer; by default the state unchanged. `local.malformed` is added."""
        return Step(state=state)

    def render(self, state: Any) -> str:
        """A state rendered for people."""
        return "\n".join(f"{role}: {self.observe(state, role)}" for role in self.roles)

    def picture(self, state: Any, *, color: bool) -> str:
        """A state for people, with ANSI colours or in plain ASCII; by default `render`."""
        return self.render(state)

    def expert(self, state: Any, agent: str) -> str:
        """The right answer of `agent`, needed only to train a model from scratch and for `troupe play --agent expert`."""
        raise NotImplementedError

    def longest_answer(self, options: Any) -> int:
        """The length of the longest well-formed answer, in characters; by default `max_answer_characters`."""
        assert self.max_answer_characters is not None, f"{type(self).__name__} says nowhere how long answers may be"
        return self.max_answer_characters

    def characters(self, options: Any) -> str:
        """All characters of observations and answers under `options`, in a fixed order; by default `alphabet`."""
        return self.alphabet


class ToolEnvironment(Environment):
    """An environment whose `step` runs programs in the sandbox, or finds passages, with the `tools` that it gets.

    What a tool answers is recorded by the content of the call: the same program on the same input runs once, in the rollout,
    and never again on a retry or in the reward stage. Calls that `tool_calls` tells beforehand are answered in parallel, over
    all candidates of all episodes.

    **Example** An answer is a program; it is right if it prints the number:

        def tool_calls(self, state, agent, answer):
            return [Execution(program=answer)]

        def step(self, state, agent, answer, tools):
            result = tools.run(Execution(program=answer))
            return Step(state=state, solved=result.stdout.strip() == str(state["number"]))
    """

    def step(self, state: Any, agent: str, answer: str, tools: Tools) -> Step:
        """The result of `answer`. Raises MalformedAnswer, and what the tools raise."""
        raise NotImplementedError

    def tool_calls(self, state: Any, agent: str, answer: str) -> Iterable[ToolCall]:
        """The calls that `step` is sure to make, as far as they are known before any is answered. Raises MalformedAnswer."""
        return ()

    def uses_sandbox(self, options: Any) -> bool:
        """Whether programs are run under `options`."""
        return True

    def retriever(self, options: Any) -> Retriever | None:
        """What answers queries under `options`; None if nothing is asked.

        Raises ConfigurationError if the options name an unusable corpus or address.
        """
        return None


def has_single_step(kind: type[Environment]) -> bool:
    """Whether `step` is defined."""
    return kind.step not in (Environment.step, ToolEnvironment.step)


def has_joint_step(kind: type[Environment]) -> bool:
    """Whether `step_together` is defined."""
    return kind.step_together is not Environment.step_together


class Demonstrator(ABC):
    """A mixin for environments whose expert also plays badly, for behaviour cloning and scripted play."""

    copies_proposals: ClassVar[bool] = False
    """Whether an earlier agent's answer is also a well-formed answer of the last agent."""

    def expert(self, state: Any, agent: str) -> str:
        """The right answer of `agent`."""
        return self.noisy_expert(state, agent, noise=0.0, rng=Random(0))

    @abstractmethod
    def noisy_expert(self, state: Any, agent: str, *, noise: float, rng: Random) -> str:
        """Well-formed play in which each elementary move is replaced by a random one with probability `noise`."""

    @abstractmethod
    def random_answer(self, state: Any, agent: str, rng: Random) -> str:
        """A well-formed random answer."""

    def scramble(self, state: Any, rng: Random, tools: Tools) -> Any:
        """A random unsolved state of the same problem that can still be solved, to vary what is cloned; by default the same."""
        return state
