"""The task `smollm2`: an adapter of SmolLM2-135M-Instruct learns to say sums, from its pretrained weights."""

from benchmarks.versus_trl.order import FLOAT32_ADAPTER, SMALL_BATCHES, TROUPE, TUNED, Order
from benchmarks.versus_trl.outcomes import Goal
from benchmarks.versus_trl.task import POLICY, Sizes, Task

ROLE = "calculator"
TEMPERATURE = 0.7
"""Of the untrained model's answers at 1 hardly any is right."""
_TARGETS = "[q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]"
_ROUNDING = {"float32": "", "bfloat16": ", importance_cap: 2.0, mismatch_tolerance: 2.0"}
"""In bfloat16 engine and trainer round differently, which Troupe corrects."""


def overrides(order: Order) -> list[str]:
    """The sums, the adapter and the precision."""
    adapter = f"{{rank: 16, alpha: 32, targets: {_TARGETS}}}"
    return [
        "environment={name: 'benchmarks.versus_trl.sums:Sums', max_turns: 1, answer_format: strict}",
        f"agents={{{ROLE}: {{policy: {POLICY}, max_new_tokens: 24}}}}",
        f"policies={{{POLICY}: {{base: '{order.model_folder}', prompt_format: chat, adapter: {adapter}}}}}",
        f"rollout.temperature={TEMPERATURE}",
        f"loss={{clip_high: 0.28{_ROUNDING[order.dtype]}}}",
        f"generation.dtype={order.dtype}",
        f"training.dtype={order.dtype}",
    ]


SMOLLM2 = Task(
    name="smollm2",
    told="sums in words, LoRA of rank 16 on SmolLM2-135M-Instruct",
    role=ROLE,
    preset="math-smollm",
    overrides=overrides,
    start_module="pretrained_start",
    sizes=Sizes(
        num_rounds=2, num_steps=5, num_problems=8, learning_rate=3.0e-4, dtypes=("bfloat16", "float32"),
        arms=(TROUPE, TUNED, SMALL_BATCHES, FLOAT32_ADAPTER),
    ),
    goal=Goal(success=0.5, window_samples=128),
    tells_steps=True,
)  # fmt: skip
