"""What a model's chat template does with instructions and state: where they stand, and what it would print of the day."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jinja2 import TemplateError

from components.errors import ConfigurationError

DATE = datetime(2024, 7, 26)
"""What templates take for today, so that a prompt does not depend on when a run is resumed: the date that Llama's template has
of its own."""
_MARKS = ("instructions-of-this-role", "state-of-this-problem")
"""Messages that no chat template changes."""
_TODAY = re.compile(r"""\bstrftime_now\(\s*(["'])(?P<format>[^"'\\]*)\1\s*\)""")
_ASKS = re.compile(r"\bstrftime_now\s*\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """How a template is given instructions and state, and what it writes around them: `marked` is its text of `_MARKS`.

    Most templates have a system message; for those that refuse it or leave it out (Gemma, Mistral) the instructions stand at
    the beginning of the user's message.
    """

    has_system: bool
    marked: str

    @classmethod
    def under(cls, rendered: Callable[[Sequence[Mapping[str, str]]], str]) -> "Messages":
        """Those of the template that `rendered` applies. Raises ConfigurationError if neither way writes both."""
        failure: Exception | None = None
        for has_system in (True, False):
            try:
                text = rendered(_messages(*_MARKS, has_system=has_system))
            except (TemplateError, TypeError, ValueError, ConfigurationError) as error:
                failure = failure or error
                continue
            if all(mark in text.lower() for mark in _MARKS):
                return cls(has_system=has_system, marked=text)
        if isinstance(failure, ConfigurationError):
            raise failure
        told = f"fails ({failure})" if failure else "leaves them out"
        raise ConfigurationError(
            f"policies.<name>.prompt_format 'chat': given instructions and a state, the model's chat template {told}; use "
            "another model, or one with a template that writes both"
        ) from failure

    def of(self, instructions: str, state: str) -> list[dict[str, str]]:
        """The messages of a prompt."""
        return _messages(instructions, state, has_system=self.has_system)

    def parts(self, text: str, instructions: str, state: str) -> tuple[str, str, str, str, str] | None:
        """`text` as what the template wrote before, between and after the two, and they; None if it changes them."""
        before, first, rest = self.marked.partition(_MARKS[0])
        between, second, after = rest.partition(_MARKS[1])
        for one, other in ((instructions, state), (instructions.strip(), state.strip())):
            if first and second and "".join((before, one, between, other, after)) == text:
                return before, one, between, other, after
        return None


def dateless(template: Any) -> Any:
    """`template` with `DATE` where it asks for today's. Raises ConfigurationError if it asks in another way than with a format.

    **Example** `{{ strftime_now("%d %b %Y") }}` is `{{ "26 Jul 2024" }}`.
    """
    if not isinstance(template, str):
        return template
    fixed = _TODAY.sub(lambda found: repr(DATE.strftime(found["format"])), template)
    if _ASKS.search(fixed):
        raise ConfigurationError(
            "policies.<name>.prompt_format 'chat': the model's chat template prints the time in a way that cannot be fixed "
            "(strftime_now without a plain format), so a resumed run would have other prompts; edit its chat_template"
        )
    return fixed


def _messages(instructions: str, state: str, *, has_system: bool) -> list[dict[str, str]]:
    if has_system:
        return [{"role": "system", "content": instructions}, {"role": "user", "content": state}]
    return [{"role": "user", "content": f"{instructions}\n\n{state}"}]
