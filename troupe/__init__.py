"""Troupe trains teams of language-model agents with reinforcement learning. These are the names that users need.

**Example** An environment of one's own, in `guess.py`: `from troupe import Environment, Step`, a subclass with `roles`, `draw`,
`observe` and `step` (see `Environment`), and then `troupe train guess:Guess`.
"""

from components.artifacts.refs import Frozen as Options
from components.environments.environment import Environment, Step
from components.errors import MalformedAction as MalformedAnswer

__all__ = ["Environment", "MalformedAnswer", "Options", "Step"]
