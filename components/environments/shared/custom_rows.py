"""Rows of a user's JSONL file, validated as they are read; errors name file, line and field."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from components.environments.shared.dataset_rows import DatasetSource
from components.errors import ConfigurationError
from components.machine.sent_folder import find_sent
from components.text.bounded_json import parse_bounded_json

OWN_SUFFIX = ".jsonl"


class CustomRow(BaseModel):
    """One line. Unknown keys are ignored, so rows may carry further data."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


def make_row_reader(row_type: type[CustomRow]) -> Callable[[DatasetSource, str], Sequence[Mapping[str, Any]]]:
    """The reader of rows of type `row_type` from a source, given with its option's name. Each file is read once per process.

    Raises ConfigurationError for anything but a JSONL file of such rows.
    """

    @cache
    def read(source: DatasetSource, field: str) -> Sequence[Mapping[str, Any]]:
        named = f"{field}.path {source.path!r}"
        source.check_is_one_split(named)
        if Path(source.path).suffix != OWN_SUFFIX:
            raise ConfigurationError(f"{named}: must be a {OWN_SUFFIX} file, with a JSON object on each line")
        rows = tuple(_row(value, place, row_type) for place, value in json_lines(Path(source.path), named))
        if not rows:
            raise ConfigurationError(f"{named}: no rows")
        return rows

    return read


def json_lines(path: Path, named: str) -> Iterator[tuple[str, Any]]:
    """The place and value of each non-empty line.

    Raises ConfigurationError, which begins with `named` or the place, for an unreadable file or a line that is no JSON.
    """
    try:
        with find_sent(path).open(encoding="utf-8-sig", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield f"{named}, line {number}", parse_bounded_json(line)
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{named}: not UTF-8 text") from error
    except OSError as error:
        raise ConfigurationError(f"{named}: {error.strerror}; correct the path") from error
    except ValueError as error:
        raise ConfigurationError(f"{named}, line {number}: no JSON ({error}); write one object on each line") from error


def _row(value: Any, place: str, row_type: type[CustomRow]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{place}: {type(value).__name__} instead of an object; write {{...}} on each line")
    try:
        return row_type.model_validate(value).model_dump()
    except ValidationError as error:
        fault = error.errors()[0]
        where = f"{'.'.join(map(str, fault['loc']))}: " if fault["loc"] else ""
        told = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "missing":
            told = f"required and missing; the row has {', '.join(map(repr, value))[:200]}"
        raise ConfigurationError(f"{place}: {where}{told}") from error
