"""Runs a module of Prefect after Troupe's own have been imported.

    python -P -m infra.services.prefect_module prefect.engine

Prefect imports a flow with the current folder before all else on the module path: there, a `tasks.py` or `flows/` of the user's
would hide Troupe's packages of these names.
"""

import runpy
import sys

from components.long_lived import long_lived

with long_lived():
    import flows.train  # noqa: F401


def main() -> None:
    """Run the module that the first argument names, with the arguments after it."""
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
