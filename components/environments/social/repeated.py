"""Games in which all members cooperate or compete at once, again and again: their rules as environments.

What is played is in `rules/`; here is what members see of it. They remember the last `memory` steps.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from components.environments.base import JointStep, Split
from components.environments.social.game import WEIGHTS, SocialGame, join_choices, member_names, number, place_of
from components.environments.social.rules.base import ACTIONS, Action, JointState, PayoffRules, cooperation, joint_step
from components.identity import seed_for

NUM_MEMBERS = 8
"""Unless options say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """Where an episode stands, and what each member earned in each step."""

    rules: PayoffRules
    play: JointState
    memory: int
    rewards_T_N: tuple[tuple[float, ...], ...] = ()

    @property
    def seed(self) -> int:
        """What decides all noise."""
        return self.play.seed

    @property
    def num_steps(self) -> int:
        """The steps that were played."""
        return len(self.rewards_T_N)


class RepeatedGame(SocialGame):
    """One such game. It is `solved` if its last joint action is the one with the greatest sum of payoffs."""

    roles = member_names(NUM_MEMBERS)
    weights: ClassVar[Mapping[str, float]] = {**WEIGHTS, "team.cooperation": 0.0}
    Options: ClassVar[type[PayoffRules]]

    def rules(self, options: Any) -> PayoffRules:
        """The rules under `options`, which say them."""
        return options  # type: ignore[no-any-return]

    @abstractmethod
    def explain(self, rules: Any, member: int) -> str:
        """What the game pays, for chat models."""

    def best(self, rules: Any) -> Action:
        """What all do in the joint action with the greatest sum of payoffs."""
        return "cooperate"

    def roles_for(self, options: PayoffRules) -> tuple[str, ...]:
        return member_names(options.num_members)

    def start(self, problem: Mapping[str, Any]) -> Repeated:
        options = self.Options.model_validate({key: problem[key] for key in self.Options.model_fields})
        play = JointState(seed=problem["seed"], episode=problem.get("episode", 0))
        return Repeated(rules=self.rules(options), play=play, memory=options.memory)

    def next_role(self, state: Repeated) -> tuple[str, ...]:
        return member_names(state.rules.num_members)

    def choices(self, state: Repeated, agent: str) -> tuple[str, ...]:
        return ACTIONS

    def longest_answer(self, options: PayoffRules) -> int:
        return max(map(len, ACTIONS))

    def after(self, state: Repeated, played: Mapping[str, str]) -> JointStep:
        members = member_names(state.rules.num_members)
        actions_N = [_action(played[agent]) for agent in members]
        outcome = joint_step(state.rules, state.play, actions_N)
        rewards_T_N = (*state.rewards_T_N, outcome.rewards_N)
        return JointStep(
            state=Repeated(rules=state.rules, play=outcome.state, memory=state.memory, rewards_T_N=rewards_T_N),
            solved=outcome.done and {*actions_N} == {self.best(state.rules)},
            done=outcome.done,
            team={"cooperation": cooperation(actions_N)},
            payoffs=dict(zip(members, outcome.rewards_N, strict=True)),
        )

    def observe(self, state: Repeated, agent: str) -> str:
        """The last steps as this member saw them: what it did, how many others cooperated, what it earned."""
        rules, member = state.rules, place_of(agent)
        return "\n".join(
            [
                f"{agent} of {rules.num_members}, step {state.num_steps + 1} of {rules.num_steps}{self.place(state, member)}",
                *self._past(state, member),
                f"{join_choices(ACTIONS)}?",
            ]
        )

    def place(self, state: Repeated, member: int) -> str:
        """What else a member must know of its place, after a comma."""
        return ""

    def instructions(self, state: Repeated, agent: str) -> str:
        rules, member = state.rules, place_of(agent)
        return (
            f"You are {agent}, one of {rules.num_members} players. In each of {rules.num_steps} steps all players choose "
            f"at once to cooperate or to compete. {self.explain(rules, member)}\n"
            f"Answer with one word and nothing else: {join_choices(ACTIONS)}."
        )

    def render(self, state: Repeated) -> str:
        steps = zip(state.play.actions_T_N, state.rewards_T_N, strict=True)
        lines = [
            f"{step + 1}: {''.join('C' if each == 'cooperate' else 'D' for each in actions_N)}  "
            + " ".join(f"{earned:.3f}" for earned in rewards_N)
            for step, (actions_N, rewards_N) in enumerate(steps)
        ]
        return "\n".join(lines[-8:]) or f"{state.rules.num_members} players, {state.rules.num_steps} steps"

    def _past(self, state: Repeated, member: int) -> list[str]:
        lines = []
        for step in range(max(0, state.num_steps - state.memory), state.num_steps):
            actions_N, num_others = state.play.actions_T_N[step], state.rules.num_members - 1
            others = sum(each == "cooperate" for each in actions_N) - (actions_N[member] == "cooperate")
            lines.append(
                f"step {step + 1}: you {actions_N[member]}, {others} of {num_others} others cooperate, "
                f"you earn {number(state.rewards_T_N[step][member])}"
            )
        return lines


class WarmedUpGame(RepeatedGame):
    """A game whose first training problems are a warm-up."""

    def problem(self, options: Any, *, split: Split, index: int, seed: int) -> Mapping[str, Any]:
        """Training problem `index` is episode `index`; a test problem comes after all of the warm-up."""
        drawn = seed_for(seed, type(self).__name__, split, index)
        episode = index if split == "train" else 2 * options.warmup_episodes
        return {**options.model_dump(mode="json"), "seed": drawn, "episode": episode}


def _action(choice: str) -> Action:
    return "cooperate" if choice == "cooperate" else "compete"
