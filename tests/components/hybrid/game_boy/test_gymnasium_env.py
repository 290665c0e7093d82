"""The environment is one that Gymnasium's own checker accepts, and a seed decides its episodes."""

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from components.errors import ConfigurationError
from components.hybrid.game_boy.games import EpisodeRule
from components.hybrid.game_boy.gymnasium_env import GameBoyEnv
from components.hybrid.game_facts import Action
from components.package_files import SOURCE_ROOT


@pytest.fixture
def env() -> Iterator[GameBoyEnv]:
    env = GameBoyEnv(observation_type="state", rule=EpisodeRule(max_steps=12))
    yield env
    env.close()


@pytest.mark.parametrize("observation_type", ["state", "screen", "multi_modal"])
def test_gymnasiums_checker_is_content_with_warnings_as_errors(observation_type: str) -> None:
    name = f"troupe/game-boy-{observation_type.replace('_', '-')}-v0"
    gymnasium.register(name, entry_point=GameBoyEnv)
    try:
        env = gymnasium.make(name, observation_type=observation_type, render_mode="rgb_array")
        check_env(env.unwrapped)
        env.close()
        env.close()
    finally:
        del gymnasium.registry[name]


def episode(env: GameBoyEnv, **how: Any) -> list[Any]:
    env.reset(**how)
    rng, seen, over = np.random.default_rng(1), [], False
    while not over:
        state, reward, ended, cut, info = env.step(rng.choice(np.flatnonzero(env.action_masks())))
        assert env.observation_space.contains(state)
        assert reward == pytest.approx(sum(info["reward_terms"].values()))
        seen.append((state.tolist(), reward, info["facts"], info["action_mask"].tolist()))
        over = ended or cut
    return [*seen, env._games.digests()]


def test_a_seed_decides_an_episode_and_the_next_ones(env: GameBoyEnv) -> None:
    first = [episode(env, seed=7), episode(env)]
    assert [episode(env, seed=7), episode(env)] == first
    assert first[0] != first[1]
    assert len(first[0]) == 12 + 1


def test_an_episode_begins_at_a_saved_state(env: GameBoyEnv) -> None:
    env.reset(seed=0)
    env.step(Action.RIGHT)
    state = env.save_state()
    env.step(Action.RIGHT)
    _, info = env.reset(seed=1, options={"state": state})
    assert (info["facts"]["x"], info["facts"]["facing"]) == (5, 12)
    with pytest.raises(ConfigurationError, match="options level: only 'state'"):
        env.reset(options={"level": 1})


@pytest.mark.parametrize(("missing", "module"), [("pyboy", "pyboy_emulator"), ("gymnasium", "gymnasium_env")])
def test_a_missing_library_is_named_with_how_to_get_it(missing: str, module: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import components.hybrid.game_boy.{module}"
    ended = subprocess.run([sys.executable, "-c", code], cwd=SOURCE_ROOT, capture_output=True, text=True)
    assert re.search(rf"ServiceMissing: .*{missing} is not installed: `make extras`", ended.stderr, re.IGNORECASE)


def test_unknown_choices_are_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="observation_type 'sound': choose one of multi_modal, screen, state"):
        GameBoyEnv(observation_type="sound")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="render_mode 'human'"):
        GameBoyEnv(render_mode="human")
