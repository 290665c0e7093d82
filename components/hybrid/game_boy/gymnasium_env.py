"""A game as a Gymnasium environment; the only module that imports gymnasium."""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigurationError, ServiceMissing
from components.hybrid.game_boy.cartridges import Cartridge, homebrew_cartridge
from components.hybrid.game_boy.emulator import SCREEN_SHAPE
from components.hybrid.game_boy.games import EmulatedGames, EpisodeRule
from components.hybrid.game_boy.pyboy_emulator import PyBoyEmulator
from components.hybrid.game_facts import NUM_ACTIONS, STATE_VARIABLES, Booleans
from components.package_files import install_command

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    remedy = install_command("extras", "'troupe[hybrid]'")
    raise ServiceMissing(f"gymnasium is not installed: {remedy}") from error

ObservationType = Literal["multi_modal", "screen", "state"]
_ONE = np.ones(1, np.bool_)


class GameBoyEnv(gymnasium.Env[Any, np.int64]):
    """One game of a cartridge, ours without an argument.

    Observations are the 25 state variables (`state`), the screen of 144 x 160 x 3 (`screen`), or both under the keys `screen`
    and `state_variables` (`multi_modal`). `info` has `action_mask` (9,), which holds for the next step, the whole numbers
    `facts`, and after a step `reward_terms`, whose sum is the reward.

    **Example** `env.reset(seed=7)` twice gives the same episode; `env.step(5)` walks down: .1 for a new tile, less .01.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 60}  # noqa: RUF012  (the name and its form are gymnasium's)

    def __init__(
        self,
        cartridge: Cartridge | None = None,
        *,
        observation_type: ObservationType = "multi_modal",
        rule: EpisodeRule | None = None,
        render_mode: str | None = None,
    ) -> None:
        if observation_type not in get_args(ObservationType):
            raise ConfigurationError(
                f"observation_type {observation_type!r}: choose one of {', '.join(get_args(ObservationType))}"
            )
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigurationError(f"render_mode {render_mode!r}: give 'rgb_array' or None")
        self.render_mode, self._observation_type = render_mode, observation_type
        screen = spaces.Box(0, 255, SCREEN_SHAPE, np.uint8)
        state = spaces.Box(0, 1, (len(STATE_VARIABLES),), np.float32)
        both = spaces.Dict({"screen": screen, "state_variables": state})
        choices: dict[str, gymnasium.Space[Any]] = {"screen": screen, "state": state, "multi_modal": both}
        self.observation_space = choices[observation_type]
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        cartridge = cartridge or homebrew_cartridge()
        renders = observation_type != "state" or render_mode is not None
        self._games = EmulatedGames(cartridge, [PyBoyEmulator(cartridge.rom)], seed=0, rule=rule, renders=renders)
        self._is_closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The first observation and info of a new episode, by the seed or the next of its sequence.

        The option `state` is what `save_state` returned, to begin there. Raises ConfigurationError for any other option.
        """
        super().reset(seed=seed)
        options = options or {}
        if unknown := sorted(options.keys() - {"state"}):
            raise ConfigurationError(f"options {', '.join(unknown)}: only 'state' is known")
        seeds = self.np_random.integers(np.iinfo(np.int64).max, size=1)
        self._games.begin(_ONE, seeds_N=seeds, state=options.get("state"))
        return self._observation(), self._info()

    def step(self, action: np.int64 | int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated (the badges are won), truncated (the limit of steps), info."""
        played = self._games.play(np.array([int(action)]))
        terms = {name: float(values[0]) for name, values in played.terms.items()}
        over = bool(played.ended_N[0]), bool(played.cut_N[0])
        return self._observation(), float(played.rewards_N[0]), *over, self._info() | {"reward_terms": terms}

    def render(self) -> NDArray[np.uint8] | None:
        """The last frame, if the mode is `rgb_array`."""
        return self._games.screens()[0] if self.render_mode else None

    def action_masks(self) -> Booleans:
        """The actions that are allowed now (9,), by the name that sb3-contrib's learners look for."""
        mask_A: Booleans = self._games.masks()[0]
        return mask_A

    def save_state(self) -> bytes:
        """The game now, for the option `state` of `reset`."""
        return self._games.save_states()[0]

    def close(self) -> None:
        """Close the emulator; once more does nothing."""
        if not self._is_closed:
            self._is_closed = True
            self._games.close()

    def _observation(self) -> Any:
        if self._observation_type == "state":
            return self._games.states()[0]
        screen = self._games.screens()[0]
        if self._observation_type == "screen":
            return screen
        return {"screen": screen, "state_variables": self._games.states()[0]}

    def _info(self) -> dict[str, Any]:
        facts = {name: int(values[0]) for name, values in self._games.facts.items()}
        return {"action_mask": self.action_masks(), "facts": facts}
