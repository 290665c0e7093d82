"""The environment variables of this process. No other module of the components reads them."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType


def read_variables() -> Mapping[str, str]:
    """All variables, as a view that follows changes and allows none."""
    return MappingProxyType(os.environ)


def read_variable(name: str) -> str | None:
    """The value of a variable; None if it is not set."""
    return os.environ.get(name)


@contextmanager
def without_variables(names: Iterable[str]) -> Iterator[None]:
    """Remove these variables inside the block, for the whole process: its callers take turns."""
    withheld = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(withheld)


def set_variables(variables: Mapping[str, str]) -> None:
    """Set these variables, for the whole process and its children."""
    os.environ.update(variables)
