"""Documented import paths whose names stand elsewhere."""

import sys
from types import ModuleType


def add_module(path: str, doc: str, **names: object) -> None:
    """Make `path` a module of these names, as if it were a file beside others of its package, which must be imported."""
    module = ModuleType(path, doc)
    vars(module).update(names)
    sys.modules[path] = module
    package, _, name = path.rpartition(".")
    setattr(sys.modules[package], name, module)
