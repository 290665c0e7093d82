"""Turn orders: the phases of a turn, in a fixed order or decided by the state."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Protocol, runtime_checkable

from components.identity import GroupKey

TurnOrder = tuple[str | tuple[str, ...], ...]
"""The agents of a turn in order; those of an inner tuple act in parallel. Empty for a team that branches: its environment
decides who acts next.

**Example** `(("solver_a", "solver_b"), "judge")`: both solvers see the state before either has answered, the judge sees both.
"""
BRANCHING: TurnOrder = ()
"""The turn order of a team that branches."""


class Played(Protocol):
    """The part of an environment that phases depend on."""

    @property
    def roles(self) -> tuple[str, ...]: ...

    @property
    def done(self) -> bool: ...


@runtime_checkable
class Branching(Protocol):
    """An environment whose state decides who acts next."""

    def next_agents(self) -> tuple[str, ...]:
        """The agents of the current state: one, or several in parallel; none at the end of the episode."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Agents about to act: one, or several in parallel.

    Parallel agents see the state at the beginning of the phase and are sampled together. Their answers are then applied in the
    order of `agents`, each to the state after the previous one.

    `repeats` counts for each agent its earlier actions in this turn. `is_last`: no agent acts after them, so their answers are
    the team's.
    """

    turn: int
    agents: tuple[str, ...]
    repeats: tuple[int, ...]
    is_last: bool

    def groups(self, problem_id: str, episode: int) -> tuple[GroupKey, ...]:
        """The key of each agent's node."""
        return tuple(
            GroupKey(problem_id=problem_id, episode=episode, turn=self.turn, agent=agent, repeat=repeat)
            for agent, repeat in zip(self.agents, self.repeats, strict=True)
        )


def phases(
    env: Played, turn_order: TurnOrder, max_turns: int | None = None, *, after: Phase | None = None
) -> Iterator[Phase]:
    """The phases of an episode of `env`, up to its end or for `max_turns`. Lazy: each depends on the current state of `env`.
    With `after` they are those that follow this phase.

    In a team that branches every phase is a turn, so `max_turns` bounds the number of actions, and the last of the
    environment's roles answers for the team.

    **Example** the order (a, b, a) for 2 turns: a, b and a with repeats 0, 0 and 1 in turn 0, and the same in turn 1.
    """
    first = 0 if after is None else after.turn if turn_order else after.turn + 1
    for turn in count(first) if max_turns is None else range(first, max_turns):
        if turn_order:
            fixed = _fixed_turn(turn_order, turn)
            for phase in fixed if after is None or turn > after.turn else fixed[fixed.index(after) + 1 :]:
                if env.done:
                    return
                yield phase
        else:
            acting = () if env.done else _next_agents(env)
            if not acting:
                return
            yield Phase(turn=turn, agents=acting, repeats=_repeats(acting, Counter()), is_last=env.roles[-1] in acting)


def place_of(turn_order: TurnOrder, phase: Phase) -> int:
    """The number of actions before `phase` in a turn of a fixed order."""
    fixed = _fixed_turn(turn_order, phase.turn)
    return sum(len(before.agents) for before in fixed[: fixed.index(phase)])


def in_phases(turn_order: TurnOrder) -> tuple[tuple[str, ...], ...]:
    """The agents of each phase of a fixed order."""
    return tuple((entry,) if isinstance(entry, str) else entry for entry in turn_order)


def agents_of(turn_order: TurnOrder, roles: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `roles` that act, each once, in order of their first action; all if the team branches."""
    acting = [agent for agents in in_phases(turn_order) for agent in agents]
    return tuple(dict.fromkeys(acting)) if turn_order else roles


@lru_cache(maxsize=256)
def _fixed_turn(turn_order: TurnOrder, turn: int) -> tuple[Phase, ...]:
    acted: Counter[str] = Counter()
    order = in_phases(turn_order)
    return tuple(
        Phase(turn=turn, agents=agents, repeats=_repeats(agents, acted), is_last=number == len(order) - 1)
        for number, agents in enumerate(order)
    )


def _next_agents(env: Played) -> tuple[str, ...]:
    assert isinstance(env, Branching), f"{type(env).__name__} does not decide who acts next, and no turn order is given"
    return env.next_agents()


def _repeats(agents: tuple[str, ...], acted: Counter[str]) -> tuple[int, ...]:
    """How often each has acted before; adds them to `acted`."""
    repeats = []
    for agent in agents:
        repeats.append(acted[agent])
        acted[agent] += 1
    return tuple(repeats)
