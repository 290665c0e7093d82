"""What is read of a step's rollouts: authoritative rewards, advantages, and notes of what is missing or damaged."""

import json
import shutil
from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.errors import ConfigurationError
from components.runs.lineages import start_lineage
from components.session.prompt_texts import prompt_texts
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.committed_runs import CONFIG, ReadOnlyStore, start_run
from tests.exported_runs import PROMPTS, export_run
from tests.recorded_rollouts import candidate, commit_rollouts, episode, node, shard
from tests.sections import choose_algorithm
from troupe.viewing.recorded import read_recorded

PAIR = episode(node(candidate("U", reward=9.0), candidate("D", reward=9.0)))


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "store")


def test_rewards_are_those_of_the_reward_stage_and_advantages_follow_from_them(store: LocalArtifactStore) -> None:
    run = start_run(store, "r")
    commit_rollouts(store, run, shard(0, 0, PAIR), rewards=[(((1.0, 0.0)),)])
    commit_rollouts(store, run, shard(0, 1, PAIR), rewards=[((3.0, None),)])
    found = read_recorded(ReadOnlyStore(Path(store.uri.removeprefix("file://"))), "r")
    first, second = found.episodes
    assert (found.step, found.notes, first.shard, second.shard) == (0, (), 0, 1)
    assert (first.rewards_N_K, second.rewards_N_K) == (((1.0, 0.0),), ((3.0, None),))
    assert first.advantages_N_K is not None
    assert first.advantages_N_K[0] == pytest.approx((1.0, -1.0), abs=1e-3)
    assert second.advantages_N_K == ((0.0, None),)
    assert found.versions["team"].weights_digest == "w0"


def test_without_the_reward_stage_the_sampler_speaks(store: LocalArtifactStore) -> None:
    run = start_run(store, "r")
    commit_rollouts(store, run, shard(0, 0, PAIR), rewards=[((1.0, 0.0),)])
    commit_rollouts(store, run, shard(0, 1, PAIR))
    found = read_recorded(store, "r", 0)
    assert [(each.is_scored, each.rewards_N_K) for each in found.episodes] == [
        (True, ((1.0, 0.0),)),
        (False, ((9.0, 9.0),)),
    ]
    assert all(each.advantages_N_K is None for each in found.episodes)
    assert found.notes == (
        "no rewards of shard 1: shown are those by which the sampler chose",
        "no advantages: they need the rewards of all shards of the step",
    )


@pytest.mark.parametrize("damage", ["payload", "missing", "manifest"])
def test_a_damaged_shard_is_named_with_its_remedy_beside_a_sound_one(store: LocalArtifactStore, damage: str) -> None:
    run = start_run(store, "r")
    for number in (0, 1):
        commit_rollouts(store, run, shard(0, number, PAIR), rewards=[((1.0, 0.0),)])
    root = Path(store.uri.removeprefix("file://"))
    [manifest] = root.glob("runs/r/steps/000000/collect_rollouts-*/1/*/manifest.json")
    file = manifest if damage == "manifest" else root / json.loads(manifest.read_text())["output"]["key"]
    file.unlink() if damage == "missing" else file.write_bytes(file.read_bytes()[:40])
    found = read_recorded(store, "r", 0)
    assert [each.shard for each in found.episodes] == [0]
    assert found.episodes[0].advantages_N_K is None
    text = " ".join(found.notes)
    assert "`troupe verify r" in text
    assert ("manifest.json" in text) == (damage == "manifest")


def test_a_restart_counts_and_the_step_keeps_its_own_algorithm(store: LocalArtifactStore) -> None:
    run = start_run(store, "r")
    commit_rollouts(store, run, shard(0, 0, PAIR), rewards=[((1.0, 0.0),)])
    plain = CONFIG.model_copy(update={"algorithm": CONFIG.algorithm.model_copy(update={"normalize_std": False})})
    start_lineage(
        store,
        "r",
        from_step=1,
        from_stage="collect_rollouts",
        repeats=PIPELINE.repeats("collect_rollouts"),
        config=plain,
    )
    commit_rollouts(store, run, shard(1, 0, PAIR), rewards=[((0.0, 0.0),)], lineage=0)
    commit_rollouts(store, run, shard(1, 0, PAIR), rewards=[((1.0, 0.0),)], lineage=1)
    before, after = (read_recorded(store, "r", step).episodes for step in (0, 1))
    assert [each.advantages_N_K for each in after] == [((0.5, -0.5),)]
    assert before[0].advantages_N_K is not None
    assert before[0].advantages_N_K[0] == pytest.approx((1.0, -1.0), abs=1e-3)


def test_own_advantages_are_not_run(store: LocalArtifactStore) -> None:
    config = preset_config("tiny")
    own = choose_algorithm(advantage="mine:advantages")
    run = start_run(store, "r")
    start_lineage(
        store,
        "r",
        from_step=1,
        from_stage="collect_rollouts",
        repeats=PIPELINE.repeats("collect_rollouts"),
        config=config.model_copy(update={"algorithm": own}),
    )
    commit_rollouts(store, run, shard(1, 0, PAIR), rewards=[((1.0, 0.0),)], lineage=1)
    found = read_recorded(store, "r", 1)
    assert found.notes == ("no advantages: mine:advantages is the run's own code, which is not run here",)


@pytest.mark.parametrize(
    ("run_id", "step", "message"),
    [
        ("q", None, "run 'q' is not in"),
        ("r", 7, "--step 7: run 'r' has no rollouts of it; it has no finished step"),
        ("empty", None, "run 'empty' has no rollouts yet"),
    ],
)
def test_what_is_not_there_is_told(store: LocalArtifactStore, run_id: str, step: int | None, message: str) -> None:
    commit_rollouts(store, start_run(store, "r"), shard(0, 0, PAIR))
    start_run(store, "empty")
    with pytest.raises(ConfigurationError, match=message):
        read_recorded(store, run_id, step)


def test_prompts_are_read_by_the_tokenizers_of_the_checkpoints(tmp_path: Path) -> None:
    made = export_run(tmp_path)
    recorded = read_recorded(made.store, "team", 1)
    texts, notes = prompt_texts(made.store, recorded.run, recorded.step, recorded.config.policies)
    nodes = recorded.episodes[0].episode.nodes
    assert {each.group.agent: texts[each.policy](each.prompt_tokens) for each in nodes} == PROMPTS
    assert texts["judge"]((72, 105, 257, 97)) == "Hi\na"
    assert notes == ()
    shutil.rmtree(tmp_path / "store" / "folders")
    texts, notes = prompt_texts(made.store, recorded.run, recorded.step, recorded.config.policies)
    assert set(texts) == {"judge"}
    assert notes[0] == "prompts of tool are shown as token ids: no checkpoint with its tokenizer is in the store"
