"""The base class of user-defined environments: how a problem is drawn, what each agent sees of it, and what an answer does."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from components.environments.base import Step
from components.environments.shared.answer_extraction import final_text
from components.environments.shared.text import PRINTABLE
from components.frozen import Frozen
from components.turn_order import TurnOrder


class Environment(ABC):
    """All problems of one kind, and how a team plays them. Subclasses define `roles`, `draw`, `observe` and `step`.

    A state is any value that `copy.deepcopy` can copy; each call gets its own copy, so `step` may change it. `step` must depend
    on nothing else: no clock, no global random numbers.

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
    """The agents, in turn order unless `turn_order` or `next_role` is defined."""
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
    """Reward weights by component, `team.<name>` and `local.<name>`, beside `team.solved` (1) and `local.malformed` (-.1)."""
    max_answer_characters: ClassVar[int] = 64
    """Longer answers are malformed, without the reasoning before them. The default of `max_new_tokens` allows one token per
    character."""
    answer_ending: ClassVar[str] = "your answer alone in the last ``` block, or else in the last line."
    """How an answer that reasons first ends, for the instructions under `environment.answers: reasoned`."""
    alphabet: ClassVar[str] = PRINTABLE
    """All characters of observations and answers, for models trained from scratch."""

    @abstractmethod
    def draw(self, options: Any, rng: Random) -> Mapping[str, Any]:
        """A random problem, as plain JSON. All its randomness comes from `rng`."""

    @abstractmethod
    def observe(self, state: Any, agent: str) -> str:
        """What `agent` sees of `state`."""

    @abstractmethod
    def step(self, state: Any, agent: str, answer: str) -> Step:
        """The result of `answer`. Raises MalformedAnswer for one outside the grammar; the state is then unchanged."""

    def next_role(self, state: Any) -> str | Sequence[str] | None:
        """The role that acts in `state`, or several that act side by side; None if the episode is over. Only teams that branch
        override this. It must depend on the state alone, because rewards are computed by replaying the episode.

        Every call begins a new turn, so `environment.max_turns` limits the number of calls.

        **Example** `return "editor" if state["draft"] else "writer"`.
        """
        raise NotImplementedError

    def start(self, problem: Mapping[str, Any]) -> Any:
        """The initial state of a drawn problem; by default the problem itself."""
        return problem

    def deciding(self, problem: Mapping[str, Any]) -> Any:
        """The part of a problem, as JSON, that decides its right answers; by default the whole.

        Problems with equal parts are in the same split, train or test.
        """
        return problem

    def instructions(self, agent: str) -> str:
        """The role and answer grammar of an agent, for chat models. Small models only see `observe`."""
        return ""

    def final_answer(self, agent: str, text: str) -> str:
        """The answer in a text that may reason first, for `step`; read under `environment.answers: reasoned`, without the
        thinking in `<think>` tags. It takes time linear in the text.

        By default the last fenced block, unless a line such as `Answer: 5` follows it; else what such a line tells, or else the
        last line. Override it, and `answer_ending`, if answers have several lines or another end. An answer without reasoning
        must come back as it is.
        """
        return final_text(text)

    def render(self, state: Any) -> str:
        """A state rendered for people."""
        return "\n".join(f"{role}: {self.observe(state, role)}" for role in self.roles)

    def expert(self, state: Any, agent: str) -> str:
        """The right answer of `agent`, needed only to train a model from scratch and for `troupe play --agent expert`."""
        raise NotImplementedError
