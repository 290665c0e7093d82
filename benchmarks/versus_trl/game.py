"""The task `tiny`: a small model finds paths in one answer, from a warm start."""

from benchmarks.versus_trl.order import AS_SHIPPED, COMPONENTS, TROUPE, TUNED, Order
from benchmarks.versus_trl.outcomes import Goal
from benchmarks.versus_trl.task import POLICY, Sizes, Task

ROLE = "plan_agent"


def overrides(order: Order) -> list[str]:
    """The board, the model and its cloning."""
    return [
        "environment.options={size: 4, wall_density: 0.05, min_distance: 2, max_distance: 3, max_moves: 3}",
        f"agents={{{ROLE}: {{policy: {POLICY}}}}}",
        f"policies={{{POLICY}: {{base: '{order.model_folder}'}}}}",
        f"warm_start={{noise: 0.25, min_success: {order.gate}, max_success: 0.8}}",
    ]


TINY = Task(
    name="tiny",
    told="plan_path",
    role=ROLE,
    preset="plan-path",
    overrides=overrides,
    start_module="warm_start",
    sizes=Sizes(
        num_rounds=5, num_steps=30, num_problems=64, learning_rate=1.0e-3, dtypes=("float32",),
        arms=(TROUPE, COMPONENTS, TUNED, AS_SHIPPED),
    ),
    goal=Goal(success=0.9, window_samples=2560),
)  # fmt: skip
