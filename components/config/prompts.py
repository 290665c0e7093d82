"""Instructions of one's own for a role: the section, and the files it may name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator, model_validator

from components.errors import ConfigurationError
from components.frozen import Settings
from components.text.escaping import show_value

MAX_PROMPT_BYTES = 65536
_FILE_FIELDS = {"replace_file": "replace", "extend_file": "extend"}
"""Field with a path -> field with the text."""


def _check_text(text: str) -> str:
    """`text` itself. Raises ValueError if it is blank, too long or not Unicode."""
    if not text.strip():
        raise ValueError("is blank; write the instructions, or leave prompt out")
    try:
        num_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"position {error.start} is half of a surrogate pair; remove it") from error
    if num_bytes > MAX_PROMPT_BYTES:
        raise ValueError(f"has {num_bytes} bytes; use at most {MAX_PROMPT_BYTES}")
    return text


_Text = Annotated[str, AfterValidator(_check_text)]
_Path = Annotated[str, Field(min_length=1)]


class PromptConfig(Settings):
    """Exactly one of these. Paths are relative to the folder of the file with the configuration; on the command line, to the
    current one."""

    replace: _Text | None = None
    """The whole instructions of the role, in place of the environment's."""
    extend: _Text | None = None
    """Instructions after the environment's."""
    replace_file: _Path | None = None
    """A UTF-8 text file with those of `replace`. It is read when a run starts, and its text becomes `replace`."""
    extend_file: _Path | None = None
    """The same for `extend`."""

    @model_validator(mode="before")
    @classmethod
    def _is_a_section(cls, values: Any) -> Any:
        if isinstance(values, str):
            raise ValueError("write it as {replace: TEXT}, {extend: TEXT}, {replace_file: PATH} or {extend_file: PATH}")
        return values

    @field_validator("replace_file", "extend_file")
    @classmethod
    def _names_a_file(cls, path: str | None) -> str | None:
        if path is not None and "\0" in path:
            raise ValueError("a path has no null character; name a text file")
        return path

    @model_validator(mode="after")
    def _one_of_them(self) -> "PromptConfig":
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"{', '.join(given) or 'nothing'} given: set exactly one of replace, extend, replace_file and extend_file"
            )
        return self

    def apply(self, instructions: str) -> str:
        """The instructions that the role is shown. **Example** extend "Be brief." after "Plan." is "Plan.\\n\\nBe brief." """
        if self.replace is not None:
            return self.replace
        assert self.extend is not None, f"{self} was not read from its file"
        return "\n\n".join(part for part in (instructions, self.extend) if part)

    def read(self, field: str, folder: Path) -> "PromptConfig":
        """With the text in place of a file's path. Raises ConfigurationError, which calls this section `field`."""
        for name, of_text in _FILE_FIELDS.items():
            path = getattr(self, name)
            if path is not None:
                return PromptConfig(**{of_text: _file_text(f"{field}.{name} {show_value(path)}", folder / path)})
        return self


def anchor_prompts(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A configuration's plain values with all paths of prompts absolute, seen from `folder`. Anything else is left as it is."""
    agents = values.get("agents")
    if not isinstance(agents, Mapping):
        return dict(values)
    return {**values, "agents": {role: _anchor_agent(agent, folder) for role, agent in agents.items()}}


def _anchor_agent(agent: Any, folder: Path) -> Any:
    prompt = agent.get("prompt") if isinstance(agent, Mapping) else None
    if not isinstance(prompt, Mapping):
        return agent
    paths = {name: str(folder / prompt[name]) for name in _FILE_FIELDS if _is_path(prompt.get(name))}
    return {**agent, "prompt": {**prompt, **paths}} if paths else agent


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _file_text(where: str, file: Path) -> str:
    remedy = f"name a UTF-8 text file of at most {MAX_PROMPT_BYTES} bytes"
    try:
        is_file = file.is_file()  # reading a pipe would never end
        content = b""
        if is_file:
            with file.open("rb") as stream:
                content = stream.read(MAX_PROMPT_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{where}: {error.strerror}; {remedy}") from error
    if not is_file:
        raise ConfigurationError(f"{where}: there is no such file ({file}); {remedy}")
    try:
        return _check_text(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{where}: it is not UTF-8 text; {remedy}") from error
    except ValueError as error:
        raise ConfigurationError(f"{where}: it is blank or too long; {remedy}") from error
