"""The method `population`: members whose returns are mixed and whose weights are coordinated."""

from components.methods.base import Method

METHOD = Method()
