"""The sections `store`, `tracking` and `resources`: where artifacts and metrics go, and what runs at once.

None of them affects results.
"""

from typing import Literal

from pydantic import Field, model_validator

from components.config.types import Address, Label, Name, Prefix
from components.frozen import Frozen


class StoreConfig(Frozen):
    kind: Literal["local", "s3"] = "s3"
    root: str | None = None
    """local: the directory."""
    bucket: Name = "troupe"
    """s3: the bucket."""
    prefix: Prefix = ""
    """s3: the prefix of all keys."""
    endpoint_url: Address | None = None
    """s3: the address of another server than AWS; None uses the local server of `troupe up`, or AWS's own settings."""
    patience_seconds: float = Field(600.0, ge=0)
    """s3: how long a run waits for a server that does not answer before it ends. Finished work is kept."""

    @model_validator(mode="after")
    def _root_for_local(self) -> "StoreConfig":
        if self.kind == "local" and not self.root:
            raise ValueError("kind local needs root, the directory that holds the artifacts")
        return self

    def moved_to(self, other: "StoreConfig") -> "StoreConfig":
        """This store's settings with the location of another."""
        return other.model_copy(update={"patience_seconds": self.patience_seconds})


class TrackingConfig(Frozen):
    kind: Literal["mlflow", "none"] = "mlflow"
    url: Address | None = None
    """MLflow's tracking address; None uses the local server of `troupe up`, or MLFLOW_TRACKING_URI."""
    experiment: Label = "troupe"
    register_models: bool = True
    """Register each checkpoint as a model version of `<run_id>.<policy>`."""


class ResourceConfig(Frozen):
    max_updates_at_once: int = Field(1, ge=1)
    """Policies that are updated concurrently."""
    runner: Literal["thread", "ray"] = "thread"
    """Whether rollout and reward shards run in this process or on a Ray cluster."""
    max_shards_at_once: int = Field(1, ge=1)
    """Concurrent shards of this process, or concurrent tasks on Ray."""
    ray_address: str | None = None
    """ray: the cluster's address; None starts one on this machine."""
    prefect_patience_seconds: float = Field(120.0, ge=0)
    """How long a run waits for a Prefect server that does not answer before it ends. Finished work is kept."""
    fast_iterations: bool = True
    """Create and report the flow runs of iterations in the background, by parts of Prefect that it does not document.
    False runs each as a plain child flow, about 0.3 s slower."""
