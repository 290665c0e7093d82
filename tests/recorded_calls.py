"""Stand-ins that note how they are called, as the signature of the original reads it."""

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

Call = tuple[str, dict[str, Any]]
"""A name, and the arguments that were given, by parameter."""


def call(name: str, /, **arguments: Any) -> Call:
    """A call as it is noted."""
    return name, arguments


class RecordedCalls(list[Call]):
    """The calls of all its stand-ins, in order. A call that the original would not take is a TypeError."""

    def function(self, original: Callable[..., Any], answer: Any = None, *, name: str | None = None) -> Any:
        """A stand-in for a function or a class. An `answer` that can be called is called with the arguments."""
        signature, told = inspect.signature(original), name or original.__name__

        def call(*args: Any, **kwargs: Any) -> Any:
            arguments = signature.bind(*args, **kwargs).arguments
            self.append((told, dict(arguments)))
            return answer(**arguments) if callable(answer) else answer

        stand_in: Any = call
        stand_in.__signature__ = signature
        return stand_in

    def replace(self, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, answer: Any = None) -> None:
        """Put a stand-in in the place of what `module` has under this name."""
        monkeypatch.setattr(module, name, self.function(getattr(module, name), answer, name=name))

    def object(self, original: type, name: str, **answers: Any) -> Any:
        """A stand-in for an object, whose calls are named "<name>.<method>"."""
        return _Object(self, original, name, answers)


class _Object:
    def __init__(self, calls: RecordedCalls, original: type, name: str, answers: dict[str, Any]) -> None:
        self._calls, self._original, self._name, self._answers = calls, original, name, answers

    def __getattr__(self, attribute: str) -> Any:
        method = getattr(self._original, attribute)
        bound = method.__get__(self, self._original)
        return self._calls.function(bound, self._answers.get(attribute), name=f"{self._name}.{attribute}")


def fails(error: BaseException) -> Callable[..., NoReturn]:
    """An answer that raises."""

    def raise_error(**_: object) -> NoReturn:
        raise error

    return raise_error
