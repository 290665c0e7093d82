"""What a user asked for wrongly is one line in Prefect's log: no traceback of ours says more than the error itself."""

import logging

from pydantic import ValidationError
from yaml import YAMLError

from components.errors import ConfigurationError


class OneLineRefusals(logging.Filter):
    """Takes the traceback from records of refusals. Where a user's own code has failed, it stays."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let all records pass."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ConfigurationError) and is_own_refusal(error):
            record.msg, record.args, record.exc_info, record.exc_text = "Refused: %s", (error,), None, None
        return True


def is_own_refusal(error: ConfigurationError) -> bool:
    """Whether nothing but checks of ours, of pydantic and of YAML lie behind the error."""
    cause: BaseException | None = error
    while cause is not None:
        if not isinstance(cause, ConfigurationError | ValidationError | YAMLError):
            return False
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return True


_FILTER = OneLineRefusals()


def shorten_refusals() -> None:
    """Let the logs of flow runs and task runs of this process tell refusals in one line."""
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(name).addFilter(_FILTER)
