"""An environment by its name, as the pipeline knows it: its problems, its play, and its scripted players."""

import json
from collections.abc import Mapping
from functools import partial
from random import Random
from typing import Any

from components.environments.base import NO_TOOLS, AnswerFormat, Retriever, Split, Tools
from components.environments.environment import Demonstrator, Environment, ToolEnvironment, has_joint_step
from components.environments.play import Playthrough, Position, Referee
from components.environments.program import AgentProgram, ProgramEnvironment
from components.environments.returned_values import check_role_names, find_json_fault, find_problem_fault
from components.environments.rules import TurnRules
from components.environments.shared.splits import split_of
from components.errors import ConfigurationError
from components.frozen import Frozen
from components.identity import canonical_json, content_id, seed_for
from components.schema import Problem
from components.text.escaping import show_value
from components.turn_order import BRANCHING, TurnOrder

_MAX_DRAWS = 2000


class Family:
    """All problems of an environment under the name that configurations give it, and how they are played.

    Splits are disjoint by construction: of drawn problems the part that decides the right answers decides the split too.
    """

    def __init__(
        self,
        name: str,
        environment: Environment,
        answer_format: AnswerFormat = "strict",
        *,
        is_custom: bool = True,
        roles: tuple[str, ...] | None = None,
    ) -> None:
        self.name = name
        self.environment = environment
        self.answer_format: AnswerFormat = answer_format
        self.rules = TurnRules(name, environment, answer_format, is_custom=is_custom, roles=roles)

    def under(self, options: Frozen) -> "Family":
        """This family with the roles that `options` give it; itself if they are its own. Raises ConfigurationError."""
        roles = self.rules.call("roles_for", self.environment.roles_for, options)
        if roles == self.roles:
            return self
        if not isinstance(roles, tuple) or not roles or len({*roles}) < len(roles):
            raise ConfigurationError(
                f"environment.name {self.name!r}: roles_for() returned {show_value(roles)}; return different names in a tuple"
            )
        check_role_names(f"environment.name {self.name!r}: roles_for()", roles)
        return Family(self.name, self.environment, self.answer_format, is_custom=self.rules.is_custom, roles=roles)

    @property
    def options_type(self) -> type[Frozen]:
        """The pydantic model of the options."""
        return self.environment.Options

    @property
    def roles(self) -> tuple[str, ...]:
        return self.rules.roles

    @property
    def turn_order(self) -> TurnOrder:
        """The environment's own turn order; by default all at once where answers are given in joint steps alone, and else one
        role after another."""
        if type(self.environment).next_role is not Environment.next_role:
            return BRANCHING
        if self.environment.turn_order:
            return tuple(self.environment.turn_order)
        return (self.roles,) if len(self.roles) > 1 and self.rules.acts_together(self.roles[:1]) else self.roles

    @property
    def has_joint_step(self) -> bool:
        """Whether agents side by side act at once."""
        return has_joint_step(type(self.environment))

    @property
    def is_played_by_programs(self) -> bool:
        """Whether programs play its problems, which ask the policies by themselves."""
        return isinstance(self.environment, ProgramEnvironment)

    @property
    def judges_ends(self) -> bool:
        """Whether the end of a program is judged, and not its answers alone."""
        finish = getattr(type(self.environment), "finish", None)
        return finish not in (None, ProgramEnvironment.finish)

    @property
    def default_weights(self) -> Mapping[str, float]:
        """Reward weights by component: `team.<name>` and `local.<name>`."""
        return self.rules.weights

    @property
    def return_weights(self) -> Mapping[str, float]:
        """The weights in the return of a whole episode that differ from `default_weights`."""
        return self.environment.return_weights

    @property
    def has_solver_value(self) -> bool:
        return self.environment.has_solver_value

    def alphabet(self, options: Frozen) -> str:
        """All characters of observations and answers, in a fixed order."""
        return self.environment.characters(options)

    def max_action_characters(self, options: Frozen) -> int:
        """The length of the longest well-formed answer."""
        return self.environment.longest_answer(options)

    def uses_sandbox(self, options: Frozen) -> bool:
        """Whether programs of agents are run under these options."""
        return isinstance(self.environment, ToolEnvironment) and self.environment.uses_sandbox(options)

    def retriever(self, options: Frozen) -> Retriever | None:
        """What answers queries under these options; None if nothing is asked. Raises ConfigurationError."""
        return self.environment.retriever(options) if isinstance(self.environment, ToolEnvironment) else None

    def problem(self, options: Frozen, *, split: Split, index: int, seed: int) -> Problem:
        """Problem `index` of a split: a pure function of its arguments, always solvable.

        Raises ConfigurationError if the options allow hardly any, or name unreadable data.
        """
        assert isinstance(options, self.options_type), f"{self.name} got options {options!r}"
        read = self.rules.call("problem", self._read, options, split, index, seed)
        found = self._draw(options, split, index, seed) if read is None else self._check_problem("problem", read)
        payload = dict(found)
        kind = "own" if self.rules.is_custom else self.name
        return Problem(problem_id=content_id(kind, payload), environment=self.name, payload=payload)

    def first_program(self, options: Frozen, *, seed: int) -> AgentProgram | None:
        """The program that plays the first training problem; None if none does. Raises ConfigurationError."""
        if not self.is_played_by_programs:
            return None
        return self.rules.program(self.problem(options, split="train", index=0, seed=seed))

    def referee(self, tools: Tools = NO_TOOLS, *, measures_value: bool = False) -> Referee:
        """Who plays by the rules with `tools`."""
        return Referee(self.rules, tools, measures_value=measures_value)

    def build(self, problem: Problem, tools: Tools = NO_TOOLS) -> Playthrough:
        """`problem` at its start."""
        return Playthrough(self.referee(tools), problem)

    @property
    def has_expert(self) -> bool:
        """Whether somebody can show the right answers."""
        return isinstance(self.environment, Demonstrator) or (type(self.environment).expert is not Environment.expert)

    @property
    def copies_proposals(self) -> bool:
        """Whether an earlier agent's answer is also a well-formed answer of the last agent."""
        return isinstance(self.environment, Demonstrator) and self.environment.copies_proposals

    def expert_action(self, position: Position, agent: str) -> str:
        """The expert's answer for `agent`."""
        return self.rules.text("expert", self.environment.expert, position.state, agent)

    def noisy_expert_action(self, position: Position, agent: str, *, noise: float, rng: Random) -> str:
        """Well-formed play in which each elementary move is replaced by a random one with probability `noise`.

        Without a `Demonstrator`, one character of the expert's answer is replaced by a random one of its kind.
        """
        if isinstance(self.environment, Demonstrator):
            play = partial(self.environment.noisy_expert, noise=noise, rng=rng)
            return self.rules.text("noisy_expert", play, position.state, agent)
        answer = self.expert_action(position, agent)
        if not answer or rng.random() >= noise:
            return answer
        place = rng.randrange(len(answer))
        like = [letter for letter in self.environment.alphabet if _kind(letter) == _kind(answer[place])]
        return answer[:place] + rng.choice(like or [answer[place]]) + answer[place + 1 :]

    def random_action(self, position: Position, agent: str, rng: Random) -> str:
        """A well-formed random answer: one of the `choices`, each as likely.

        Without them and a `Demonstrator`, random characters of the same kinds as those of the expert's answer, or any.
        """
        if isinstance(self.environment, Demonstrator):
            play = self.environment.random_answer
            return self.rules.text("random_answer", play, position.state, agent, rng)
        choices = self.rules.choices(position.state, agent)
        if choices is not None:
            return rng.choice(choices)
        if not self.has_expert:
            return "".join(rng.choices(self.environment.alphabet, k=rng.randint(1, 8)))
        answer = self.expert_action(position, agent)
        kinds = set(map(_kind, answer))
        letters = [letter for letter in self.environment.alphabet if _kind(letter) in kinds]
        return "".join(rng.choices(letters, k=len(answer))) if letters else ""

    def scramble(self, position: Position, rng: Random, tools: Tools = NO_TOOLS) -> Position:
        """A random unsolved position of the same problem that can still be solved; the same one without a `Demonstrator`."""
        if not isinstance(self.environment, Demonstrator):
            return position
        state = self.rules.copy_state(position.state)
        return Position(state=self.rules.call("scramble", self.environment.scramble, state, rng, tools))

    def _read(self, options: Frozen, split: Split, index: int, seed: int) -> Mapping[str, Any] | None:
        return self.environment.problem(options, split=split, index=index, seed=seed)

    def _draw(self, options: Frozen, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        rules, environment = self.rules, self.environment
        for attempt in range(_MAX_DRAWS):
            rng = Random(seed_for(seed, self.name, split, index, attempt))
            drawn = rules.call("draw", environment.draw, options, rng)
            if drawn is None:
                continue
            drawn = dict(self._check_problem("draw", drawn))
            deciding = rules.call("deciding", environment.deciding, rules.copy_state(drawn))
            if rules.is_custom:
                rules.refuse("deciding", find_json_fault(deciding))
            if split_of({"deciding": deciding} if rules.is_custom else deciding) != split:
                continue
            payload = rules.call("complete_problem", environment.complete_problem, options, drawn, rng)
            if payload is not None:
                return self._check_problem("complete_problem", payload)
        raise ConfigurationError(
            f"environment.name {self.name!r} with the options {options.model_dump()!r}: no problem of the {split} split in "
            f"{_MAX_DRAWS} draws; {environment.remedy}"
        )

    def _check_problem(self, what: str, problem: Mapping[str, Any]) -> Mapping[str, Any]:
        """A problem that is plain JSON. Raises ConfigurationError for another one of a user's environment."""
        if self.rules.is_custom:
            self.rules.refuse(what, find_problem_fault(problem))
            # As records give it back: subclasses of text and the order of keys do not survive them.
            again: Mapping[str, Any] = json.loads(canonical_json(dict(problem)))
            return again
        return problem


def require_expert(family: Family) -> Family:
    """`family`, if it has an expert. Raises ConfigurationError otherwise."""
    if family.has_expert:
        return family
    raise ConfigurationError(
        f"environment.name {family.name!r} has no expert(state, agent), from which a new model learns the answer grammar; "
        "write one, start from a pretrained model (policies.<name>.base), or from random weights: warm_start: {max_steps: 0}"
    )


def is_cloned(family: Family) -> bool:
    """Whether a model made from nothing is shown the expert's answers first: it can choose among answers without."""
    return family.has_expert or family.answer_format != "choice"


def _kind(letter: str) -> str:
    """The class of a character: digit, letter, or the character itself."""
    return "digit" if letter.isdigit() else "letter" if letter.isalpha() else letter
