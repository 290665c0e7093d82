"""One game, played button by button on the emulator or by its rules, with what its episode has reached."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from components.hybrid.agent import Decided
from components.hybrid.episodes import EpisodeRule
from components.hybrid.game_boy.cartridges import crystal_cartridge, homebrew_cartridge
from components.hybrid.game_boy.games import EmulatedGames
from components.hybrid.game_facts import Booleans, GamesStep, Integers, no_facts, state_variables
from components.hybrid.rewards import RewardWeights, potential
from components.hybrid.twin import Twin
from components.machine.closeable import Closeable

if TYPE_CHECKING:
    from components.hybrid.masked_ppo import MaskedPPO

HOMEBREW, TWIN = "homebrew", "twin"
"""Our own cartridge, and its rules without an emulator, which have no screen."""
_ENDLESS = 1_000_000_000
"""Steps and badges that no episode reaches: who plays ends it."""


class SingleGame(Closeable):
    """A game without end, of which an episode begins by a seed. Equal seeds and buttons give equal games.

    **Example** after `game.begin(7)`, `game.press(5)` walks down to a new tile: .1 for `tiles`, -.01 for `step`.
    """

    def __init__(
        self, rom: str, *, weights: RewardWeights | None = None, renders: bool = False, has_window: bool = False
    ) -> None:
        """`rom` is "homebrew", "twin", or the path of the user's copy of Crystal.

        Raises RomMissing, WrongRom, and ServiceMissing without the emulator or, for a window, without a screen.
        """
        self._weights, self._is_twin = weights or RewardWeights(), rom == TWIN
        self._game: Any = self._new_twin(0) if self._is_twin else self._new_emulated(rom, renders, has_window)
        self._idle_steps = 0

    def begin(self, seed: int) -> None:
        """Start an episode."""
        if self._is_twin:
            self._game = self._new_twin(seed)
        else:
            self._game.begin(np.ones(1, np.bool_), seeds_N=np.array([seed]))
        self._idle_steps = 0

    def press(self, action: int) -> dict[str, float]:
        """What a button earned, term by term."""
        before = self._measure_progress()
        played = self._game.step(np.array([action]))
        self._idle_steps = self._idle_steps + 1 if self._measure_progress() == before else 0
        return {name: float(values[0]) for name, values in played.terms.items()}

    @property
    def facts(self) -> dict[str, int]:
        """The facts of the game now."""
        return {name: int(values[0]) for name, values in self._game.facts.items()}

    @property
    def state(self) -> dict[str, Any]:
        """The facts, and what the episode has reached: `visited_tiles`, `visited_maps`, `potential`, and the `idle_steps` since
        any of it grew."""
        return {**self.facts, **self._measure_progress(), "idle_steps": self._idle_steps}

    @property
    def mask_A(self) -> Booleans:
        """The actions that are allowed now (9,)."""
        return np.asarray(self._game.masks()[0], np.bool_)

    @property
    def variables_S(self) -> NDArray[np.float32]:
        """The state variables now (25,)."""
        return np.asarray(state_variables(self._game.facts)[0], np.float32)

    @property
    def screen(self) -> NDArray[np.uint8]:
        """The last frame (144, 160, 3)."""
        return np.asarray(self._game.screens()[0], np.uint8)

    def close(self) -> None:
        """Close the emulator, if there is one."""
        if not self._is_twin:
            self._game.close()

    def _measure_progress(self) -> Mapping[str, float]:
        records = self._game.records
        visited = {"visited_tiles": int(records.tiles[0]), "visited_maps": int(records.maps[0])}
        return {**visited, "potential": float(potential(records, self._weights)[0])}

    def _new_twin(self, seed: int) -> Twin:
        return Twin(1, seed=seed, rule=EpisodeRule(max_steps=_ENDLESS, goal_badges=_ENDLESS, weights=self._weights))

    def _new_emulated(self, rom: str, renders: bool, has_window: bool) -> EmulatedGames:
        from components.hybrid.game_boy.pyboy_emulator import PyBoyEmulator

        cartridge = homebrew_cartridge() if rom == HOMEBREW else crystal_cartridge(Path(rom))
        rule = EpisodeRule(max_steps=_ENDLESS, goal_badges=_ENDLESS, weights=self._weights)
        emulator = PyBoyEmulator(cartridge.rom, has_window=has_window)
        return EmulatedGames(cartridge, [emulator], seed=0, rule=rule, renders=renders or has_window)


class PlayedSteps:
    """The steps of one game since the policy last learned: games that go as they went, for `MaskedPPO.collect`.

    Log-probabilities and values are then those of play, as the policy does not change between two lessons.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[NDArray[Any], Booleans, Decided, GamesStep]] = []
        self._at = 0

    def learn_from(
        self, seen: NDArray[Any], mask_A: Booleans, decided: Decided, step: GamesStep, learner: "MaskedPPO"
    ) -> bool:
        """Whether the learner has learned with this step, before which it saw that: from as many as its rule wants.

        It learns from its own decisions alone.

        **Example** a rule of 128 steps: the 128th step is the first lesson, the 256th the next one.
        """
        self._rows.append((seen, mask_A, decided, step))
        if len(self._rows) < learner.rule.steps:
            return False
        self._at = 0
        rollout = learner.collect(self, self.choose)
        self._rows = []
        if rollout.num_rows:
            learner.update(rollout)
        return rollout.num_rows > 0

    def states(self) -> NDArray[Any]:
        return self._rows[-1][3].states_N_S if self._at == len(self._rows) else self._rows[self._at][0][None]

    def masks(self) -> NDArray[Any]:
        return self._rows[self._at][1][None]

    def choose(self, states_N_S: NDArray[Any], masks_N_A: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        decided = self._rows[self._at][2]
        return decided.actions_N, ~decided.by_llm_N

    def step(self, actions_N: Integers) -> GamesStep:
        self._at += 1
        return self._rows[self._at - 1][3]


def step_of_game(reward: float, final_S: NDArray[Any], *, ended: bool, cut: bool) -> GamesStep:
    """What a step of one game brought that told nothing else: reward, the state after it, and whether it ended or was cut."""
    facts = no_facts(1)
    return GamesStep(
        states_N_S=final_S[None],
        final_states_N_S=final_S[None],
        final_facts=facts,
        rewards_N=np.array([reward], np.float64),
        terms={},
        ended_N=np.array([ended], np.bool_),
        cut_N=np.array([cut], np.bool_),
        starter_N=facts["x"] > 0,
        lengths_N=facts["x"],
    )
