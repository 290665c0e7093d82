"""Turn orders: the phases of a turn, in a fixed order or decided by the state."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from components.identity import GroupKey

TurnOrder = tuple[str | tuple[str, ...], ...]
"""The agents of a turn in order; those of an inner tuple act in parallel. Empty for a team that branches: its environment
decides who acts next.

**Example** `(("solver_a", "solver_b"), "judge")`: both solvers see the state before either has answered, the judge sees both.
"""
BRANCHING: TurnOrder = ()
"""The turn order of a team that branches."""


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


def phase_after(turn_order: TurnOrder, after: Phase | None, *, max_turns: int | None = None) -> Phase | None:
    """The phase that follows `after` in a fixed order, the first of an episode after None; None after `max_turns`.

    **Example** the order (a, b, a) for 2 turns: a, b and a with repeats 0, 0 and 1 in turn 0, and the same in turn 1.
    """
    turn, number = 0, 0
    if after is not None:
        fixed = _make_fixed_turn(turn_order, after.turn)
        turn, number = divmod(after.turn * len(fixed) + fixed.index(after) + 1, len(fixed))
    return None if max_turns is not None and turn >= max_turns else _make_fixed_turn(turn_order, turn)[number]


def branching_phase(
    agents: tuple[str, ...], after: Phase | None, *, roles: tuple[str, ...], max_turns: int | None = None
) -> Phase | None:
    """The phase in which `agents`, chosen by the state, act after `after` in a team that branches; None without agents, and
    after `max_turns`.

    Every phase is a turn, so `max_turns` bounds the number of actions, and the last of `roles` answers for the team.
    """
    turn = 0 if after is None else after.turn + 1
    if not agents or (max_turns is not None and turn >= max_turns):
        return None
    return Phase(turn=turn, agents=agents, repeats=_repeats(agents, Counter()), is_last=roles[-1] in agents)


def place_of(turn_order: TurnOrder, phase: Phase) -> int:
    """The number of actions before `phase` in a turn of a fixed order."""
    fixed = _make_fixed_turn(turn_order, phase.turn)
    return sum(len(before.agents) for before in fixed[: fixed.index(phase)])


def in_phases(turn_order: TurnOrder) -> tuple[tuple[str, ...], ...]:
    """The agents of each phase of a fixed order."""
    return tuple((entry,) if isinstance(entry, str) else entry for entry in turn_order)


def agents_of(turn_order: TurnOrder, roles: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `roles` that act, each once, in order of their first action; all if the team branches."""
    acting = [agent for agents in in_phases(turn_order) for agent in agents]
    return tuple(dict.fromkeys(acting)) if turn_order else roles


@lru_cache(maxsize=256)
def _make_fixed_turn(turn_order: TurnOrder, turn: int) -> tuple[Phase, ...]:
    acted: Counter[str] = Counter()
    order = in_phases(turn_order)
    return tuple(
        Phase(turn=turn, agents=agents, repeats=_repeats(agents, acted), is_last=number == len(order) - 1)
        for number, agents in enumerate(order)
    )


def _repeats(agents: tuple[str, ...], acted: Counter[str]) -> tuple[int, ...]:
    """How often each has acted before; adds them to `acted`."""
    repeats = []
    for agent in agents:
        repeats.append(acted[agent])
        acted[agent] += 1
    return tuple(repeats)
