"""The sections `store`, `tracking` and `resources`: where artifacts and metrics go, and what runs at once.

None of them affects results.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from components.config.placement import PlacementConfig
from components.config.types import Address, Label, Name, Prefix
from components.frozen import Settings
from components.user_code import is_custom


class StoreConfig(Settings):
    kind: Literal["local", "s3"] = "s3"
    root: str | None = None
    """local: the directory."""
    bucket: Name = "troupe"
    """s3: the bucket."""
    prefix: Prefix = ""
    """s3: the prefix of all keys."""
    endpoint_url: Address | None = None
    """s3: the address of another server than AWS; None uses the local server of `troupe up`, or AWS's own settings."""
    region: Name | None = None
    """s3: the region; None uses AWS_REGION, or AWS's own settings."""
    addressing: Literal["auto", "path", "virtual"] = "auto"
    """s3: whether the bucket stands in the path of an address or in its host's name; auto: at AWS in the host's name."""
    patience_seconds: float = Field(600.0, ge=0)
    """s3: how long a run waits for a server that does not answer before it ends. Finished work is kept."""

    @model_validator(mode="after")
    def _root_for_local(self) -> "StoreConfig":
        if self.kind == "local" and not self.root:
            raise ValueError("kind local needs root, the directory that holds the artifacts")
        return self

    def move_to(self, other: "StoreConfig") -> "StoreConfig":
        """This store's settings with the location of another."""
        return other.model_copy(update={"patience_seconds": self.patience_seconds})


def _check_kind(kind: str) -> str:
    if kind not in ("mlflow", "none") and not is_custom(kind):
        raise ValueError("use mlflow, none, or a tracker of your own as module:Class")
    return kind


class TrackingConfig(Settings):
    kind: Annotated[str, AfterValidator(_check_kind)] = "mlflow"
    """mlflow, none, or a class of your own as `module:Class` with the methods of `troupe.Tracker`; it is called with this
    section."""
    url: Address | None = None
    """MLflow's tracking address; None uses the local server of `troupe up`, or MLFLOW_TRACKING_URI."""
    experiment: Label = "troupe/{environment}"
    """MLflow's experiment; `{environment}` stands for the environment's name."""
    register_models: bool = True
    """Register each step's checkpoints as a version of the model that has the preset's name."""
    traces_per_step: int = Field(2, ge=0, le=100)
    """Training episodes of each step that are shown in full as MLflow traces; 0 shows none."""
    episode_pictures: bool = True
    """Of a hybrid run on an emulator: a GIF of one episode of each evaluation, in the store and in MLflow; false: none."""


def with_experiment(values: Any) -> Any:
    """The values of a configuration with the environment's name in `tracking.experiment`; invalid ones are left as they are.

    **Example** environment plan_path and no experiment give `tracking: {experiment: troupe/plan_path}`.
    """
    if not isinstance(values, Mapping):
        return values
    environment, tracking = values.get("environment"), values.get("tracking", {})
    name = environment.get("name") if isinstance(environment, Mapping) else getattr(environment, "name", None)
    if isinstance(tracking, TrackingConfig):
        tracking = tracking.model_dump()
    if not isinstance(name, str) or not isinstance(tracking, Mapping):
        return values
    experiment = tracking.get("experiment", TrackingConfig.model_fields["experiment"].default)
    if not isinstance(experiment, str):
        return values
    return {**values, "tracking": {**tracking, "experiment": experiment.replace("{environment}", name)}}


class ResourceConfig(Settings):
    max_updates_at_once: int = Field(1, ge=1)
    """Policies that are updated concurrently."""
    runner: Literal["thread", "ray"] = "thread"
    """Whether rollout and reward shards run in this process or on a Ray cluster."""
    max_shards_at_once: int = Field(1, ge=1)
    """Concurrent shards of this process, or concurrent tasks on Ray."""
    ray_address: str | None = None
    """ray: the cluster's address; None takes that of the variable RAY_ADDRESS, or without it starts one on this machine."""
    placement: PlacementConfig = PlacementConfig()
    """Which devices the workers have."""
    prefect_patience_seconds: float = Field(600.0, ge=0)
    """How long a run waits for a Prefect server that does not answer before it ends. Finished work is kept."""
    fast_iterations: bool = True
    """Create and report the flow runs of iterations in the background, by parts of Prefect that it does not document.
    False runs each as a plain child flow, about 0.3 s slower."""
