"""Where a row says that it comes from."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import origin
from benchmarks.origin import model_name, start_of_run


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ("processor\t: 0\nmodel name\t: AMD EPYC 7B13: 64-Core\nmodel name\t: other\n", "AMD EPYC 7B13: 64-Core"),
        ("processor\t: 0\nBogoMIPS\t: 50.00\n", "unnamed"),
    ],
)
def test_the_processor_is_named_as_the_kernel_names_it(facts: str, name: str) -> None:
    assert model_name(facts) == name


def test_what_measured_a_row_names_processor_and_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import torch

    facts = tmp_path / "cpuinfo"
    facts.write_text("model name : abacus\n")
    monkeypatch.setattr(origin, "CPU_FACTS", facts)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "BEADS")
    for checkout, commit in (((None, None), "no checkout"), (("abc", False), "abc"), (("abc", True), "abc-dirty")):
        monkeypatch.setattr("components.runs.provenance.checkout", lambda checkout=checkout: checkout)
        assert origin.read_origin.__wrapped__() == {"processor": "abacus, BEADS", "commit": commit}


def test_the_start_is_the_digest_of_each_policy_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    first = {"tool": SimpleNamespace(weights_digest="a"), "plan": SimpleNamespace(weights_digest="b")}
    found = []
    monkeypatch.setattr("components.runs.run.Run", SimpleNamespace)
    monkeypatch.setattr(
        "components.runs.initial_checkpoints.initial_checkpoints", lambda store, run: found.append(run) or first
    )
    assert start_of_run("store", "config", "r-1") == {"tool": "a", "plan": "b"}
    assert found == [SimpleNamespace(run_id="r-1", config="config")]
