"""The method `team`: agents that act in turn on one problem, whose policies learn from what they earn together."""

from components.methods.base import Method

METHOD = Method()
