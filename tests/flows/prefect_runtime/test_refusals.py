"""A refusal is one line of Prefect's log; a failure of a user's own code keeps its traceback."""

import logging
from collections.abc import Callable

import pytest

from components.errors import ConfigurationError, StoreRefused
from flows.presets import preset_config
from flows.train import train


def refuse_override() -> None:
    preset_config("tiny", ["rollout.num_shards=nonsense", "training.learning_rate=-1"])


def refuse_text() -> None:
    preset_config("tiny", ["seed={a"])


def refuse_plainly() -> None:
    raise ConfigurationError("run: there is none")


def fail_in_own_code() -> None:
    try:
        {}["step"]
    except KeyError as error:
        raise ConfigurationError("environment.name mine: KeyError") from error


def fail_otherwise() -> None:
    raise StoreRefused("no space left")


@pytest.mark.parametrize("logger_name", ["prefect.flow_runs", "prefect.task_runs"])
@pytest.mark.parametrize(
    ("fail", "is_short"),
    [
        (refuse_override, True),
        (refuse_text, True),
        (refuse_plainly, True),
        (fail_in_own_code, False),
        (fail_otherwise, False),
    ],
)
def test_only_what_was_asked_wrongly_has_no_traceback(
    fail: Callable[[], None], is_short: bool, logger_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train.name == "train", "its import shortens refusals"
    found: list[logging.LogRecord] = []
    handler, logger = logging.Handler(), logging.getLogger(logger_name)
    handler.emit = found.append  # type: ignore[method-assign]
    monkeypatch.setattr(logger, "handlers", [handler])
    try:
        fail()
    except Exception as error:  # as Prefect's engine does
        logger.exception("Encountered exception during execution: %r", error)
        message = str(error)
    (record,) = found
    assert (record.exc_info is None) == is_short
    assert (record.getMessage() == f"Refused: {message}") == is_short
