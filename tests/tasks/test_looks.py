"""One look at a step's records answers for each of its stages once, and for nothing that it did not see."""

from pathlib import Path

from components.artifacts.local import LocalArtifactStore
from components.artifacts.stage import manifest_key
from components.identity import StageKey
from flows.presets import preset_config
from tasks.looks import one_look, seen_attempts
from tasks.run import Run

RUN = Run(run_id="r", config=preset_config("tiny"))


def key(step: int, stage: str = "compute_rewards", run_id: str = "r") -> StageKey:
    return StageKey(run_id=run_id, step=step, stage=stage, version=1, part="0", lineage=0, depends_on="00ff")


def test_a_look_says_once_of_each_stage_of_its_step_that_it_is_absent(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)
    store.create(manifest_key(key(3, "collect_rollouts")), b"{}")
    store.create(f"{key(3).path}/attempts/0001.json", b"{}")
    with one_look(store, RUN, 3):
        assert seen_attempts(key(3)) == 1
        assert seen_attempts(key(3)) is None, "a second attempt must look for itself"
        assert seen_attempts(key(3, "collect_rollouts")) is None
        assert seen_attempts(key(4)) is None
        assert seen_attempts(key(3, run_id="other")) is None
        assert seen_attempts(key(3, "update_policy")) == 0
    assert seen_attempts(key(3, "publish_checkpoint")) is None
