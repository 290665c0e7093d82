"""What a store says of runs: quickly, beside damage, and without changing anything."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.artifacts.records import with_digest
from components.errors import ArtifactCorrupt, ConfigurationError
from components.runs import history
from components.runs.lineages import Lineage, start_lineage
from components.runs.session_records import begin_session
from components.runs.step_records import step_record_key
from components.runs.steps import read_finished_step
from components.runs.stored_runs import read_run
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.committed_runs import (
    CONFIG,
    ReadOnlyStore,
    commit_evaluation,
    commit_step,
    make_ended_run,
    stage_key,
    start_run,
)
from troupe.runs.documents import run_document, run_rows


class CountingStore(LocalArtifactStore):
    """Counts what is asked of it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.reads: list[str] = []
        self.lists: list[str] = []

    def read(self, key: str) -> bytes | None:
        self.reads.append(key)
        return super().read(key)

    def list(self, prefix: str) -> Iterator[str]:
        self.lists.append(prefix)
        return super().list(prefix)


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "store")


def overwrite(store: LocalArtifactStore, key: str, content: bytes) -> None:
    store.delete(key)
    assert store.create(key, content)


def change(store: LocalArtifactStore, key: str, old: bytes, new: bytes) -> None:
    content = store.read(key) or b""
    assert content.count(old) >= 1
    overwrite(store, key, content.replace(old, new, 1))


def test_a_run_is_shown_from_its_commits(store: LocalArtifactStore) -> None:
    make_ended_run(store, "r", evaluated=(0, 3))
    document = run_document(store, "r")
    assert (document["state"], document["error"], document["damaged"]) == ("completed", None, [])
    assert [step["step"] for step in document["steps"]] == [0, 1, 2]
    last = document["steps"][2]
    assert last["metrics"]["rollout/success_rate"] == 0.002
    assert last["attempts"] == {"publish_checkpoint": 1}
    assert last["checkpoint_digest"] == {"team": "w2"}
    assert last["checkpoint_uri"] == {"team": f"{store.uri}/folders/{2:064x}"}
    assert [(each["step"], each["success_rate"]) for each in document["evaluations"]] == [(0, 0.75), (3, 0.75)]
    assert {row["run_id"]: (row["state"], row["step"]) for row in run_rows(store)} == {"r": ("completed", 3)}


def test_attempts_are_those_of_the_part_that_took_most(store: LocalArtifactStore) -> None:
    run = start_run(store, "r")
    key = stage_key(run, 0, "update_policy", "team")
    store.create(f"{key.path}/attempts/0001.json", with_digest({}))
    commit_step(store, run, 0)
    attempts = run_document(store, "r")["steps"][0]["attempts"]
    assert attempts == {
        "collect_rollouts": 1, "compute_rewards": 1, "compute_advantages": 1, "update_policy": 2, "publish_checkpoint": 1
    }  # fmt: skip


@pytest.mark.parametrize("num_steps", [4, 7, 8])
def test_reading_a_run_takes_a_request_a_block_and_one_for_each_step_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_steps: int
) -> None:
    monkeypatch.setattr("components.runs.history.STEPS_PER_BLOCK", 4)
    monkeypatch.setattr("components.runs.steps.STEPS_PER_BLOCK", 4)
    store = CountingStore(tmp_path)
    run = start_run(store, "r", num_steps=num_steps)
    for step in range(num_steps):
        commit_evaluation(store, run, step)
        commit_step(store, run, step)
    commit_evaluation(store, run, num_steps)
    store.reads.clear()
    store.lists.clear()
    document = run_document(store, "r")
    assert [step["step"] for step in document["steps"]] == list(range(num_steps))
    assert [each["step"] for each in document["evaluations"]] == list(range(num_steps + 1))
    blocks, behind = divmod(num_steps, 4)
    of_steps = [key for key in store.reads if not key.endswith("config.json")]
    # The step behind the last finished one is looked for, too, and each evaluation behind the last block is read.
    assert len(of_steps) == blocks + (behind + 1) + (behind + 1)
    assert len(store.lists) <= 6
    store.reads.clear()
    run_rows(store)
    assert store.reads == ["runs/r/config.json"]


def test_a_history_says_what_the_records_say_however_it_came_about(
    store: LocalArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_ended_run(store, "r", num_steps=9, evaluated=(0, 4, 8, 9))
    slow = run_document(store, "r")
    assert list(store.list("runs/r/history/")) == []
    monkeypatch.setattr(history, "STEPS_PER_BLOCK", 2)
    history.extend_history(store, run, 9)
    assert len(list(store.list("runs/r/history/"))) == 2, "an old run gets its blocks by and by"
    assert run_document(store, "r") == slow
    history.extend_history(store, run, 9)
    blocks = list(store.list("runs/r/history/"))
    assert len(blocks) == 4
    assert run_document(store, "r") == slow
    commit_evaluation(store, run, 2, sampling="sample")
    late = run_document(store, "r")["evaluations"]
    assert [(each["step"], each["sampling"]) for each in late][1] == (2, "sample"), "later than its block"
    overwrite(store, blocks[0], b"{")
    change(store, blocks[1], b'"w2"', b'"w9"')
    assert run_document(store, "r")["steps"] == slow["steps"], "a damaged block is read around"


def test_a_restart_has_a_history_of_its_own(store: LocalArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "STEPS_PER_BLOCK", 2)
    run = make_ended_run(store, "r", num_steps=4, evaluated=(1, 3))
    history.extend_history(store, run, 4)
    before = run_document(store, "r")
    start_lineage(
        store, "r", from_step=1, from_stage="update_policy", repeats=PIPELINE.repeats("update_policy"), config=CONFIG
    )
    assert run_document(store, "r") == before, (
        "a restart that has left nothing, and that nobody works on, hides nothing"
    )
    begin_session(store, read_run(store, "r"), PIPELINE)
    document = run_document(store, "r")
    assert [step["step"] for step in document["steps"]] == [0]
    assert document["evaluations"] == [], "both belong to what was left behind"
    assert read_finished_step(store, read_run(store, "r"), 1) is None


def test_a_killed_evaluation_is_not_shown_and_hides_nothing(store: LocalArtifactStore) -> None:
    run = make_ended_run(store, "r", evaluated=(0,))
    history.index_evaluation(store, stage_key(run, 2, "evaluate_policy", "greedy"))
    assert [each["step"] for each in run_document(store, "r")["evaluations"]] == [0]
    assert run_document(store, "r")["damaged"] == []


CONFIG_KEY, END_KEY, START_KEY = (
    "runs/b/config.json",
    "runs/b/sessions/0001/end.json",
    "runs/b/sessions/0001/start.json",
)
FOREIGN = with_digest({**CONFIG.model_dump(mode="json"), "invented_later": 1})


@pytest.mark.parametrize(
    ("key", "content", "what", "remedy"),
    [
        (CONFIG_KEY, b'{"num_st', "are no record", "restore it from a copy, or use the version"),
        (CONFIG_KEY, FOREIGN, "no RunConfig of this version of Troupe (invented_later", "use the version of Troupe"),
        (CONFIG_KEY, b"\xff\xfe", "are no record", "restore it"),
        (CONFIG_KEY, b"[" * 100_000, "are no record", "restore it"),
        (END_KEY, b"", "its 0 bytes are no record", "`troupe verify b` says what makes it again"),
        (END_KEY, b"[]", "it holds a list, no record", "`troupe verify b` says what makes it again"),
        (START_KEY, b'{"number": 1}', "no SessionStart of this version", "`troupe verify b` says what makes it again"),
        ("runs/b/lineages/000001.json", b'{"lineage": 1', "are no record", "restore it from a copy"),
    ],
)
def test_a_damaged_record_is_named_with_its_remedy_and_hides_no_other_run(
    store: LocalArtifactStore, key: str, content: bytes, what: str, remedy: str
) -> None:
    for run_id in ("a", "b", "c"):
        make_ended_run(store, run_id)
    overwrite(store, key, content)
    rows = {row["run_id"]: row for row in run_rows(store)}
    assert [rows[run_id]["state"] for run_id in "abc"] == ["completed", "damaged", "completed"]
    assert set(rows["b"]) == set(rows["a"]) == {"run_id", "preset", "state", "step", "started_at", "error"}
    document = run_document(store, "b")
    assert document["state"] == "damaged"
    for error in (rows["b"]["error"], document["error"]):
        assert error.startswith(f"{key}: ")
        assert what in error
        assert remedy in error
    if "lineages" not in key:  # without them nobody knows which steps count
        assert rows["b"]["step"] == 3
        assert document["steps"] == run_document(store, "a")["steps"]
        assert len(document["evaluations"]) == 1
    if key != CONFIG_KEY:
        assert rows["b"]["preset"] == "tiny"


def test_a_damaged_step_is_named_and_the_others_are_shown(store: LocalArtifactStore) -> None:
    run = make_ended_run(store, "r")
    key = step_record_key(run, 1)
    overwrite(store, key, (store.read(key) or b"")[:40])
    document = run_document(store, "r")
    assert [step["step"] for step in document["steps"]] == [0, 1, 2]
    assert document["steps"][1]["metrics"] == {}
    assert key in document["steps"][1]["error"]
    assert "`troupe verify r` says what makes it again" in document["error"]
    assert run_rows(store)[0]["step"] == 3
    with pytest.raises(ArtifactCorrupt, match=r"iterations/000001-l0\.json"):
        read_finished_step(store, run, 1)


def test_a_changed_digit_is_not_shown_as_true(store: LocalArtifactStore) -> None:
    run = make_ended_run(store, "r")
    key = step_record_key(run, 2)
    change(store, key, b'"rollout/success_rate": 0.002', b'"rollout/success_rate": 0.902')
    document = run_document(store, "r")
    assert document["error"].startswith(f"{key}: its content differs from its digest")
    assert document["steps"][2]["metrics"] == {}
    evaluation = f"{stage_key(run, 0, 'evaluate_policy', 'greedy').path}/manifest.json"
    change(store, evaluation, b'"success_rate": 0.75', b'"success_rate": 0.95')
    document = run_document(store, "r")
    assert document["evaluations"] == []
    assert any(
        each.startswith(f"{evaluation}: its content differs") and "`troupe verify r` says what makes it again" in each
        for each in document["damaged"]
    )


def test_what_strangers_left_beside_the_records_is_passed_over(store: LocalArtifactStore) -> None:
    make_ended_run(store, "r")
    expected = run_document(store, "r")
    for key in (
        "runs/r/steps/000001/notes.txt", "runs/r/steps/000001/invent_stage/all/manifest.json",
        "runs/r/steps/000001/publish_checkpoint-v1/all/manifest.json", "runs/r/evaluations/README", "index/runs/.DS_Store",
        "runs/r/iterations/notes.txt",
    ):  # fmt: skip
        store.create(key, b"?")
    assert run_document(store, "r") == expected
    assert [row["run_id"] for row in run_rows(store)] == ["r"]


def test_reading_writes_nothing(store: LocalArtifactStore, tmp_path: Path) -> None:
    run = make_ended_run(store, "r", evaluated=(0, 3))
    reader = ReadOnlyStore(tmp_path / "store")
    assert run_rows(reader)[0]["state"] == "completed"
    assert run_document(reader, "r")["state"] == "completed"
    assert read_run(reader, "r").config == run.config
    reader.check()
    for number in range(10):
        make_ended_run(store, f"many-{number}", evaluated=(0,))
    with pytest.raises(ConfigurationError, match=r"runs there: (many-\d, ){8}\.\.\. \(11 in all\)$"):
        read_run(reader, "none-of-these")
    with pytest.raises(ConfigurationError, match=r"run 'x' is not in .*runs there: many"):
        run_document(reader, "x")


def test_a_restart_of_another_version_is_named(store: LocalArtifactStore) -> None:
    make_ended_run(store, "r")
    lineage = Lineage(
        lineage=1,
        from_step=1,
        from_stage="update_policy",
        repeats=PIPELINE.repeats("update_policy"),
        started_at=datetime.now(UTC),
        config=CONFIG,
    )
    store.create("runs/r/lineages/000001.json", with_digest({**lineage.model_dump(mode="json"), "reason": "later"}))
    document = run_document(store, "r")
    assert "runs/r/lineages/000001.json: no Lineage of this version of Troupe (reason" in document["error"]
    assert document["steps"] == []


def test_long_readings_say_how_far_they_are(store: LocalArtifactStore) -> None:
    make_ended_run(store, "r", num_steps=5)
    heard: list[tuple[int, int]] = []
    run_document(store, "r", lambda done, total: heard.append((done, total)))
    assert heard[-1] == (5, 5)
    assert heard == sorted(heard)
