"""The sections `sandbox` and `execution`: where programs run, and the limits of one."""

from typing import Literal

from pydantic import Field

from components.frozen import Settings


class ExecutionConfig(Settings):
    wall_seconds: float = Field(10.0, gt=0.0, le=600.0)
    """Wall time of one program. CPU time is the fair limit on shared cores: keep this a few times larger."""
    cpu_seconds: float = Field(4.0, gt=0.0, le=600.0)
    memory_mib: int = Field(256, ge=32, le=65536)
    """Address space of one program."""
    output_kib: int = Field(64, ge=1, le=4096)
    """Of standard output and of standard error, each; a program that writes more is killed."""


class SandboxConfig(Settings):
    backend: Literal["auto", "docker", "bubblewrap"] = "auto"
    """auto uses docker, else bubblewrap, and refuses if neither works; programs never run outside a sandbox."""
    agents: Literal["trusted", "box"] = "trusted"
    """Where programs that are agents run: trusted, as you, unless the program itself asks for a box; box, all of them in boxes
    (bubblewrap), which have no network but the endpoint."""
    num_boxes: int | None = Field(None, ge=1)
    """Programs that may run at once; None means two per core."""
    spot_check_fraction: float | None = Field(None, ge=0.0, le=1.0)
    """Share of a shard's recorded executions that the reward stage repeats, at this share of the rollout's sandbox time. A
    program with another result than recorded is an error; rewards never change. None means .05 if resources.ray_address or
    RAY_ADDRESS names a cluster, whose hosts play the shards, and 0 otherwise."""
