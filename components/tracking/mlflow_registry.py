"""MLflow's model registry: one model per line of teams, one version per step of a run.

A version stands for the whole team: its tags name the run, the step, and for each policy the digest of its weights and its
folder. A version is found by its tags for run, step and digest of the team.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from components.errors import ConfigurationError
from components.schema import EvalReport
from components.text.escaping import show_value
from components.tracking.base import TeamCheckpoint
from components.tracking.mlflow_runs import RUN_ID_TAG
from components.tracking.mlflow_server import MlflowServer, mlflow_exception, tolerating

BEST = "best"
"""The alias of the version with the highest held-out success of its line; of equal ones the earliest."""
CHAMPION = "champion"
"""The alias of the version that nightly evaluation has made the champion of its line."""
STEP_TAG = "troupe.step"
TEAM_TAG = "troupe.team_digest"
POLICIES_TAG = "troupe.policies"
DIGEST_TAG = "troupe.weights_digest."
FOLDER_TAG = "troupe.folder_uri."
PARENT_TAG = "troupe.parent_version"
FILES_TAG = "troupe.files"
SUITE_TAG = "troupe.suite_digest"
SUCCESS_TAG = "troupe.success."
INTERVAL_TAG = "troupe.success_interval."
_REMOVED = "removed by troupe gc"
_PLACE = re.compile(r"models:/(?P<model>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>[1-9]\d*))")


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamVersion:
    """A registered team: the run and step that made it, and by policy the digest of its weights and its folder."""

    model: str
    version: int
    run_id: str
    step: int
    weights_digests: Mapping[str, str]
    folder_uris: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class _Registered:
    """What this process knows of a run's versions: step and digest of each, and the newest one's number."""

    newest: int
    teams: set[tuple[str | None, str | None]] = field(default_factory=set)


class MlflowRegistry:
    """The registry of one server."""

    def __init__(self, server: MlflowServer) -> None:
        self._server = server
        self._known: dict[tuple[str, str], _Registered] = {}
        """By model and run, until another process creates a version of the model."""

    def set_alias(self, model: str, alias: str, version: int) -> None:
        """Let `alias` name this version. Raises ConfigurationError if there is none, PermanentError for a reserved alias."""
        with self._server.requests(), _name_unknown_place(f"models:/{model}/{version}"):
            self._client.set_registered_model_alias(model, alias, str(version))

    def version_of(self, model: str, alias: str) -> int | None:
        """The number of the version that `alias` names; None if it names none."""
        with self._server.requests():
            try:
                return int(self._client.get_model_version_by_alias(model, alias).version)
            except mlflow_exception() as error:
                if error.error_code in _UNKNOWN:
                    return None
                raise

    def name_champion(self, run_id: str, step: int, *, weights: str | None = None) -> bool:
        """Let `champion` name the version of a run's step with this digest of the team (None: any); False if it is not
        registered."""
        about = f"tags.`{RUN_ID_TAG}` = '{run_id}' and tags.`{STEP_TAG}` = '{step}'"
        about += f" and tags.`{TEAM_TAG}` = '{weights}'" if weights else ""
        with self._server.requests():
            found = self._client.search_model_versions(about)
            for version in found[:1]:
                self._client.set_registered_model_alias(version.name, CHAMPION, version.version)
        return bool(found)

    def resolve(self, uri: str) -> TeamVersion:
        """The team at `models:/name@alias` or `models:/name/3`.

        Raises ConfigurationError for an address of another form, an unknown model, version or alias, a version that Troupe did
        not register, and one whose files were removed.
        """
        place = _PLACE.fullmatch(uri)
        if place is None:
            raise ConfigurationError(f"{show_value(uri)}: write models:/NAME@ALIAS or models:/NAME/VERSION")
        with self._server.requests(), _name_unknown_place(uri):
            if place["alias"]:
                found = self._client.get_model_version_by_alias(place["model"], place["alias"])
            else:
                found = self._client.get_model_version(place["model"], place["version"])
        return _team_version(uri, found)

    def register(
        self, run_id: str, checkpoint: TeamCheckpoint, *, mlflow_id: str, source: Callable[[TeamCheckpoint], str]
    ) -> None:
        """A version of the model, unless the run has registered these weights at this step. MLflow's alias `latest` is the
        newest version. `source` gives what the version is made from."""
        model, step, digest = checkpoint.model, str(checkpoint.step), checkpoint.digest
        known = self._known.pop((model, run_id), None) or self._find_registered(model, run_id)
        if (step, digest) in known.teams:
            self._without_twins(model, run_id, step, digest)
            return
        tags = {RUN_ID_TAG: run_id, STEP_TAG: step, TEAM_TAG: digest, POLICIES_TAG: ",".join(checkpoint.policies)}
        for policy, files in checkpoint.policies.items():
            tags |= {f"{DIGEST_TAG}{policy}": files.weights_digest, f"{FOLDER_TAG}{policy}": files.folder_uri}
        if known.teams:
            tags[PARENT_TAG] = str(known.newest)
        created = self._client.create_model_version(
            model, source(checkpoint), run_id=mlflow_id, tags=tags, await_creation_for=0
        )
        number = int(created.version)
        if number != known.newest + 1:
            self._without_twins(model, run_id, step, digest)
        else:
            self._known[model, run_id] = _Registered(newest=number, teams={*known.teams, (step, digest)})

    def score(self, run_id: str, model: str, report: EvalReport) -> None:
        """Record an evaluation beside the version that it is of, and let `best` name the best version of the line.

        Compared are versions evaluated on the same problems: greedily played ones, if there are any.
        """
        versions = self._versions(model, {RUN_ID_TAG: run_id, STEP_TAG: str(report.step)})
        if not versions:
            return
        low, high = report.interval
        tags = {
            SUITE_TAG: report.suite_digest,
            f"{SUCCESS_TAG}{report.sampling}": f"{report.success_rate:.6g}",
            f"{INTERVAL_TAG}{report.sampling}": f"{low:.3f} to {high:.3f}",
        }
        self._tag(versions[-1], tags)
        self._name_best(model, tags[SUITE_TAG])

    def mark_files(self, run_id: str, checkpoint: TeamCheckpoint, *, are_there: bool) -> None:
        """Record in a tag and in the description of a version whether its files are still in the store.

        The version itself is not deleted, because later versions name it as their parent.
        """
        about = {RUN_ID_TAG: run_id, STEP_TAG: str(checkpoint.step), TEAM_TAG: checkpoint.digest}
        for version in self._versions(checkpoint.model, about):
            self._tag(version, {FILES_TAG: "in the store" if are_there else _REMOVED})

    def remove(self, run_id: str) -> list[str]:
        """Delete the run's versions, and models without any left; a line for each model."""
        found = self._client.search_model_versions(f"tags.`{RUN_ID_TAG}` = '{run_id}'")
        removed = []
        for model in sorted({version.name for version in found}):
            mine = [version for version in found if version.name == model]
            for version in mine:
                with tolerating("RESOURCE_DOES_NOT_EXIST"):
                    self._client.delete_model_version(model, version.version)
            if left := self._versions(model, {}):
                removed.append(f"{len(mine)} versions of model {model}")
                suites = [version.tags[SUITE_TAG] for version in left if SUITE_TAG in version.tags]
                if suites:
                    self._name_best(model, suites[-1])
            else:
                removed.append(f"model {model}")
                with tolerating("RESOURCE_DOES_NOT_EXIST"):
                    self._client.delete_registered_model(model)
            self._known.pop((model, run_id), None)
        return removed

    @property
    def _client(self) -> Any:
        return self._server.client

    def _find_registered(self, model: str, run_id: str) -> _Registered:
        """The run's versions of the model, which is created if needed."""
        found = self._versions(model, {RUN_ID_TAG: run_id})
        if not found:
            with tolerating("RESOURCE_ALREADY_EXISTS"):
                about = f"Teams of preset {model}: a version is a team after a step of a run."
                self._client.create_registered_model(model, tags={"troupe.preset": model}, description=about)
        teams = {(version.tags.get(STEP_TAG), version.tags.get(TEAM_TAG)) for version in found}
        return _Registered(newest=max((int(version.version) for version in found), default=0), teams=teams)

    def _versions(self, model: str, tags: Mapping[str, str]) -> list[Any]:
        """The versions of the model with these tags, oldest first."""
        wanted = " and ".join([f"name = '{model}'", *(f"tags.`{name}` = '{value}'" for name, value in tags.items())])
        found: list[Any] = []
        page = self._client.search_model_versions(wanted)
        while page:
            found += page
            page = self._client.search_model_versions(wanted, page_token=page.token) if page.token else []
        return sorted(found, key=lambda version: int(version.version))

    def _without_twins(self, model: str, run_id: str, step: str, digest: str) -> None:
        """Delete all versions of one checkpoint but the oldest; there are more only after a race."""
        for twin in self._versions(model, {RUN_ID_TAG: run_id, STEP_TAG: step, TEAM_TAG: digest})[1:]:
            with tolerating("RESOURCE_DOES_NOT_EXIST"):
                self._client.delete_model_version(model, twin.version)

    def _tag(self, version: Any, tags: Mapping[str, str]) -> None:
        """Add tags to a version, and describe it by all of them."""
        new = {name: value for name, value in tags.items() if version.tags.get(name) != value}
        for name, value in new.items():
            self._client.set_model_version_tag(version.name, version.version, name, value)
        text = _description({**version.tags, **tags})
        if text != (version.description or ""):
            self._client.update_model_version(version.name, version.version, description=text)

    def _name_best(self, model: str, suite: str) -> None:
        best = best_version({int(each.version): each.tags for each in self._versions(model, {SUITE_TAG: suite})})
        if best is not None:
            self._client.set_registered_model_alias(model, BEST, str(best))


def best_version(tags: Mapping[int, Mapping[str, str]]) -> int | None:
    """The number of the version of highest success, of equal ones the earliest; None if none was evaluated.

    **Example** versions 1 to 3 with greedy success 0.5, 0.75 and 0.75: 2.
    """
    for sampling in ("greedy", "sample"):
        success = {
            version: float(each[f"{SUCCESS_TAG}{sampling}"])
            for version, each in tags.items()
            if f"{SUCCESS_TAG}{sampling}" in each
        }
        if success:
            return max(success, key=lambda version: (success[version], -version))
    return None


def _description(tags: Mapping[str, str]) -> str:
    """**Example** "Step 40 of run plan-path. Held-out success, greedy: 0.75 (95% interval 0.598 to 0.858)."."""
    parts = [f"Step {tags.get(STEP_TAG)} of run {tags.get(RUN_ID_TAG)}."]
    for name, value in sorted(tags.items()):
        if name.startswith(SUCCESS_TAG):
            sampling = name.removeprefix(SUCCESS_TAG)
            parts.append(f"Held-out success, {sampling}: {value} (95% interval {tags.get(INTERVAL_TAG + sampling)}).")
    if tags.get(FILES_TAG) == _REMOVED:
        parts.append("Its files were removed by `troupe gc`: this version cannot be loaded.")
    return " ".join(parts)


def _team_version(uri: str, version: Any) -> TeamVersion:
    tags = version.tags
    if not {RUN_ID_TAG, STEP_TAG, POLICIES_TAG} <= tags.keys():
        raise ConfigurationError(f"{uri}: version {version.version} was not registered by Troupe; name one that was")
    if tags.get(FILES_TAG) == _REMOVED:
        raise ConfigurationError(
            f"{uri}: the files of step {tags[STEP_TAG]} of run {tags[RUN_ID_TAG]} were removed by `troupe gc`; name "
            "another version, or train the run again"
        )
    policies = tags[POLICIES_TAG].split(",")
    return TeamVersion(
        model=version.name,
        version=int(version.version),
        run_id=tags[RUN_ID_TAG],
        step=int(tags[STEP_TAG]),
        weights_digests={policy: tags[f"{DIGEST_TAG}{policy}"] for policy in policies},
        folder_uris={policy: tags[f"{FOLDER_TAG}{policy}"] for policy in policies},
    )


_UNKNOWN = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
"""MLflow's errors for an unknown model or version, and for an unknown alias."""


@contextmanager
def _name_unknown_place(uri: str) -> Iterator[None]:
    """Name the address in the error for one that does not exist."""
    try:
        yield
    except mlflow_exception() as error:
        if error.error_code not in _UNKNOWN:
            raise
        reason = str(error.message).removeprefix(f"{error.error_code}: ").rstrip(".")
        raise ConfigurationError(f"{uri}: {reason}; MLflow's page Models lists models, versions and aliases") from error
