"""What a model's chat template does with instructions and state: where they stand, and what it would print of the day."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from jinja2 import TemplateError

from components.errors import ConfigurationError

DATE = datetime(2024, 7, 26)
"""What templates take for today, so that a prompt does not depend on when a run is resumed: the date that Llama's template has
of its own."""
_MARKS = ("instructions-of-this-role", "state-of-this-problem")
"""Messages that no chat template changes."""
_FAILURES = (TemplateError, TypeError, ValueError, ConfigurationError)
"""What a template raises for messages that it does not take."""
_TODAY = re.compile(r"""\bstrftime_now\(\s*(["'])(?P<format>[^"'\\]*)\1\s*\)""")
_ASKS = re.compile(r"\bstrftime_now\s*\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """How a template is given instructions and state, and what it writes around them: `marked` is its text of `_MARKS`,
    `marked_state` that of the second one without instructions.

    Most templates have a system message; for those that refuse it or leave it out (Gemma, Mistral) the instructions stand at
    the beginning of the user's message. Without instructions there is no system message but the template's own, or an empty
    one for a template that needs it (`marked_state` None).
    """

    has_system: bool
    marked: str
    marked_state: str | None

    @classmethod
    def under(cls, rendered: Callable[[Sequence[Mapping[str, str]]], str]) -> "Messages":
        """Those of the template that `rendered` applies. Raises ConfigurationError if neither way writes both."""
        failure: Exception | None = None
        for has_system in (True, False):
            try:
                text = rendered(_messages(*_MARKS, has_system=has_system))
            except _FAILURES as error:
                failure = failure or error
                continue
            if all(mark in text.lower() for mark in _MARKS):
                return cls(has_system=has_system, marked=text, marked_state=_find_state_marks(rendered))
        if isinstance(failure, ConfigurationError):
            raise failure
        told = f"fails ({failure})" if failure else "leaves them out"
        raise ConfigurationError(
            f"policies.<name>.prompt_format 'chat': given instructions and a state, the model's chat template {told}; use "
            "another model, or one with a template that writes both"
        ) from failure

    def of(self, instructions: str, state: str) -> list[dict[str, str]]:
        """The messages of a prompt."""
        if not instructions and self.marked_state is not None:
            return _state_alone(state)
        return _messages(instructions, state, has_system=self.has_system)

    def parts(self, text: str, instructions: str, state: str) -> tuple[str, str, str, str, str] | None:
        """`text` as what the template wrote before, between and after the two, and they; None if it changes them."""
        if not instructions and self.marked_state is not None:
            before, second, after = self.marked_state.partition(_MARKS[1])
            of_state = next((each for each in (state, state.strip()) if before + each + after == text), None)
            return None if of_state is None or not second else (before, "", "", of_state, after)
        before, first, rest = self.marked.partition(_MARKS[0])
        between, second, after = rest.partition(_MARKS[1])
        for one, other in ((instructions, state), (instructions.strip(), state.strip())):
            if first and second and "".join((before, one, between, other, after)) == text:
                return before, one, between, other, after
        return None


def choose_template(templates: str | Mapping[str, str] | None) -> str | None:
    """The chat template of a tokenizer: of several by name, as for tool use, the one called default, or the only one.

    Raises ConfigurationError where neither is there."""
    if templates is None or isinstance(templates, str):
        return templates
    chosen = templates.get("default") or (next(iter(templates.values())) if len(templates) == 1 else None)
    if chosen is None and templates:
        raise ConfigurationError(
            f"the model has the chat templates {', '.join(sorted(templates))} and none called default; save one of them as its "
            "chat_template"
        )
    return chosen


def dateless(template: str | None) -> str | None:
    """`template` with `DATE` where it asks for today's. Raises ConfigurationError if it asks in another way than with a format.

    **Example** `{{ strftime_now("%d %b %Y") }}` is `{{ "26 Jul 2024" }}`.
    """
    if template is None:
        return None
    fixed = _TODAY.sub(lambda found: repr(DATE.strftime(found["format"])), template)
    if _ASKS.search(fixed):
        raise ConfigurationError(
            "policies.<name>.prompt_format 'chat': the model's chat template prints the time in a way that cannot be fixed "
            "(strftime_now without a plain format), so a resumed run would have other prompts; edit its chat_template"
        )
    return fixed


def _find_state_marks(rendered: Callable[[Sequence[Mapping[str, str]]], str]) -> str | None:
    """What a template writes of a state alone; None if it needs another message beside it."""
    try:
        text = rendered(_state_alone(_MARKS[1]))
    except _FAILURES:
        return None
    return text if _MARKS[1] in text.lower() else None


def _state_alone(state: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": state}]


def _messages(instructions: str, state: str, *, has_system: bool) -> list[dict[str, str]]:
    if has_system:
        return [{"role": "system", "content": instructions}, {"role": "user", "content": state}]
    return [{"role": "user", "content": f"{instructions}\n\n{state}"}]
