"""Prefect's thread pool, without waiting for its threads after an interruption."""

from typing import Any

from prefect.task_runners import ThreadPoolTaskRunner

from components.machine.outages import interrupt


class ThreadRunner(ThreadPoolTaskRunner[Any]):
    """Ends with its flow. After an interruption its threads are abandoned; uncommitted work is computed again."""

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        if exc_type is not None and not issubclass(exc_type, Exception):
            interrupt()
            if self._executor is not None:
                self._executor.shutdown(wait=False, cancel_futures=True)
                self._executor = None
        super().__exit__(exc_type, exc_value, traceback)
