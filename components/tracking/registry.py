"""Registered models: how well each version does, which one is best, and which checkpoint a name means."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from components.errors import ConfigurationError
from components.schema import EvalReport
from components.tracking.mlflow_server import mlflow_exception, named_errors, new_client

RUN_ID_TAG = "troupe.run_id"
STEP_TAG = "troupe.step"
SUCCESS_TAG, INTERVAL_TAG = "troupe.success", "troupe.interval"
BEST, CHAMPION = "best", "champion"
_NAMED = re.compile(r"(?P<name>[^@/]+)(?:@(?P<alias>[^@/]+)|/(?P<version>\d+))")


def mark_success(client: Any, run_id: str, report: EvalReport) -> None:
    """Write an evaluation into the versions of its step: success and interval as tags and description. The alias `best` goes to
    the version with the highest success of this way of sampling, ties to the earlier step.

    A run that is evaluated in two ways has its alias from the greedy one.
    """
    low, high = report.interval
    tags = {SUCCESS_TAG: f"{report.success_rate:.6f}", INTERVAL_TAG: f"{low:.6f} {high:.6f}"}
    rate = f"{report.success_rate:.3f} ({low:.3f} to {high:.3f}, n {report.n})"
    text = f"held-out success, {report.sampling}: {rate} on {report.suite} {report.suite_digest}"
    for name in _models(client, run_id):
        for version in _versions(client, name):
            if version.tags.get(STEP_TAG) == str(report.step):
                for tag, value in tags.items():
                    client.set_model_version_tag(name, version.version, f"{tag}.{report.sampling}", value)
                client.update_model_version(name, version.version, description=text)
        _point_at_best(client, name, report)


def set_champion(client: Any, run_id: str, step: int) -> int:
    """Give the alias `champion` to the versions of a checkpoint; how many there are."""
    count = 0
    for name in _models(client, run_id):
        for version in _versions(client, name):
            if version.tags.get(STEP_TAG) == str(step):
                client.set_registered_model_alias(name, CHAMPION, version.version)
                count += 1
    return count


def resolve_model(
    url: str, name: str, *, account: Callable[[], AbstractContextManager[None]] = nullcontext
) -> tuple[str, int]:
    """The run and the step of a version, named as MODEL@ALIAS or MODEL/VERSION. Raises ConfigurationError.

    **Example** "plan-path.team@best" is ("plan-path", 75).
    """
    found = _NAMED.fullmatch(name)
    if found is None:
        raise ConfigurationError(
            f"models:/{name}: write models:/MODEL@ALIAS or models:/MODEL/VERSION, as models:/plan-path.team@best"
        )
    with account(), named_errors(url):
        client = new_client(url)
        try:
            if found["alias"]:
                version = client.get_model_version_by_alias(found["name"], found["alias"])
            else:
                version = client.get_model_version(found["name"], found["version"])
        except mlflow_exception() as error:
            if error.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise
            known = [model.name for model in client.search_registered_models(max_results=20)]
            raise ConfigurationError(
                f"models:/{name}: MLflow at {url} has no such version; its models are {', '.join(known) or 'none yet'}"
            ) from error
    if RUN_ID_TAG not in version.tags or STEP_TAG not in version.tags:
        raise ConfigurationError(
            f"models:/{name}: was not registered by Troupe; name a run, or the folder of the model"
        )
    return version.tags[RUN_ID_TAG], int(version.tags[STEP_TAG])


def _models(client: Any, run_id: str) -> list[str]:
    return [model.name for model in client.search_registered_models(f"tags.`{RUN_ID_TAG}` = '{run_id}'")]


def _versions(client: Any, name: str) -> list[Any]:
    found: list[Any] = []
    token = None
    while not found or token:
        page = client.search_model_versions(f"name = '{name}'", page_token=token)
        if not page:
            break
        found, token = [*found, *page], page.token
    return found


def _point_at_best(client: Any, name: str, report: EvalReport) -> None:
    """By the newest tags, which this evaluation has written."""
    versions = _versions(client, name)
    sampling = _deciding([version.tags for version in versions])
    rated = [version for version in versions if f"{SUCCESS_TAG}.{sampling}" in version.tags]
    if sampling != report.sampling or not rated:
        return
    best = max(rated, key=lambda each: (float(each.tags[f"{SUCCESS_TAG}.{sampling}"]), -int(each.tags[STEP_TAG])))
    client.set_registered_model_alias(name, BEST, best.version)


def _deciding(tags: Sequence[dict[str, str]]) -> str:
    return "greedy" if any(f"{SUCCESS_TAG}.greedy" in each for each in tags) else "sample"
