"""Troupe as a user runs it: the whole `train` flow in this process, against a Prefect server.

python -m benchmarks.versus_trl.troupe_arm ORDER.json
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.versus_trl.order import Order
from benchmarks.versus_trl.registry import run_config
from components import metrics


def train(order: Order) -> dict[str, Any]:
    """Train as ordered; when steps ended, how well they went, and where their seconds went."""
    from components.reporting import progress
    from flows.train import train as train_flow

    steps: list[tuple[float, dict[str, Any]]] = []

    def hear(told: progress.Progress) -> None:
        if told.stage == "iteration":
            steps.append((time.perf_counter(), told.facts))

    with progress.subscribe(hear):
        train_flow(run_config(order), "versus-trl")
    return {
        "step_ended_at": [ended_at for ended_at, _ in steps],
        "success_rates": [facts["metrics"][metrics.SUCCESS_RATE] for _, facts in steps],
        "num_tokens": [facts["metrics"][metrics.NUM_GENERATED_TOKENS] for _, facts in steps],
        "num_samples": order.num_samples,
        "stage_seconds": [dict(facts["timings"]) for _, facts in steps],
    }


if __name__ == "__main__":
    os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "WARNING"
    ordered = Order(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    ordered.result_file.write_text(json.dumps(train(ordered)), encoding="utf-8")
