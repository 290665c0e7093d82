"""A damaged run is told object by object, each with a remedy, and what the remedy says heals it."""

import errno
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from components.artifacts.local import LocalArtifactStore
from components.artifacts.records import DIGEST, with_digest
from components.errors import ArtifactCorrupt, ArtifactMissing, ConfigurationError, StoreUnavailable
from components.runs import history
from components.runs.gc import collect_garbage
from components.runs.recovery_hints import with_recovery_hints
from components.runs.restarts import Restart, record_restart
from components.runs.session_records import read_roles
from components.runs.steps import checkpoints_before
from components.runs.stored_runs import read_run
from components.runs.verify import VerifyReport, verify_run
from components.session.checkpoint_cache import CheckpointCache
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.components.runs.whole_runs import document, resume, whole_run
from troupe.cli import app
from troupe.runs.documents import run_document

VERSIONS = PIPELINE.versions
STEP_2 = "runs/r/steps/000002"


def restart(stage: str) -> str:
    return rf"^`troupe resume r --from-stage {stage} --step 2 --store file://\S+` computes it again$"


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


def verify(root: Path) -> VerifyReport:
    return verify_run(LocalArtifactStore(root), "r")


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


def flip(path: Path) -> Path:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return path


def remove(path: Path) -> Path:
    path.unlink()
    return path


def change_digit(path: Path) -> Path:
    """A digit of a record changed: it stays valid JSON of the right fields."""
    text = path.read_text()
    assert '"attempt": 1' in text
    path.write_text(text.replace('"attempt": 1', '"attempt": 2'))
    return path


def lose_a_field(path: Path) -> Path:
    """The record lacks what it is read for, and has the digest of what is left, as one of another version may."""
    fields = document(path)
    fields = {
        name: value for name, value in fields.items() if name not in (DIGEST, "checkpoints", "finished_at", "steps")
    }
    path.write_bytes(with_digest(fields))
    return path


AGAIN = r"`troupe resume r --store file://\S+` "
MADE = f"^{AGAIN}makes it again$"
DELETED = f"^delete {{key}}, and {AGAIN}makes it again if it is needed$"
WARM_START = "runs/_shared/steps/*/*/*/*/manifest.json"
DAMAGES: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Path], str]] = {
    # name -> what is done to which file, and the remedy that is told
    "payload missing": (remove, lambda root: payload(root, "collect_rollouts"), restart("collect_rollouts")),
    "payload truncated": (cut, lambda root: payload(root, "compute_rewards"), restart("compute_rewards")),
    "payload flipped": (flip, lambda root: payload(root, "compute_advantages"), restart("compute_advantages")),
    "manifest missing": (remove, lambda root: manifest(root, "compute_rewards"), restart("compute_rewards")),
    "manifest changed": (change_digit, lambda root: manifest(root, "compute_rewards"), restart("compute_rewards")),
    "manifest truncated": (cut, lambda root: manifest(root, "collect_rollouts"), restart("collect_rollouts")),
    "update missing": (remove, lambda root: manifest(root, "update_policy"), restart("update_policy")),
    "weights missing": (remove, lambda root: checkpoint_file(root, "adapter/weights"), restart("update_policy")),
    "weights flipped": (flip, lambda root: checkpoint_file(root, "adapter/weights"), restart("update_policy")),
    "step missing": (remove, lambda root: root / "runs/r/iterations/000001-l0.json", MADE),
    "last step missing": (remove, lambda root: root / "runs/r/iterations/000003-l0.json", MADE),
    "step of another form": (lose_a_field, lambda root: root / "runs/r/iterations/000001-l0.json", DELETED),
    "history of another form": (lose_a_field, lambda root: one(root, "runs/r/history/000000-*.json"), DELETED),
    "manifest of another form": (lose_a_field, lambda root: manifest(root, "compute_rewards"), restart("compute_rewards")),
    "step flipped": (flip, lambda root: root / "runs/r/iterations/000001-l0.json", DELETED),
    "first policies flipped": (flip, lambda root: root / "runs/r/initial/policies-l0.json", DELETED),
    "first policies missing": (remove, lambda root: root / "runs/r/initial/policies-l0.json", MADE),
    "base missing": (
        remove, lambda root: one(root, "folders/*/model/weights"), rf"^delete runs/_shared/\S+/manifest.json, and {AGAIN}makes"
    ),
    "warm start flipped": (flip, lambda root: one(root, WARM_START), DELETED),
    "warm start missing": (remove, lambda root: one(root, WARM_START), MADE),
    "history flipped": (flip, lambda root: one(root, "runs/r/history/000000-*.json"), DELETED),
    "evaluation flipped": (flip, lambda root: manifest(root, "evaluate_policy", 4), DELETED),
    "evaluation missing": (remove, lambda root: manifest(root, "evaluate_policy", 0), MADE),
    "session flipped": (flip, lambda root: root / "runs/r/sessions/0001/start.json", DELETED),
    "outbox truncated": (cut, lambda root: root / "runs/r/outbox/000002-iteration.json", DELETED),
    "attempt truncated": (cut, lambda root: one(root, f"{STEP_2}/update_policy-*/*/*/attempts/0001.json"), DELETED),
    "journal truncated": (cut, lambda root: one(root, f"{STEP_2}/collect_rollouts-*/*/*/blocks/000000.json"), DELETED),
    "flow run truncated": (cut, lambda root: root / "runs/r/flow_runs/f.json", DELETED),
    "index missing": (remove, lambda root: root / "index/runs/r.json", MADE),
}  # fmt: skip


def test_an_undamaged_run_is_whole_and_nothing_is_written(root: Path) -> None:
    before = contents(root)
    seen: list[tuple[float, int]] = []
    report = verify_run(LocalArtifactStore(root), "r", lambda done, total: seen.append((done, total)))
    assert report.is_whole
    assert (report.problems, report.removed) == ((), {})
    assert read_roles(LocalArtifactStore(root), "r") == PIPELINE.roles
    # Four steps of a block, three payloads and two files each; the base, and the two files before training.
    assert report.num_objects == 4 * (1 + 3 + 2) + 1 + 2
    content = [path for folder in ("payloads", "folders") for path in (root / folder).rglob("*") if path.is_file()]
    assert report.num_bytes == sum(path.stat().st_size for path in content)
    assert seen[-1] == (report.num_records + report.num_objects,) * 2
    assert contents(root) == before


class LoggingStore(LocalArtifactStore):
    """A store that knows in what order its objects were written."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.written: list[str] = []

    def create(self, key: str, content: bytes) -> bool:
        self.written.append(key)
        return super().create(key, content)

    def _upload(self, key: str, source: bytes | Path, sha256: str, num_bytes: int) -> None:
        self.written.append(key)
        super()._upload(key, source, sha256, num_bytes)


def test_a_run_that_was_killed_anywhere_is_unfinished_and_not_damaged(tmp_path: Path) -> None:
    store = LoggingStore(tmp_path / "whole")
    whole_run(tmp_path / "whole", store=store, num_steps=2)
    keys = list(dict.fromkeys(store.written))
    begun = keys.index("runs/r/config.json")
    for number, key in enumerate(keys):
        (tmp_path / "store" / key).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "whole" / key, tmp_path / "store" / key)
        if number >= begun:
            assert verify(tmp_path / "store").problems == (), f"killed after {key}"
    assert len(keys) - begun > 40


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_named_with_a_remedy_that_heals_it(root: Path, name: str) -> None:
    key, remedy = find_damage(root, name)
    before = contents(root)
    report = verify(root)
    assert contents(root) == before
    [problem] = report.problems
    assert (problem.key, problem.state) == (key, "missing" if name.endswith("missing") else "damaged")
    assert re.search(remedy, problem.remedy), problem.remedy
    follow(root, problem.remedy)
    assert verify(root).problems == ()


def find_damage(root: Path, name: str) -> tuple[str, str]:
    """The key of what is damaged now, and the remedy."""
    how, where, remedy = DAMAGES[name]
    key = how(where(root)).relative_to(root).as_posix()
    return key, remedy.replace("{key}", re.escape(key))


def follow(root: Path, remedy: str) -> None:
    """Do what a remedy says."""
    store = LocalArtifactStore(root)
    for key in re.findall(r"delete (\S+?),? ", remedy):
        store.delete(key)
    if found := re.search(r"--from-stage (\w+) --step (\d+)", remedy):
        record_restart(store, read_run(store, "r"), Restart(stage=found[1], step=int(found[2])), PIPELINE)
    if "`troupe resume" in remedy:
        resume(store, root)


@pytest.mark.parametrize("name", DAMAGES)
def test_no_damage_changes_what_is_shown_or_trained_without_a_word(root: Path, whole: Path, name: str) -> None:
    before, store = results(LocalArtifactStore(whole)), LocalArtifactStore(root)
    key, _ = find_damage(root, name)
    shown = run_document(store, "r")
    if results(store) != before:
        told = shown["state"] in ("damaged", "interrupted")
        assert told or name == "evaluation missing", "which nobody can see but who verifies"
    try:
        resume(store, root)
    except ArtifactCorrupt as error:
        told = key in str(error)
        assert told
    else:
        assert results(store) == before


def results(store: LocalArtifactStore) -> list[Any]:
    """What a run has come to, wherever its store lies."""
    shown = run_document(store, "r")
    steps = [{name: value for name, value in step.items() if name != "checkpoint_uri"} for step in shown["steps"]]
    return [steps, shown["evaluations"]]


@pytest.mark.parametrize("name", ["weights missing", "weights flipped", "base missing"])
def test_who_loads_damaged_weights_is_told_who_knows_the_remedy(root: Path, name: str) -> None:
    store, (key, _) = LocalArtifactStore(root), find_damage(root, name)
    checkpoint = checkpoints_before(store, read_run(store, "r"), 3)["team"]
    copies = CheckpointCache(store, num_policies=1)
    with pytest.raises((ArtifactCorrupt, ArtifactMissing), match=key) as caught, with_recovery_hints(store, "r"):
        copies.path(checkpoint)
    copies.close()
    [command] = re.findall("`troupe (verify .*?)`", str(caught.value))
    ended = CliRunner().invoke(app, [*command.split(), "--json"])
    assert (ended.exit_code, [each["key"] for each in json.loads(ended.stdout)["problems"]]) == (1, [key])


def test_several_damages_are_told_causes_first_and_the_remedy_of_the_first_heals_all(root: Path) -> None:
    for stage in ("collect_rollouts", "compute_rewards", "compute_advantages"):
        remove(payload(root, stage))
    flip(checkpoint_file(root, "adapter/weights", 3))
    report = verify(root)
    remedies = [each.remedy for each in report.problems]
    assert len(remedies) == 4
    for stage, remedy in zip(("collect_rollouts", "compute_rewards", "compute_advantages"), remedies, strict=False):
        assert re.search(restart(stage), remedy)
    assert re.search("--from-stage update_policy --step 3 .*computes it again", remedies[3])
    follow(root, remedies[0])
    assert verify(root).problems == ()


@pytest.mark.parametrize("key", ["runs/r/config.json", "runs/r/lineages/000001.json"])
@pytest.mark.parametrize("how", [flip, cut])
def test_what_a_run_was_started_with_is_in_no_other_place(root: Path, key: str, how: Callable[[Path], Path]) -> None:
    store = LocalArtifactStore(root)
    if "lineages" in key:
        record_restart(store, read_run(store, "r"), Restart(stage="update_policy", step=2), PIPELINE)
        resume(store, root)
    how(root / key)
    remove(payload(root, "compute_rewards", 1))
    report = verify(root)
    assert report.problems[0].key == key
    assert report.problems[0].remedy == "restore it from a backup: it cannot be computed again"
    assert len(report.problems) == 2
    for read in (lambda: read_run(store, "r"), lambda: resume(store, root)):
        with pytest.raises(ArtifactCorrupt, match=key):
            read()
    assert run_document(store, "r")["state"] == "damaged"


def test_a_restart_that_is_missing_between_others_is_named(root: Path) -> None:
    store = LocalArtifactStore(root)
    for step in (2, 3):
        record_restart(store, read_run(store, "r"), Restart(stage="update_policy", step=step), PIPELINE)
        resume(store, root)
    assert verify(root).is_whole
    remove(root / "runs/r/lineages/000001.json")
    assert "runs/r/lineages/000001.json" in [each.key for each in verify(root).problems]


def test_what_a_restart_has_replaced_is_not_needed(root: Path) -> None:
    store = LocalArtifactStore(root)
    old = payload(root, "compute_rewards", 2)
    record = read_run(store, "r")
    other = record.config.model_copy(update={"rewards": record.config.rewards.model_copy(update={"team_weight": 4.0})})
    record_restart(
        store, record.model_copy(update={"config": other}), Restart(stage="compute_rewards", step=2), PIPELINE
    )
    resume(store, root)
    assert verify(root).is_whole
    remove(old)
    assert verify(root).is_whole


def test_what_garbage_collection_removed_is_no_damage(root: Path) -> None:
    store = LocalArtifactStore(root)
    collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=False)
    report = verify(root)
    assert report.is_whole
    assert report.removed == {"team": (1, 2)}
    lost = remove(payload(root, "compute_rewards", 1)).relative_to(root).as_posix()
    [problem] = verify(root).problems
    assert problem.key == lost
    remove(manifest(root, "update_policy", 3))
    assert f"{STEP_2[:-1]}3/update_policy" in verify(root).problems[-1].key, "the newest is never garbage"
    flip(one(root, "runs/r/collected/*.json"))
    assert any(each.remedy.startswith("restore it from a backup") for each in verify(root).problems)


def test_a_run_of_before_roles_is_shown_collected_and_verified_as_others(root: Path, whole: Path) -> None:
    store, start = LocalArtifactStore(root), root / "runs/r/sessions/0001/start.json"
    values = {name: it for name, it in document(start).items() if name not in ("record_sha256", "roles")}
    start.write_bytes(with_digest(values))
    shutil.rmtree(root / "runs/r/initial")
    report = verify(root)
    assert report.problems == ()
    assert results(store) == results(LocalArtifactStore(whole))
    remove(manifest(root, "compute_rewards", 2))
    assert [each.key.split("/")[4] for each in verify(root).problems] == [
        f"compute_rewards-v{VERSIONS['compute_rewards']}"
    ]
    assert collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=False).num_shared == 0
    assert verify(root).removed == {"team": (1, 2)}


@pytest.mark.parametrize("collects", [False, True])
def test_a_checkpoint_that_nobody_collected_is_missing(root: Path, collects: bool) -> None:
    if collects:
        collect_garbage(LocalArtifactStore(root), grace_seconds=0, dry_run=False)
    key = remove(manifest(root, "update_policy", 0)).relative_to(root).as_posix()
    report = verify(root)
    assert [each.key for each in report.problems] == [key]
    assert report.removed == {}


def test_a_run_whose_collections_left_no_record_may_lack_what_it_does_not_keep(root: Path) -> None:
    start = root / "runs/r/sessions/0001/start.json"
    values = {**document(start), "records_collections": False, "retention": {"newest": 2}}
    start.write_bytes(with_digest({name: value for name, value in values.items() if name != "record_sha256"}))
    remove(manifest(root, "update_policy", 1))
    assert verify(root).removed == {"team": (2,)}
    remove(manifest(root, "update_policy", 2))
    assert [each.state for each in verify(root).problems] == ["missing"]


class BrokenStore(LocalArtifactStore):
    """A store whose disk cannot read one object, or whose server is away."""

    error: OSError | None = None

    def digest(self, key: str) -> tuple[str, int]:
        if self.error is None or key.startswith("payloads/0"):
            raise StoreUnavailable(key) from self.error
        return super().digest(key)


def test_a_disk_that_cannot_read_is_damage_and_a_server_that_is_away_is_not(root: Path) -> None:
    broken = BrokenStore(root)
    with pytest.raises(StoreUnavailable):
        verify_run(broken, "r")
    broken.error = OSError(errno.EIO, "Input/output error")
    problems = verify_run(broken, "r").problems
    assert {each.key[:10] for each in problems} == {"payloads/0"}
    assert {each.what for each in problems} == {"the disk cannot read it (Input/output error)"}


def test_the_command_tells_the_verdict_and_the_next_step_and_fails_on_damage(root: Path) -> None:
    def run_command(*more: str) -> tuple[int, str]:
        ended = CliRunner().invoke(app, ["verify", "r", "--store", root.as_uri(), *more], catch_exceptions=False)
        return ended.exit_code, ended.stdout

    code, text = run_command()
    assert (code, text.splitlines()[0][:15]) == (0, "r is whole: 67 ")
    assert text.splitlines()[-1].startswith("next: troupe show r --store file://")
    key, remedy = find_damage(root, "weights flipped")
    code, text = run_command()
    assert (code, text.splitlines()[0][:15]) == (1, "r: 1 damaged, o")
    assert key in text
    assert re.search(remedy, text.splitlines()[-1].removeprefix("next: "))
    code, text = run_command("--json")
    found = json.loads(text)
    assert (code, found["state"], found["next"]) == (1, "damaged", found["problems"][0]["remedy"])
    with pytest.raises(ConfigurationError, match="run 'other' is not in"):
        CliRunner().invoke(app, ["verify", "other", "--store", root.as_uri()], catch_exceptions=False)
