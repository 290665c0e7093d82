"""What a training says of itself in Prefect: a line for each step, its gain, two pages."""

import logging
from typing import Any

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

from components.reporting import progress
from components.reporting.progress import subscribe
from flows import run_pages
from flows.run_pages import RunPages, gain_lines, summary_page
from tests.components.tracking.reports import evaluation as report_after

METRICS = {
    "rollout/success_rate": 0.3125,
    "reward/tool_agent/mean": 0.125,
    "reward/plan_agent/mean": 0.25,
    "train/x/loss": 9,
}
TIMINGS = {"time/collect_rollouts_seconds": 8.0, "time/update_policy_seconds": 4.34}


def evaluation(step: int, solved: tuple[int, ...]) -> dict[str, Any]:
    return {
        "sampling": "greedy", "step": step, "suite_digest": "d", "n": len(solved), "interval": [0.1, 0.9],
        "success_rate": sum(solved) / len(solved), "num_solved_P": list(solved),
    }  # fmt: skip


def summary(*evaluations: dict[str, Any], run_url: str | None = "http://mlflow/run") -> dict[str, Any]:
    return {
        "run_id": "My run", "store_option": "", "num_steps": 2, "seconds": 12.4, "run_url": run_url,
        "evaluations": evaluations, "checkpoint_digest": {"team": "0123456789abcdef0123"},
    }  # fmt: skip


def test_the_gain_is_that_of_each_sampling_with_its_paired_interval() -> None:
    before, after = evaluation(0, (0, 0, 1, 0)), evaluation(2, (1, 1, 1, 1))
    (line,) = gain_lines([before, evaluation(1, (0, 1, 1, 0)), after])
    assert line.startswith("gain, greedy: 0.250 -> 1.000 (+0.750, 95% interval +")
    assert gain_lines([before]) == ["gain, greedy: 0.250 -> 0.250 (+0.000)"]
    assert gain_lines([]) == []
    paid = [{**each, "success_rate": 1.0, "metrics": {"eval/greedy/ann/payoff": 0.5, "eval/greedy/bob/payoff": -0.5}}
            for each in (before, after)]  # fmt: skip
    assert gain_lines(paid) == ["payoffs, greedy: ann 0.500 -> 0.500, bob -0.500 -> -0.500"]


def test_the_page_has_every_evaluation_and_escapes_names() -> None:
    page = summary_page(summary(evaluation(0, (0, 1)), run_url=None) | {"checkpoint_digest": {"a|b": "f" * 64}})
    assert "| 0 | greedy | 0.500 | 0.100 to 0.900 | 2 |" in page
    assert "a|b" not in page
    assert "MLflow" not in page


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
def test_a_flow_run_has_its_numbers_in_the_log_and_two_pages(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("pages")

    @flow
    def told() -> str:
        pages = RunPages("My run", logger, view="troupe view my-run")
        with subscribe(pages.hear):
            for url in (None, "http://mlflow/run", "http://mlflow/run"):
                progress.report("links", 0, 1, 1, MLflow=url)
            progress.report("iteration", 6, 7, 100, metrics=METRICS, timings=TIMINGS)
            progress.report("evaluated", 7, 1, 1, report=report_after(7))
            progress.report("collect_rollouts", 7, 1, 2)
        pages.end(summary(evaluation(0, (0, 1)), evaluation(2, (1, 1))))
        from prefect import runtime

        return str(runtime.flow_run.id)

    with caplog.at_level(logging.INFO, logger="pages"):
        flow_run = told()
    lines = [record.getMessage() for record in caplog.records if record.name == "pages"]
    assert lines[0] == "step 6 (7 of 100): success 0.312, reward plan_agent 0.250, reward tool_agent 0.125, 12.3 s"
    assert lines[1].startswith("held-out success after 7 steps, ")
    assert lines[2].startswith("gain, greedy: 0.500 -> 1.000 (+0.500")
    assert len(lines) == 3
    with get_client(sync_client=True) as client:
        mine = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run]))
        read = client.read_artifacts(artifact_filter=mine)
        found = {each.key: str(each.data) for each in read}
    assert found.keys() == {"mlflow--y-run", "run--y-run"}
    assert any("http://mlflow/run" in data for data in found.values())
    assert any("`troupe view my-run`" in str(each.description) for each in read)


def test_a_page_in_mlflow_that_is_known_late_is_linked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    links: list[str] = []
    monkeypatch.setattr(run_pages, "create_link_artifact", lambda *, link, **_: links.append(link))
    monkeypatch.setattr(run_pages, "create_markdown_artifact", lambda **_: None)
    pages = RunPages("r", logging.getLogger("pages"), view="troupe view r")
    pages.hear(progress.Progress(stage="links", step=0, done=1, total=1, facts={"MLflow": None}))
    pages.end(summary())
    pages.end(summary())
    assert links == ["http://mlflow/run"]


def test_a_server_that_is_away_costs_the_page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(**_: Any) -> None:
        raise run_pages.httpx.ConnectError("refused")

    for name in ("create_link_artifact", "create_markdown_artifact"):
        monkeypatch.setattr(run_pages, name, away)
    RunPages("r", logging.getLogger("pages"), view="troupe view r").end(summary())
