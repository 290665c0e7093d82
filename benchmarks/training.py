"""What benchmarks of whole trainings share: services while they run, and a look at every iteration."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.ended_together import exit_when_told


@contextmanager
def services(home: Path | None = None, *, only: Sequence[str] = ("prefect",)) -> Iterator[Path]:
    """Their folder, a temporary one unless given; this process and those that it starts are clients inside the block.

    Ctrl-C, SIGTERM and SIGHUP end the block, and the services with it.
    """
    from infra.services.environment import environment
    from infra.services.stack import down, up

    exit_when_told()
    folder = home or Path(tempfile.mkdtemp(prefix="troupe-benchmark-"))
    try:
        os.environ.update(environment(up(folder, only=tuple(only))))
        os.environ["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "WARNING"
        from prefect.logging.handlers import APILogHandler  # it reads the settings

        try:
            yield folder
        finally:
            APILogHandler().flush()  # what is sent after the server's end is tried again for a minute
    finally:
        down(folder)


@contextmanager
def services_to_go_on(home: Path) -> Iterator[None]:
    """Services in the folder of a benchmark that goes on where it was stopped, and says so when it is.

    Raises SystemExit when `home` is not a folder.
    """
    if home.exists() and not home.is_dir():
        raise SystemExit(f"--home {home}: a file; name a folder, which need not exist")
    home.mkdir(parents=True, exist_ok=True)
    try:
        with services(home / "services"):
            yield
    except SystemExit:
        print("stopped; the same command continues from here", file=sys.stderr)
        raise


@contextmanager
def watch_iterations(around: Callable[[int], AbstractContextManager[Any]]) -> Iterator[None]:
    """Inside, `train` runs each of its iterations within `around(step)`."""
    import flows.train

    iteration_runs = flows.train.iteration_runs

    @contextmanager
    def watch_runs(iteration: Any) -> Iterator[Callable[..., Any]]:
        with iteration_runs(iteration) as iterate:

            def iterate_watched(run: Any, step: int, checkpoints: Any) -> Any:
                with around(step):
                    return iterate(run, step, checkpoints)

            yield iterate_watched

    flows.train.iteration_runs = watch_runs
    try:
        yield
    finally:
        flows.train.iteration_runs = iteration_runs
