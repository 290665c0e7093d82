"""The tasks, and the run of an order."""

from benchmarks.versus_trl.game import TINY
from benchmarks.versus_trl.order import Order
from benchmarks.versus_trl.smollm2 import SMOLLM2
from benchmarks.versus_trl.task import by_name, config_of
from components.config import RunConfig

TASKS = by_name(TINY, SMOLLM2)


def run_config(order: Order) -> RunConfig:
    """The run that Troupe performs; TRL's arguments are read from it too."""
    return config_of(TASKS[order.task], order)
