"""The pictures of who did what to whom, on their way from the stage that draws them to the run's artifacts in MLflow."""

from pathlib import Path

import pytest

from components.artifacts.refs import ArtifactRef
from components.methods.population.interactions import FILES
from components.runs.run import Run
from components.session.publishing import Publishing
from components.session.session import Session
from flows.presets import preset_config
from flows.steps import POPULATION_PIPELINE as PIPELINE
from tasks import draw_interactions
from tests.components.tracking.conftest import Tracked


def test_what_is_drawn_of_a_population_is_an_artifact_of_its_run(
    tracked: Tracked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = ["store.kind=local", f"store.root={tmp_path / 'store'}", "tracking.kind=none"]
    run = Run(run_id="drawn", config=preset_config("population-tiny", local))
    for name in FILES:
        (tmp_path / "drawn" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "drawn" / name).write_bytes(f"the {name}".encode())
    monkeypatch.setattr(
        draw_interactions, "store_interactions", lambda session, step: session.store.put_folder(tmp_path / "drawn")
    )
    with Session(run) as session:
        session.publishing = Publishing(
            run, PIPELINE, session.store, tracked.tracker, first={}, tracing=None, changed={}, started_ms=5
        )
        state = ArtifactRef(kind="PopulationState", key="state", sha256="00", num_bytes=1)
        draw_interactions.draw_interactions.fn(session, 3, state)
        session.publishing.close(succeeded=True)
    for name in FILES:
        assert tracked.read.file("drawn", f"interactions/000003{Path(name).suffix}") == f"the {name}".encode()
