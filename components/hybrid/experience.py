"""A step of hybrid training as two functions without side effects: play and collect, then learn from what was collected.

    state = new_learner_state(settings, seed)
    experience = collect_experience(settings, state, seed, step)
    state, metrics = update_learner(settings, state, experience, seed)

Both depend on their arguments alone, so that a stage that is done again has the same result. The whole state is one dictionary
of arrays; these entries decide how a run goes on, and are what a digest must cover:

| entry | what | whose |
|---|---|---|
| `weights.*` | policy and value function | `update_learner` |
| `optimizer.*` | moments and steps of Adam | `update_learner` |
| `games.*` | facts, records, visited tiles, met subgoals, steps, episodes and chance of each game | `collect_experience` |
| `games.starts`, `games.position.*`, `games.from_start_N` | curriculum and kept positions, with a `StartsConfig` | likewise |
| `curriculum.*` | the stage, its trust and rewards, and what open episodes have earned, with a `CurriculumConfig` | likewise |
| `agent` | arbiter, open episodes, kept answers, recent actions and states | likewise |

Not in it: generators, since each function is seeded by (seed, step); `num_updates`, which is the step.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from components.config.hybrid import CurriculumConfig, StartsConfig
from components.errors import ArtifactCorrupt
from components.hybrid.agent import AgentRule, HybridAgent
from components.hybrid.arbitration import Mode
from components.hybrid.control import ControlRule
from components.hybrid.decision_history import Decision
from components.hybrid.episodes import EpisodeRule
from components.hybrid.llm_actor import LlmActor
from components.hybrid.masked_ppo import MaskedPPO, PPORule, Rollout
from components.hybrid.recording_games import GamesCurriculum, RecordingGames, SnapshotGames
from components.hybrid.start_positions import GamesFromPositions
from components.hybrid.twin import Twin
from components.identity import seed_for


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArrays:
    """Arrays of numbers and truth values: their names, types and shapes, and all their values in two columns.

    Floats are kept as float64, which holds every float32 and float16; whole numbers and truth values as int64, in which an
    unsigned number of 64 bits keeps its bits. Equal arrays give equal values.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    ints: tuple[int, ...]
    floats: tuple[float, ...]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """These arrays as one value. Raises TypeError for an array of anything but numbers and truth values.

        **Example** {"x": float32 (2, 3), "over": bool (2,)}: 6 floats, 2 ints.
        """
        ints: list[int] = []
        floats: list[float] = []
        for name, array in arrays.items():
            if array.dtype.kind == "f" and array.dtype.itemsize <= 8:
                floats += array.ravel().tolist()
            elif array.dtype.kind in "iub":
                ints += _view_signed(array).ravel().tolist()
            else:
                raise TypeError(f"array {name}: a {array.dtype} cannot be stored exactly")
        return cls(
            names=tuple(arrays),
            types=tuple(array.dtype.str for array in arrays.values()),
            shapes=tuple(array.shape for array in arrays.values()),
            ints=tuple(ints),
            floats=tuple(floats),
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays, bit for bit. Raises ArtifactCorrupt where the columns do not hold what the shapes say."""
        arrays: dict[str, NDArray[Any]] = {}
        ints, floats = np.array(self.ints, np.int64), np.array(self.floats, np.float64)
        num_ints = num_floats = 0
        for name, type_name, shape in zip(self.names, self.types, self.shapes, strict=True):
            dtype, size = np.dtype(type_name), prod(shape)
            if dtype.kind == "f":
                array: NDArray[Any] = floats[num_floats : num_floats + size].astype(dtype)
                num_floats += size
            else:
                part = ints[num_ints : num_ints + size]
                array = part.view(np.uint64) if dtype == np.uint64 else part.astype(dtype)
                num_ints += size
            if len(array) != size:
                raise ArtifactCorrupt(f"array {name} of shape {shape}: {len(array)} of its {size} values are there")
            arrays[name] = array.reshape(shape).copy()
        if (num_ints, num_floats) != (len(ints), len(floats)):
            raise ArtifactCorrupt(
                f"{len(ints)} ints and {len(floats)} floats, of which {num_ints} and {num_floats} are used"
            )
        return arrays


def _view_signed(array: NDArray[Any]) -> NDArray[np.int64]:
    contiguous = np.ascontiguousarray(array)
    return contiguous.view(np.int64) if array.dtype == np.uint64 else contiguous.astype(np.int64)


LearnerState = dict[str, NDArray[Any]]
_RL_ONLY = AgentRule(control=ControlRule(mode=Mode.RL_ONLY))


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridSettings(EpisodeRule):
    """What is played and how it is learned: fixed for a run. Without `starts` all episodes begin at the start.

    In ADAPTIVE a `curriculum` says which share the language model has, and how sure it must be.

    `keeps_decisions` collects the decisions for the history; it costs a tenth of a millisecond each.
    """

    num_games: int = 64
    max_steps: int = 600
    goal_badges: int = 2
    learner: PPORule = field(default_factory=PPORule)
    agent: AgentRule = _RL_ONLY
    starts: StartsConfig | None = None
    curriculum: CurriculumConfig | None = None
    keeps_decisions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Experience:
    """What one step of play brought: rows to learn from, the state of games and agent after it, and decisions for the history.

    `goals_from_start` tells of each ended episode that began at the true start whether it reached the goal. `decisions` are
    those of the episodes that ended, where the settings keep them. `metrics` have the names of `components/metrics.py`'s areas.
    """

    step: int
    rollout: StoredArrays
    after: StoredArrays
    decisions: tuple[Decision, ...]
    goals_from_start: tuple[bool, ...]
    metrics: dict[str, float]


@dataclass(slots=True)
class StepAdvice:
    """The draw behind each decision of a step, and each decision's advantage, for a language model that learns."""

    draws_T_N: Sequence[Sequence[int | None]] = ()
    advantages_T_N: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))


GamesOpener = Callable[[HybridSettings, int], AbstractContextManager[SnapshotGames]]
"""Opens the games of these settings with this seed."""


def open_twins(settings: HybridSettings, seed: int) -> AbstractContextManager[SnapshotGames]:
    """The games on the cartridge's rules in NumPy, which have no screen."""
    assert not settings.learner.sees_screens, settings.learner
    twin = Twin(settings.num_games, seed=seed, rule=settings)
    return nullcontext(twin if settings.starts is None else GamesFromPositions(twin, settings.starts, seed=seed))


def new_learner_state(settings: HybridSettings, seed: int, *, open_games: GamesOpener = open_twins) -> LearnerState:
    """The state before the first step."""
    learner = MaskedPPO(settings.learner, seed=seed_for(seed, "weights"))
    with open_games(settings, seed) as games:
        return learner.to_arrays() | _prefix("games.", games.snapshot())


def collect_experience(
    settings: HybridSettings,
    state: Mapping[str, NDArray[Any]],
    seed: int,
    step: int,
    *,
    llm_actor: LlmActor | None = None,
    open_games: GamesOpener = open_twins,
    advised: "StepAdvice | None" = None,
) -> Experience:
    """The experience of one step: `settings.learner.steps` decisions in each game; what was advised is put into `advised`.

    **Example** 64 games, 64 steps: 4,096 rows in RL_ONLY; fewer where a language model decided, since the policy does not learn
    from another's actions.
    """
    learner = _learner_from(settings, state)
    learner.reseed(seed_for(seed, "collect_experience", step))
    decisions: list[Decision] = []
    agent = HybridAgent(
        settings.agent,
        settings.num_games,
        seed=seed,
        policy=learner,
        llm_actor=llm_actor,
        history=_Ended(decisions) if settings.keeps_decisions else None,
        clock=lambda: 0.0,
    )
    if "agent" in state:
        agent.load_state_dict(json.loads(state["agent"].tobytes()))
    curriculum = None if settings.curriculum is None else GamesCurriculum(settings.curriculum, agent, state)
    with open_games(settings, seed) as games:
        games.restore(_below(state, "games."))
        watched = RecordingGames(games, agent, curriculum)
        rollout, advantages_T_N = learner.collect_with_advantages(watched, watched.choose)
        if advised is not None:
            advised.draws_T_N, advised.advantages_T_N = watched.draws_T_N, advantages_T_N
        after = _prefix("games.", games.snapshot())
    after["agent"] = np.frombuffer(json.dumps(agent.state_dict()).encode(), np.uint8)
    if curriculum is not None:
        after |= curriculum.to_arrays()
    return Experience(
        step=step,
        rollout=StoredArrays.from_arrays(rollout.to_arrays()),
        after=StoredArrays.from_arrays(after),
        decisions=tuple(decisions),
        goals_from_start=tuple(watched.goals_from_start),
        metrics=watched.metrics(),
    )


def update_learner(
    settings: HybridSettings, state: Mapping[str, NDArray[Any]], experience: Experience, seed: int
) -> tuple[LearnerState, dict[str, float]]:
    """The state after learning from the experience, and the metrics of both.

    **Example** 4,096 rows, minibatches of 1,024, 4 epochs: 16 steps of the optimiser.
    """
    learner = _learner_from(settings, state)
    learner.reseed(seed_for(seed, "update_learner", experience.step))
    rollout = Rollout.from_arrays(experience.rollout.to_arrays())
    trained = learner.update(rollout) if rollout.num_rows else {}
    metrics = experience.metrics | {f"train/policy/{name}": value for name, value in trained.items()}
    return learner.to_arrays() | experience.after.to_arrays(), metrics


def read_policy(settings: HybridSettings, state: Mapping[str, NDArray[Any]], *, seed: int) -> MaskedPPO:
    """The policy of a state, for evaluation: its chance begins at the seed."""
    learner = _learner_from(settings, state)
    learner.reseed(seed)
    return learner


def digest_state(state: Mapping[str, NDArray[Any]]) -> str:
    """A digest of all entries of a state: their names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(state):
        values = np.ascontiguousarray(state[name])
        digest.update(f"{name} {values.dtype.str} {values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


class _Ended:
    """Takes the decisions of ended episodes."""

    def __init__(self, decisions: list[Decision]) -> None:
        self._decisions = decisions

    def record(self, decisions: Any) -> int:
        self._decisions.extend(decisions)
        return len(decisions)


def _learner_from(settings: HybridSettings, state: Mapping[str, NDArray[Any]]) -> MaskedPPO:
    learner = MaskedPPO(settings.learner, seed=0)
    learner.load_arrays(state)
    return learner


def _prefix(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> LearnerState:
    return {f"{prefix}{name}": values for name, values in arrays.items()}


def _below(arrays: Mapping[str, NDArray[Any]], prefix: str) -> LearnerState:
    return {name.removeprefix(prefix): values.copy() for name, values in arrays.items() if name.startswith(prefix)}
