"""The store that a command opens."""

from pathlib import Path

import pytest

from components.artifacts.format import FORMAT
from components.errors import ServiceMissing, StoreRefused
from flows.presets import preset_config
from infra.services.environment import PrefectAddress, StackStatus
from troupe.runs import stores
from troupe.runs.stores import opened_store
from troupe.training import in_process


def test_a_store_of_a_newer_format_is_not_even_read(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text(f'{{"format": {FORMAT + 1}}}')
    with pytest.raises(StoreRefused, match="use the Troupe that wrote it"):
        opened_store(tmp_path.as_uri())


def test_where_the_local_s3_is_down_it_is_named_by_who_reads_and_who_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    prefect = PrefectAddress(api_url="http://here/api", ui_url="http://here")
    for module in (stores, in_process):
        monkeypatch.setattr(module, "HOME", tmp_path)
        monkeypatch.setattr(module, "join_local_services", lambda: StackStatus(home=tmp_path, prefect=prefect))
    told = f"the S3 server was never started in {tmp_path}; start it with `troupe up`, or name "
    with pytest.raises(ServiceMissing, match=f"no store is named, and {told}a store with --store"):
        opened_store(None)
    for name in ("check_configuration", "require_prefect", "check_base_names"):
        monkeypatch.setattr(in_process, name, lambda *_: None)
    with pytest.raises(ServiceMissing, match=f"store: {told}another S3"):
        in_process.run_training(preset_config("tiny"), "r")
