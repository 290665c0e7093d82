"""Runs a Prefect module, with arguments, after importing Troupe's own.

    python -P -m infra.services.prefect_module prefect.engine

Prefect puts the current folder first on the module path to import a flow; a user's `tasks.py` or `flows/` there would hide
Troupe's packages of the same names.
"""

import runpy
import sys

from components.gc_tuning import gc_paused

with gc_paused():
    import flows.train  # noqa: F401

if __name__ == "__main__":
    sys.argv = sys.argv[1:]  # the module and its arguments
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
