"""A damaged run is told object by object, each with a remedy, and what the remedy says heals it."""

import errno
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.artifacts.records import with_digest
from components.errors import ArtifactCorrupt, ArtifactMissing, ConfigurationError, StoreUnavailable
from components.runs import history
from components.runs.gc import collect_garbage
from components.runs.restarts import Restart, record_restart
from components.runs.verify import VerifyReport, verify_run
from flows.train import PIPELINE
from tests.components.runs.whole_runs import changed, committed, document, resumed, whole_run
from troupe.runs.documents import read_run

STEP_2 = r"`troupe resume r --from-stage {} --step 2 --store file://\S+`"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The store of a run with a record of every kind."""
    root = tmp_path_factory.mktemp("whole") / "store"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "STEPS_PER_BLOCK", 2)
        whole_run(root)
        yield root


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "store"))


def verified(root: Path) -> VerifyReport:
    return verify_run(LocalArtifactStore(root), "r", PIPELINE)


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


def one(root: Path, pattern: str) -> Path:
    [found] = root.glob(pattern)
    return found


def manifest(root: Path, stage: str, step: int = 2) -> Path:
    return one(root, f"runs/r/steps/{step:06d}/{stage}-v*/*/*/manifest.json")


def payload(root: Path, stage: str, step: int = 2) -> Path:
    return one(root, re.findall(r"payloads/\w\w/\w+", manifest(root, stage, step).read_text())[0])


def checkpoint_file(root: Path, name: str, step: int = 2) -> Path:
    folder = document(manifest(root, "update_policy", step))["output"]["checkpoint"]["folder"]["key"]
    return root / folder / name


def cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-1])
    return path


def flipped(path: Path) -> Path:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path


def gone(path: Path) -> Path:
    path.unlink()
    return path


def one_digit(path: Path) -> Path:
    changed(path, '"attempt": 1', '"attempt": 2')
    return path


DELETED = r"delete {key}"
DAMAGES: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    # what is done -> how, the state that is told, the remedy
    "payload missing": (lambda root: gone(payload(root, "collect_rollouts")), "missing", STEP_2.format("collect_rollouts")),
    "payload truncated": (lambda root: cut(payload(root, "compute_rewards")), "damaged", STEP_2.format("compute_rewards")),
    "payload flipped": (lambda root: flipped(payload(root, "compute_advantages")), "damaged", STEP_2.format("compute_advantages")),
    "manifest missing": (lambda root: gone(manifest(root, "compute_rewards")), "missing", STEP_2.format("compute_rewards")),
    "manifest changed": (lambda root: one_digit(manifest(root, "compute_rewards")), "damaged", STEP_2.format("compute_rewards")),
    "manifest empty": (lambda root: cut(manifest(root, "collect_rollouts")), "damaged", STEP_2.format("collect_rollouts")),
    "newest update missing": (lambda root: gone(manifest(root, "update_policy", 2)), "missing", STEP_2.format("update_policy")),
    "weights missing": (lambda root: gone(checkpoint_file(root, "adapter/weights")), "missing", STEP_2.format("update_policy")),
    "weights flipped": (lambda root: flipped(checkpoint_file(root, "adapter/weights")), "damaged", STEP_2.format("update_policy")),
    "step record missing": (lambda root: gone(root / "runs/r/iterations/000001-l0.json"), "missing", r"^`troupe resume r --store \S+` writes it again"),
    "last step record missing": (lambda root: gone(root / "runs/r/iterations/000003-l0.json"), "missing", r"^`troupe resume r --store \S+` writes it again"),
    "step record damaged": (lambda root: flipped(root / "runs/r/iterations/000001-l0.json"), "damaged", DELETED + ", and `troupe resume r .*` writes it again"),
    "base missing": (lambda root: gone(one(root, "folders/*/model/weights")), "missing", r"delete runs/_shared/\S+/manifest.json, and `troupe resume r .*` makes it again"),
    "warm start damaged": (lambda root: flipped(one(root, "runs/_shared/steps/*/*/*/*/manifest.json")), "damaged", DELETED + ", and `troupe resume r .*` makes it again"),
    "warm start missing": (lambda root: gone(one(root, "runs/_shared/steps/*/*/*/*/manifest.json")), "missing", r"^`troupe resume r .*` makes it again"),
    "history damaged": (lambda root: flipped(one(root, "runs/r/history/000000-*.json")), "damaged", DELETED),
    "evaluation damaged": (lambda root: flipped(manifest(root, "evaluate_policy", 4)), "damaged", DELETED + ", and `troupe resume r .*` evaluates again"),
    "evaluation missing": (lambda root: gone(manifest(root, "evaluate_policy", 0)), "missing", r"^`troupe resume r .*` evaluates again"),
    "session damaged": (lambda root: flipped(root / "runs/r/sessions/0001/start.json"), "damaged", DELETED),
    "outbox damaged": (lambda root: cut(root / "runs/r/outbox/000002-iteration.json"), "damaged", DELETED),
    "attempt damaged": (lambda root: cut(one(root, "runs/r/steps/000002/update_policy-v*/*/*/attempts/0001.json")), "damaged", DELETED),
    "journal damaged": (lambda root: cut(one(root, "runs/r/steps/000002/collect_rollouts-v*/*/*/blocks/000000.json")), "damaged", DELETED),
    "flow run damaged": (lambda root: cut(root / "runs/r/flow_runs/f.json"), "damaged", DELETED),
    "index missing": (lambda root: gone(root / "index/runs/r.json"), "missing", r"^`troupe resume r .*` lists the run again"),
}  # fmt: skip


def test_an_undamaged_run_is_whole_and_nothing_is_written(root: Path) -> None:
    before = contents(root)
    seen: list[tuple[float, int]] = []
    report = verify_run(LocalArtifactStore(root), "r", PIPELINE, lambda done, total: seen.append((done, total)))
    assert report.is_whole
    assert (report.problems, report.replaced, report.removed, report.unchecked) == ((), (), {}, ())
    # Four steps of a block, three payloads and two files each; the base, and the two files before training.
    assert report.num_objects == 4 * (1 + 3 + 2) + 1 + 2
    content = [path for folder in ("payloads", "folders") for path in (root / folder).rglob("*") if path.is_file()]
    assert report.num_bytes == sum(path.stat().st_size for path in content)
    assert seen[-1] == (report.num_records + report.num_objects,) * 2
    assert contents(root) == before


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_named_with_a_remedy_that_heals_it(root: Path, name: str) -> None:
    damage, state, remedy = DAMAGES[name]
    key = damage(root).relative_to(root).as_posix()
    before = contents(root)
    report = verified(root)
    assert contents(root) == before
    assert [(each.key, each.state) for each in report.problems] == [(key, state)]
    [problem] = report.problems
    assert re.search(remedy.replace("{key}", re.escape(key)), problem.remedy), problem.remedy
    follow(root, problem.remedy)
    assert verified(root).problems == ()


def follow(root: Path, remedy: str) -> None:
    """Do what a remedy says."""
    store = LocalArtifactStore(root)
    for key in re.findall(r"delete (\S+?)[:,]? ", remedy):
        store.delete(key)
    if found := re.search(r"--from-stage (\w+) --step (\d+)", remedy):
        record_restart(store, read_run(store, "r"), Restart(stage=found[1], step=int(found[2])), PIPELINE)
    if "`troupe resume" in remedy:
        resumed(store, root)
