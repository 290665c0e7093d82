"""Where work is done, kept and shown. Nothing here changes a result."""

from typing import Literal

from pydantic import Field, model_validator

from components.config.names import Address, Label, Name, Prefix
from components.config.section import Section


class ResourceConfig(Section):
    max_updates_at_once: int = Field(1, ge=1)
    """Policies that are updated side by side."""
    runner: Literal["thread", "ray"] = "thread"
    """Where rollout and reward shards run: in this process, or on a Ray cluster."""
    max_shards_at_once: int = Field(1, ge=1)
    """Shards that this process works on side by side, or tasks that Ray runs at once."""
    ray_address: str | None = None
    """ray: the cluster's address; None starts one here."""
    prefect_patience_seconds: float = Field(120.0, ge=0)
    """How long a run waits for a Prefect server that does not answer before it ends; what is finished stays finished."""


class StoreConfig(Section):
    kind: Literal["local", "s3"] = "s3"
    root: str | None = None
    """local: the directory."""
    bucket: Name = "troupe"
    """s3: the bucket."""
    prefix: Prefix = ""
    """s3: everything lies under this key prefix."""
    endpoint_url: Address | None = None
    """s3: another server than AWS; None takes the local server of `troupe up`, or AWS's own settings."""
    patience_seconds: float = Field(600.0, ge=0)
    """s3: how long a run waits for a server that does not answer before it ends; what is finished stays finished."""

    @model_validator(mode="after")
    def _root_for_local(self) -> "StoreConfig":
        if self.kind == "local" and not self.root:
            raise ValueError("kind local needs root, the directory that holds the artifacts")
        return self

    def moved_to(self, other: "StoreConfig") -> "StoreConfig":
        """The settings of this store for the place of another."""
        return self.model_copy(update={name: getattr(other, name) for name in _PLACE_OF_STORE})


_PLACE_OF_STORE = ("kind", "root", "bucket", "prefix", "endpoint_url")


class TrackingConfig(Section):
    kind: Literal["mlflow", "none"] = "mlflow"
    url: Address | None = None
    """MLflow's tracking address; None takes the local server of `troupe up`, or MLFLOW_TRACKING_URI."""
    experiment: Label = "troupe"
    register_models: bool = True
    """Register each checkpoint as a model version of `<run_id>.<policy>`."""
