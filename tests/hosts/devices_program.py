"""On the head: the devices that Ray gives to the ranks of two models, where it believes that each host has four GPUs."""

import json

import ray

from components.cluster.ranks import ClusterTrainer
from components.runs.run import Run
from flows.presets import preset_config

MODELS = [
    "policies={tool: {base: tiny}, plan: {base: tiny}}",
    "agents={tool_agent: {policy: tool}, plan_agent: {policy: plan}}",
]


def main() -> None:
    ray.init(address="auto", log_to_driver=False, namespace="troupe")
    settings = ["training.device=cuda", "training.num_ranks=2", "resources.runner=ray", "tracking.kind=none"]
    run = Run(run_id="devices", config=preset_config("tiny", [*MODELS, *settings]))
    trainers = [ClusterTrainer(run, name, name) for name in ("plan", "tool")]
    found = []
    for trainer in trainers:
        trainer._group = trainer._place()
        found.append(trainer.describe_ranks())
    for trainer in trainers:
        trainer.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
