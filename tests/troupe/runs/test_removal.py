"""`troupe rm`: a run goes whole, with what is its own alone, and never while somebody works on it."""

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from components.artifacts.local import LocalArtifactStore
from components.config import TrackingConfig
from components.errors import ConfigurationError
from components.methods.hybrid.decision_histories import history_file
from components.runs.lineages import list_runs, read_lineages
from components.runs.removal import removal_of_run, remove
from components.runs.restarts import Restart, record_restart
from components.runs.resume_checks import validate_start
from components.runs.session_records import begin_session, end_session
from components.runs.steps import checkpoints_before
from components.runs.stored_runs import read_run
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.tasks.stored_runs import config_in, finish, reread, store_run
from troupe.cli import app
from troupe.runs import removal as removals
from troupe.runs.documents import run_document
from troupe.runs.removal import carry_out_removal, describe_removal, plan_removal


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> LocalArtifactStore:
    return LocalArtifactStore(root)


def contents(store: LocalArtifactStore, *prefixes: str) -> dict[str, bytes | None]:
    return {key: store.read(key) for key in store.list("") if key.startswith(prefixes)}


def take_away(store: LocalArtifactStore, run_id: str, *, force: bool = False) -> dict[str, Any]:
    removal = plan_removal(store, run_id, lineage=None, from_mlflow=False, force=force)
    return carry_out_removal(store, removal, lineage=None, from_mlflow=False)


def test_a_run_goes_with_what_is_its_own_alone(root: Path, store: LocalArtifactStore) -> None:
    store_run(root, "stays", config=config_in(root, "seed=1"))
    alone = contents(store, "")
    store_run(root, "goes", config=config_in(root, "seed=2"))
    document = take_away(store, "goes")
    left = contents(store, "")
    # The warm start is of the configuration, not of the run: it stays for whoever starts that again.
    warm_starts = {key for key in left.keys() - alone.keys() if key.startswith("runs/_shared/")}
    assert {key for key in left.keys() - alone.keys() if not key.startswith("runs/_shared/")} == set()
    assert warm_starts
    assert {key: left[key] for key in alone} == alone
    assert (list_runs(store), document["num_objects"]) == (["stays"], 3 * (3 + 1) + 3)
    assert len(run_document(store, "stays")["steps"]) == 3
    assert document["num_records"] == 2 + 1 + 3 * (4 * 2 + 1)


def test_content_that_another_run_shares_stays_until_that_goes(root: Path, store: LocalArtifactStore) -> None:
    store_run(root, "one")
    before = contents(store, "payloads/", "folders/")
    store_run(root, "other")
    assert contents(store, "payloads/", "folders/") == before, "runs of one configuration compute the same"
    document = take_away(store, "one")
    assert (document["num_objects"], document["num_shared_objects"]) == (0, 3 * 3 + 3 * 2 + 2), (
        "and the two files before training"
    )
    assert contents(store, "payloads/", "folders/") == before
    assert take_away(store, "other")["num_objects"] == 3 * 3 + 3 * 2


def test_the_decision_history_goes_with_the_run(root: Path, store: LocalArtifactStore, tmp_path: Path) -> None:
    store_run(root, "goes")
    others = [history_file(name, tmp_path / "home") for name in ("goes", "stays")]
    for file in others:
        file.parent.mkdir(parents=True)
        file.write_text("decisions")
    removal = plan_removal(store, "goes", lineage=None, from_mlflow=False, force=False)
    document = carry_out_removal(store, removal, lineage=None, from_mlflow=False, home=tmp_path / "home")
    assert [file.parent.exists() for file in others] == [False, True]
    assert f"removed the decision history: {others[0].parent}" in describe_removal(document, what="run goes", option="")
    again = carry_out_removal(store, removal, lineage=None, from_mlflow=False, home=tmp_path / "home")
    assert "decision history" not in describe_removal(again, what="run goes", option="")


@pytest.mark.parametrize("num_deletions", [0, 1, 2, 3, 10, 20])
def test_an_interrupted_removal_lists_the_run_whole_or_not_and_is_finished_by_another(
    num_deletions: int, root: Path, store: LocalArtifactStore
) -> None:
    class Interrupted(Exception):
        pass

    class FailingStore(LocalArtifactStore):
        left = num_deletions

        def delete(self, key: str) -> None:
            if self.left == 0:
                raise Interrupted
            type(self).left -= 1
            super().delete(key)

    run = store_run(root, "r")
    whole = run_document(store, "r")
    with pytest.raises(Interrupted):
        remove(FailingStore(root), removal_of_run(store, "r"), spare_young=False)
    if num_deletions == 0:
        assert run_document(store, "r") == whole
    else:
        assert list_runs(store) == []
        with pytest.raises(ConfigurationError, match="is not in"):
            read_run(store, "r")
        with pytest.raises(ConfigurationError, match="removed only in part"):
            validate_start(store, "r", run.config, PIPELINE)
    take_away(store, "r")
    assert contents(store, "runs/r/", "index/") == {}
    shared = removal_of_run(store, "_shared")
    assert {each.key.split("/")[1] for each in shared.unshared} == {
        key.split("/")[1] for key in contents(store, "payloads/", "folders/")
    }, "nothing is left but the warm start"
    assert validate_start(store, "r", run.config, PIPELINE).lineages == ()


def test_a_run_that_somebody_works_on_stays_unless_forced(root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r")
    session = begin_session(store, run, PIPELINE)
    before = contents(store, "")
    with pytest.raises(ConfigurationError, match=f"worked on by process {session.pid} of .* add --force if it is gone"):
        take_away(store, "r")
    assert contents(store, "") == before
    take_away(store, "r", force=True)
    assert contents(store, "runs/r/") == {}


def test_what_another_session_may_be_about_to_name_is_left_to_gc(root: Path, store: LocalArtifactStore) -> None:
    store_run(root, "r")
    session = begin_session(store, store_run(root, "busy", num_finished=0), PIPELINE)
    document = take_away(store, "r")
    assert (document["num_objects"], document["num_young_objects"]) == (0, 3 * 3 + 3 * 2)
    end_session(store, "busy", session, None)
    store_run(root, "again")
    assert take_away(store, "again")["num_young_objects"] == 0


def test_a_run_whose_records_are_damaged_can_be_removed(root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r")
    begin_session(store, run, PIPELINE)
    for key in ("runs/r/config.json", "runs/r/sessions/0001/start.json"):
        store.delete(key)
        store.create(key, b"")
    take_away(store, "r")
    assert contents(store, "runs/r/", "index/") == {}


def test_a_dropped_restart_leaves_the_run_what_it_was(root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r")
    end_session(store, "r", begin_session(store, run, PIPELINE), None)
    before, records = run_document(store, "r"), contents(store, "")
    record_restart(store, run, Restart(step=1, stage="update_policy"), PIPELINE)
    restarted = reread(store, "r", run.config)
    session = begin_session(store, restarted, PIPELINE)
    finish(store, restarted, 1, checkpoints_before(store, restarted, 1), root)
    end_session(store, "r", session, RuntimeError("no"))
    assert (run_document(store, "r")["state"], len(run_document(store, "r")["steps"])) == ("failed", 2)

    def drop() -> dict[str, Any]:
        return carry_out_removal(
            store, plan_removal(store, "r", lineage=1, from_mlflow=False, force=False), lineage=1, from_mlflow=False
        )

    assert drop()["num_objects"] == 2, "the files of its checkpoint"
    assert run_document(store, "r") == before
    assert {key: store.read(key) for key in records} == records
    assert read_lineages(store, "r") == ()
    with pytest.raises(ConfigurationError, match=r"--lineage 1: .* or it was removed before; it has none"):
        drop()
    assert record_restart(store, run, Restart(step=1, stage="update_policy"), PIPELINE) == 2


def invoke(*arguments: str, answer: str | None = None) -> Any:
    return CliRunner().invoke(app, ["rm", *arguments], input=answer)


def test_a_no_removes_nothing_and_a_hint_names_the_store(
    root: Path, store: LocalArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_run(root, "r")
    where = ("--store", root.as_uri())
    listed = CliRunner().invoke(app, ["runs", *where])
    assert listed.stdout.endswith(f"next: troupe show r --store {root.as_uri()}\n")
    monkeypatch.setattr(
        import_module("troupe.cli.runs"), "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    )
    declined = invoke("r", *where, answer="n\n")
    assert (declined.exit_code, declined.stderr.splitlines()[-1]) == (1, "nothing was removed")
    assert list_runs(store) == ["r"]
    monkeypatch.setattr(removals, "_tracking", lambda *_: TrackingConfig())
    hint = f"MLflow still shows it: `troupe rm r --mlflow --store {root.as_uri()}` removes it there"
    assert hint in invoke("r", *where, answer="y\n").stdout


def test_the_command_asks_first_and_tells_what_went(root: Path, store: LocalArtifactStore) -> None:
    store_run(root, "r")
    where = ("--store", root.as_uri())
    for arguments in (("r",), ("r", "--json")):
        refused = invoke(*arguments, *where)
        assert isinstance(refused.exception, ConfigurationError)
        assert "run r would be removed for good; add --yes" in str(refused.exception)
    assert list_runs(store) == ["r"]
    document = json.loads(invoke("r", "--yes", "--json", *where).stdout)
    assert (document["run_id"], document["removed_from_mlflow"], document["is_shown_by_mlflow"]) == ("r", [], False)
    assert document["num_records"] > 0
    gone = invoke("r", "--yes", *where)
    assert "run 'r' is not in" in str(gone.exception)
    store_run(root, "s")
    assert invoke("s", "--yes", *where).stdout.startswith("removed run s: 30 records and 15 payloads and files")
    for wrong in ("../r", "_shared", "", "r/steps"):
        assert "run_id" in str(invoke(wrong, "--yes", *where).exception)
