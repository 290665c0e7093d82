"""The store that a command opens, and the one in which a run is trained."""

import os
from pathlib import Path

import pytest

from components.artifacts.format import FORMAT
from components.artifacts.local import LocalArtifactStore
from components.config import StoreConfig
from components.errors import ConfigurationError, ServiceMissing, StoreRefused
from components.machine.process_ids import this_process
from components.session.stores import open_store
from flows.prefect_runtime.active_runs import mark_in_bucket
from flows.presets import preset_config
from infra.services.environment import PrefectAddress, StackStatus
from infra.services.process import ProcessRecord, make_private, write_record
from troupe.runs import stores
from troupe.runs.stores import list_unlisted_runs, open_named_store, store_config
from troupe.training import in_process


def test_a_store_of_a_newer_format_is_not_even_read(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text(f'{{"format": {FORMAT + 1}}}')
    with pytest.raises(StoreRefused, match="use the Troupe that wrote it"):
        open_named_store(tmp_path.as_uri())


def test_where_the_local_s3_is_down_it_is_named_by_who_reads_and_who_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PREFECT_API_URL", "http://here/api")
    prefect = PrefectAddress(api_url="http://here/api", ui_url="http://here")
    for module in (stores, in_process):
        monkeypatch.setattr(module, "HOME", tmp_path)
        monkeypatch.setattr(module, "join_local_services", lambda: StackStatus(home=tmp_path, prefect=prefect))
    told = f"the S3 server was never started in {tmp_path}; start it with `troupe up`, or name "
    with pytest.raises(ServiceMissing, match=f"no store is named, and {told}a store with --store"):
        open_named_store(None)
    for name in ("check_configuration", "require_prefect", "check_base_names"):
        monkeypatch.setattr(in_process, name, lambda *_: None)
    with pytest.raises(ServiceMissing, match=f"store: {told}another S3"):
        in_process.run_training(preset_config("tiny"), "r")


class Machine:
    """A home without services, whose bucket is a folder."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self._monkeypatch = home, monkeypatch
        for name in (
            "AWS_ENDPOINT_URL_S3",
            "AWS_ENDPOINT_URL",
            "PREFECT_API_URL",
            "MLFLOW_TRACKING_URI",
            "TROUPE_STORE",
        ):
            monkeypatch.delenv(name, raising=False)
        for module in (stores, in_process):
            monkeypatch.setattr(module, "HOME", home)
            monkeypatch.setattr(module, "join_local_services", lambda: StackStatus(home=home))
        monkeypatch.setattr(stores, "open_store", self.open_store)

    def open_store(self, config: StoreConfig) -> LocalArtifactStore:
        if config.kind == "s3":
            return LocalArtifactStore(self.home / "bucket")
        opened = open_store(config)
        assert isinstance(opened, LocalArtifactStore)
        return opened

    def up(self) -> None:
        self._monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
        self._monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
        self._monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")

    def record(self, name: str, process: str) -> None:
        make_private(self.home)
        log = self.home / "logs" / f"{name}.log"
        write_record(
            self.home,
            ProcessRecord(name=name, pid=os.getpid(), process=process, command=(), log=log, ports={}, launch_digest=""),
        )

    def begin(self, place: str, run_id: str) -> None:
        LocalArtifactStore(self.home / place).create(f"runs/{run_id}/config.json", b"{}")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path / "home", monkeypatch)


def test_a_run_is_found_where_it_began(machine: Machine) -> None:
    folder = StoreConfig(kind="local", root=str(machine.home / "store"))
    with pytest.raises(ServiceMissing, match="no store is named"):
        store_config(None)
    machine.begin("store", "alone")
    assert store_config(None) == store_config(None, "alone") == store_config(None, "new") == folder
    assert list_unlisted_runs(None) is None
    machine.up()
    machine.begin("bucket", "served")
    assert [store_config(None, run) for run in (None, "served", "new", "alone")] == [*[StoreConfig()] * 3, folder]
    assert (
        list_unlisted_runs(None)
        == f"not shown are runs that began without services: --store {(machine.home / 'store').as_uri()}"
    )
    assert list_unlisted_runs("s3://other") is None
    machine.begin("bucket", "alone")
    assert store_config(None, "alone") == StoreConfig(), "of two the one beside all others"


def test_where_servers_are_down_only_runs_of_the_folder_are_found(machine: Machine) -> None:
    machine.begin("store", "alone")
    machine.record("s3", "gone-1-1")
    assert store_config(None, "alone") == store_config(None)
    assert "not shown are runs in S3: the S3 server is down" in str(list_unlisted_runs(None))
    with pytest.raises(ServiceMissing, match="the S3 server is down"):
        store_config(None, "perhaps-there")


def test_a_run_without_services_says_where_it_is_and_what_it_lacks(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, folder = preset_config("tiny"), machine.home / "store"
    end = "`troupe up` starts them, and the same command then continues it"
    moved, (line,) = in_process.settle_store(config, "r", is_alone=stores.is_without_services())
    assert moved.store == config.store.move_to(StoreConfig(kind="local", root=str(folder)))
    assert line == (
        f"no services are up: the run is stored in {folder}, with a Prefect server of its own and without MLflow; {end}"
    )
    assert [path.stat().st_mode & 0o077 for path in (folder, machine.home)] in ([0, 0], [0, 0o011])
    own = preset_config("tiny", ["store.kind=local", "store.root=/own", "tracking.kind=none"])
    assert in_process.settle_store(own, "r", is_alone=True) == (
        own,
        [f"no services are up: the run is stored in /own, with a Prefect server of its own; {end}"],
    )
    machine.begin("store", "r")
    machine.up()
    assert not stores.is_without_services()
    assert in_process.settle_store(config, "r", is_alone=False) == (
        moved,
        [f"this run began without services and is stored in {folder}"],
    )
    assert in_process.settle_store(config, "new", is_alone=False) == (config, [])


def test_a_run_of_the_services_does_not_begin_again_while_they_are_down(machine: Machine) -> None:
    mark = mark_in_bucket(machine.home, "r")
    mark.parent.mkdir(parents=True)
    mark.touch()
    machine.record("s3", "gone-1-1")
    with pytest.raises(ServiceMissing, match=r"run 'r' is in the store of the services: the S3 server is down"):
        in_process.settle_store(preset_config("tiny"), "r", is_alone=stores.is_without_services())


def test_a_service_that_is_too_busy_to_answer_is_not_replaced(machine: Machine) -> None:
    assert stores.is_without_services()
    machine.record("worker", str(this_process()))
    assert not stores.is_without_services()


@pytest.mark.parametrize(
    "uri", ["file:///data/run#2", "file:///data/a?b", "s3://bucket/a#b", "s3://localhost:8333/troupe", "file://[", "x"]
)
def test_an_address_that_would_name_another_store_is_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--store .*: write file:///absolute/path or s3://bucket/prefix"):
        store_config(uri)


def test_a_path_with_marks_is_written_in_percents() -> None:
    assert store_config("file:///data/run%232").root == "/data/run#2"


def test_a_store_below_the_user_s_own_folder_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store(StoreConfig(kind="local", root="~/runs")).uri == (tmp_path / "runs").as_uri()
