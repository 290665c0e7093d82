"""What one arm is told to do, and the arms."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TROUPE, COMPONENTS, TUNED, AS_SHIPPED = "troupe", "troupe without Prefect", "trl tuned", "trl as shipped"
SMALL_BATCHES, FLOAT32_ADAPTER = "trl, micro-batches of 8", "trl, float32 adapter"
"""As tuned, but for what the name says."""
TRL = (TUNED, SMALL_BATCHES, FLOAT32_ADAPTER, AS_SHIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What one arm is told to do. Folders and files are paths as text, so that an order is plain JSON."""

    task: str
    """The name of one of the tasks."""
    arm: str
    seed: int
    num_steps: int
    num_problems: int
    group_size: int
    num_threads: int
    learning_rate: float
    dtype: str
    model_folder: str
    work_folder: str
    gate: float
    """Success at which the warm start is enough."""

    @property
    def num_samples(self) -> int:
        """Of one step."""
        return self.num_problems * self.group_size

    @property
    def result_file(self) -> Path:
        return Path(self.work_folder) / "result.json"

    def document(self) -> dict[str, Any]:
        return asdict(self)
