"""A step of training is a function of its arguments, exact through bytes, and every entry of the state counts."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scripted_advisers import CompetentAdviser
from components.artifacts import codec
from components.config.hybrid import StartsConfig
from components.errors import ArtifactCorrupt
from components.hybrid.agent import AgentRule
from components.hybrid.control import ControlRule
from components.hybrid.decision_history import DecisionHistory
from components.hybrid.experience import (
    Experience,
    HybridSettings,
    StoredArrays,
    collect_experience,
    digest_state,
    new_learner_state,
    update_learner,
)
from components.hybrid.masked_ppo import PPORule

SEED = 3
ADAPTIVE = AgentRule(control=ControlRule())
SETTINGS = HybridSettings(
    num_games=4,
    max_steps=30,
    learner=PPORule(steps=24, minibatch=32, epochs=2),
    agent=ADAPTIVE,
    keeps_decisions=True,
    starts=StartsConfig(share=0.6, kept=2),
)


def advance(state: Any, step: int) -> tuple[Any, Experience]:
    experience = collect_experience(SETTINGS, state, SEED, step, llm_actor=CompetentAdviser())
    stored = codec.decode(codec.encode(experience), Experience)
    assert stored == experience
    return update_learner(SETTINGS, state, stored, SEED)[0], stored


def through_bytes(state: Any) -> Any:
    return codec.decode(codec.encode(StoredArrays.from_arrays(state)), StoredArrays).to_arrays()


@pytest.fixture(scope="module")
def run() -> tuple[Any, Any]:
    """The state after three steps, and the one after four."""
    state = new_learner_state(SETTINGS, SEED)
    for step in range(3):
        state, _ = advance(state, step)
    return state, advance(state, 3)[0]


def test_a_step_after_a_round_trip_through_bytes_is_the_same_step(run: tuple[Any, Any]) -> None:
    before, after = run
    assert digest_state(through_bytes(before)) == digest_state(before)
    assert digest_state(advance(through_bytes(before), 3)[0]) == digest_state(after)
    assert digest_state(advance(before, 4)[0]) != digest_state(after), "the number of the step seeds its chance"


@pytest.mark.parametrize("seed", [1, 2])
def test_no_generator_of_the_process_counts(run: tuple[Any, Any], seed: int) -> None:
    before, after = run
    for seeded in (np.random.seed, random.seed, torch.manual_seed):
        seeded(seed)
    drawn = np.random.get_state()[1].tolist(), random.getstate(), torch.random.get_rng_state().tolist()  # type: ignore[index]
    assert digest_state(advance(before, 3)[0]) == digest_state(after)
    assert (np.random.get_state()[1].tolist(), random.getstate(), torch.random.get_rng_state().tolist()) == drawn  # type: ignore[index]


def test_the_history_of_decisions_changes_no_play(run: tuple[Any, Any]) -> None:
    before, _ = run
    kept, unkept = (
        collect_experience(replace(SETTINGS, keeps_decisions=keeps), before, SEED, 3, llm_actor=CompetentAdviser())
        for keeps in (True, False)
    )
    assert kept.decisions
    assert not unkept.decisions
    assert kept.rollout == unkept.rollout
    games = [
        {name: each for name, each in made.after.to_arrays().items() if name != "agent"} for made in (kept, unkept)
    ]
    assert digest_state(games[0]) == digest_state(games[1])


@pytest.mark.parametrize(
    "left_out",
    ["weights.", "optimizer.", "agent", "games.starts", "games.position.", "games.games.facts.", "games.games._chance_N",
     "games.games._steps_N", "games.games._tiles", "games.games.records.", "games.games._episodes_N"],
)  # fmt: skip
def test_every_entry_of_the_state_counts(run: tuple[Any, Any], left_out: str) -> None:
    before, after = run
    fresh = new_learner_state(SETTINGS, SEED + 1)
    changed = {name: values for name, values in before.items() if not name.startswith(left_out)}
    changed |= {name: values for name, values in fresh.items() if name.startswith(left_out)}
    assert digest_state(advance(changed, 3)[0]) != digest_state(after)


def test_in_adaptive_the_policy_learns_from_its_own_rows_alone(run: tuple[Any, Any]) -> None:
    experience = collect_experience(SETTINGS, run[0], SEED, 3, llm_actor=CompetentAdviser())
    rows, share = experience.rollout.to_arrays()["actions_B"].size, experience.metrics["rollout/llm_share"]
    assert 0 < share < 1
    assert rows == round((1 - share) * SETTINGS.num_games * SETTINGS.learner.steps)


def test_decisions_of_ended_episodes_fit_into_the_history(run: tuple[Any, Any]) -> None:
    state, history = new_learner_state(SETTINGS, SEED), DecisionHistory()
    for step in range(3):
        state, experience = advance(state, step)
        assert history.record(experience.decisions) == len(experience.decisions)
        assert history.record(experience.decisions) == 0, "a stage that is done again"
    assert history.num_decisions() == 2 * 4 * 30
    assert history.analyse() == 8
    assert {each.source for each in history.recent_decisions()} == {"llm", "rl"}


@given(st.lists(st.sampled_from(["<f4", "<f8", "|b1", "<i8", "<u8", "|u1"]), max_size=5), st.integers(0, 2**32))
def test_arrays_are_stored_exactly(types: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = {}
    for number, name in enumerate(types):
        raw = rng.integers(0, 256, (3, number, 8), np.uint8).view("<u8").reshape(3, number)
        arrays[str(number)] = (raw.astype("f8") / 7).astype(name) if "f" in name else raw.astype(name)
    back = through_bytes(arrays)
    assert digest_state(back) == digest_state(arrays)
    assert list(back) == list(arrays)


def test_columns_that_do_not_fit_the_shapes_are_refused() -> None:
    stored = StoredArrays.from_arrays({"x": np.arange(6).reshape(2, 3)})
    for wrong in (replace(stored, ints=stored.ints[:-1]), replace(stored, ints=(*stored.ints, 1))):
        with pytest.raises(ArtifactCorrupt, match=r"array x|are used"):
            wrong.to_arrays()
    with pytest.raises(TypeError, match="array text"):
        StoredArrays.from_arrays({"text": np.array(["a"])})
