"""The shortest way to an environment of one's own: what is drawn, what each agent sees of it, and what an answer does."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from components.artifacts.refs import Frozen
from components.environments.shared.text import PRINTABLE
from components.environments.team_env import Step
from components.turn_order import TurnOrder


class NoOptions(Frozen):
    """The options of an environment that has none."""


class Environment(ABC):
    """All problems of one kind, and how a team plays them. Subclass it and write `roles`, `draw`, `observe` and `step`.

    A state is any value that `copy.deepcopy` can copy; each call gets a copy of its own, so that `step` may change it. What
    `step` does depends on nothing else: no clock, no global random numbers.

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
    """The agents, in turn order unless `turn_order` or `next_role` says otherwise."""
    turn_order: ClassVar[TurnOrder] = ()
    """Who acts in a turn, where that is not each of `roles` once. Agents of an inner tuple act side by side: all see the state
    before any of them has answered, then `step` enters their answers one after another. `environment.turn_order` of a
    configuration goes before it.

    **Example** `(("ann", "bob"), "judge")`, where 6 is right and the reward is the number of right answers so far. Ann's
    candidates 6 and 5 are stepped in the state that both saw and earn 1 and 0, and the 6 is entered. Bob's 6 and 4 are stepped
    in the state that it left, which he has not seen, and earn 2 and 1: Ann's share is the same in both, so his advantages are
    what they would be without her. A reward for "somebody is right" would be 1 and 1, and would teach Bob nothing where Ann is
    right already: what each of them did belongs into `local`. The judge then sees both answers.

    An answer that ends the episode ends it for those after it, too: they are scored in the state that it met, and change
    nothing.
    """
    Options: ClassVar[type[Frozen]] = NoOptions
    """A pydantic model of the keys of `environment.options`."""
    weights: ClassVar[Mapping[str, float]] = {}
    """Reward weights by component, `team.<name>` and `local.<name>`, beside `team.solved` (1) and `local.malformed` (-.1)."""
    max_answer_characters: ClassVar[int] = 64
    """A longer answer is malformed. Agents without `max_new_tokens` may write one token per character."""
    alphabet: ClassVar[str] = PRINTABLE
    """Every character that observations and answers may contain, for models that are made from nothing."""

    @abstractmethod
    def draw(self, options: Any, rng: Random) -> Mapping[str, Any]:
        """A random problem, as plain JSON. All its randomness comes from `rng`."""

    @abstractmethod
    def observe(self, state: Any, agent: str) -> str:
        """What `agent` sees of `state`."""

    @abstractmethod
    def step(self, state: Any, agent: str, answer: str) -> Step:
        """What `answer` does. Raises MalformedAnswer for one that does not follow the grammar; the state then stays."""

    def next_role(self, state: Any) -> str | Sequence[str] | None:
        """Who acts in `state`: a role, or several that act side by side; None where the episode is over. Only teams that branch
        override this. It is asked at the start and once the answers of those whom it named are entered, and must depend on the
        state alone: rewards are computed along the same path once more.

        Each time that it is asked a new turn begins, so set `environment.max_turns` to how often anybody may act.

        **Example** `return "editor" if state["draft"] else "writer"`.
        """
        raise NotImplementedError

    def start(self, problem: Mapping[str, Any]) -> Any:
        """The state in which an episode of a drawn problem begins; the problem itself unless this is overridden."""
        return problem

    def deciding(self, problem: Mapping[str, Any]) -> Any:
        """The part of a problem, as JSON, that decides its right answers: the whole unless this is overridden.

        Problems that agree in it belong to one split, train or test.
        """
        return problem

    def instructions(self, agent: str) -> str:
        """Who the agent is and how it answers, for models that read prose. `observe` alone is what small models see."""
        return ""

    def render(self, state: Any) -> str:
        """A picture of a state for people."""
        return "\n".join(f"{role}: {self.observe(state, role)}" for role in self.roles)

    def expert(self, state: Any, agent: str) -> str:
        """The right answer of `agent`. Only models that are made from nothing need it, which learn the grammar from it, and
        `troupe play --agent expert`."""
        raise NotImplementedError
