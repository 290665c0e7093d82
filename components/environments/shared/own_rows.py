"""Rows of a JSONL file of one's own, each checked as it is read: what is wrong is named with its file, line and field."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from components.bounded_json import bounded_json
from components.environments.shared.dataset_rows import DatasetSource
from components.errors import ConfigurationError

OWN_SUFFIX = ".jsonl"


class OwnRow(BaseModel):
    """One line. Keys that are not asked for are passed over, so that rows may carry what their owner needs."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


def own_rows_as(row_type: type[OwnRow]) -> Callable[[DatasetSource, str], Sequence[Mapping[str, Any]]]:
    """What reads the rows of a source, which the option `field` names, as values of `row_type`. Read once per process.

    Raises ConfigurationError for anything but a JSONL file whose every line is such a row.
    """

    @cache
    def read(source: DatasetSource, field: str) -> Sequence[Mapping[str, Any]]:
        _check_source(source, field)
        lines = json_lines(Path(source.path), f"{field}.path {source.path!r}")
        rows = tuple(_row(value, place, row_type) for place, value in lines)
        if not rows:
            raise ConfigurationError(f"{field}.path {source.path!r}: holds no row")
        return rows

    return read


def json_lines(path: Path, named: str) -> Iterator[tuple[str, Any]]:
    """Where each line that is not empty stands, and its value.

    Raises ConfigurationError, which begins with `named` or with the place, for what is no file, no text or no JSON.
    """
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield f"{named}, line {number}", bounded_json(line)
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{named}: is no text in UTF-8") from error
    except OSError as error:
        raise ConfigurationError(f"{named}: {error.strerror}; correct the path") from error
    except ValueError as error:
        raise ConfigurationError(f"{named}, line {number}: no JSON ({error}); write one object on each line") from error


def _check_source(source: DatasetSource, field: str) -> None:
    if (source.name, source.split, source.revision) != (None, None, None):
        raise ConfigurationError(
            f"{field}.path {source.path!r}: a file is one split; leave name, split and revision out"
        )
    if Path(source.path).suffix != OWN_SUFFIX:
        raise ConfigurationError(
            f"{field}.path {source.path!r}: rows of one's own are read from a {OWN_SUFFIX} file, a JSON object on each line"
        )


def _row(value: Any, place: str, row_type: type[OwnRow]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{place}: {type(value).__name__} instead of an object; write {{...}} on each line")
    try:
        return row_type.model_validate(value).model_dump()
    except ValidationError as error:
        fault = error.errors()[0]
        where = f"{'.'.join(map(str, fault['loc']))}: " if fault["loc"] else ""
        told = "required and missing" if fault["type"] == "missing" else fault["msg"].removeprefix("Value error, ")
        has = f"; the row has {', '.join(map(repr, value))}"[:200] if fault["type"] == "missing" else ""
        raise ConfigurationError(f"{place}: {where}{told}{has}") from error
