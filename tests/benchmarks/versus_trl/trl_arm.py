"""TRL's GRPOTrainer on the same model, prompts and rewards, tuned or as it is shipped.

python -m tests.benchmarks.versus_trl.trl_arm ORDER.json
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from components.config import RunConfig
from components.environments.registry import family, family_options
from components.rewards.rubric import rubric_for
from components.rollout.router import seats_of
from tests.benchmarks.versus_trl.game import AS_SHIPPED, ROLE, Order, problems, run_config


class Referee:
    """The environment's reward as TRL calls it, and what it saw."""

    __name__ = "reward"

    def __init__(self, config: RunConfig) -> None:
        self._family = family(config.environment.name)
        self._rubric = rubric_for(self._family, config.rewards)
        self._problems = problems(config)
        self.success_rates: list[float] = []
        self.num_tokens: list[int] = []

    def prompts(self) -> list[dict[str, Any]]:
        """One row a problem: what the agent sees, and the problem's number."""
        return [
            {"prompt": self._family.build(problem).observe(ROLE).state, "number": number}
            for number, problem in enumerate(self._problems)
        ]

    def __call__(
        self, completions: list[str], completion_ids: list[list[int]], number: list[int], **_: Any
    ) -> list[float]:
        outcomes = [
            self._family.build(self._problems[index]).apply(ROLE, text)
            for index, text in zip(number, completions, strict=True)
        ]
        self.success_rates.append(sum(outcome.solves for outcome in outcomes) / len(outcomes))
        self.num_tokens.append(sum(len(tokens) for tokens in completion_ids))
        return [self._rubric.reward(outcome) for outcome in outcomes]


class Stopwatch(TrainerCallback):  # type: ignore[misc]
    """When each step ended."""

    def __init__(self) -> None:
        self.step_ended_at: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.step_ended_at.append(time.perf_counter())


def arguments(order: Order, config: RunConfig) -> GRPOConfig:
    """As shipped: only device, precision, lengths and the number of steps. Tuned: Troupe's batch, optimizer and loss, and
    nothing that costs time for nothing."""
    options = family_options(config.environment.name, config.environment.options)
    longest = family(config.environment.name).max_action_characters(options)
    shared: dict[str, Any] = {
        "output_dir": str(Path(order.work_folder) / "trl"),
        "use_cpu": True,
        "bf16": False,
        "report_to": [],
        "disable_tqdm": True,
        "max_steps": order.num_steps,
        "max_completion_length": seats_of(config, max_action_characters=longest)[ROLE].max_new_tokens,
        "seed": order.seed,
    }
    if order.arm == AS_SHIPPED:
        return GRPOConfig(**shared)
    training, loss = config.training, config.loss
    return GRPOConfig(
        **shared,
        activation_checkpointing=False,
        per_device_train_batch_size=order.num_samples,
        gradient_accumulation_steps=1,
        steps_per_generation=1,
        num_iterations=1,
        num_generations=order.group_size,
        shuffle_dataset=False,
        temperature=config.rollout.temperature,
        top_p=1.0,
        top_k=0,
        beta=0.0,
        epsilon=loss.clip_low,
        epsilon_high=loss.clip_high,
        loss_type="dapo",
        scale_rewards="group",
        learning_rate=training.learning_rate,
        lr_scheduler_type="constant",
        optim="adamw_torch_fused",
        adam_beta1=training.adam_betas[0],
        adam_beta2=training.adam_betas[1],
        weight_decay=training.weight_decay,
        max_grad_norm=training.max_grad_norm,
        dataloader_num_workers=0,
        save_strategy="no",
        logging_steps=order.num_steps,
    )


def train(order: Order) -> dict[str, Any]:
    """Train as ordered; when steps ended, and how well they went."""
    torch.set_num_threads(order.num_threads)
    config = run_config(order)
    referee, watch = Referee(config), Stopwatch()
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(order.model_folder, dtype=torch.float32),
        reward_funcs=referee,
        args=arguments(order, config),
        train_dataset=Dataset.from_list(referee.prompts()),
        processing_class=AutoTokenizer.from_pretrained(order.model_folder),
        callbacks=[watch],
    )
    trainer.train()
    recomputes = trainer.model.is_activation_checkpointing
    assert recomputes == (order.arm == AS_SHIPPED), f"{order.arm}: activations are recomputed: {recomputes}"
    return {
        "step_ended_at": watch.step_ended_at,
        "success_rates": referee.success_rates,
        "num_tokens": referee.num_tokens,
        "num_samples": trainer.args.generation_batch_size,
        "num_threads": torch.get_num_threads(),
    }


if __name__ == "__main__":
    ordered = Order(**json.loads(Path(sys.argv[1]).read_text()))
    ordered.result_file.write_text(json.dumps(train(ordered)))
