"""Any Hugging Face tokenizer, with a lookup table for tokenizers of single characters."""

import json
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from tokenizers import AddedToken, Tokenizer
from transformers import AutoTokenizer

from components.errors import ArtifactCorrupt, ConfigurationError
from components.models.chat_template import Messages, choose_template, dateless
from components.text.escaping import show_value
from components.text.suggestions import did_you_mean
from components.text.think_tags import OPENING

_NAME = re.compile(r"[A-Za-z_]\w*")
_LAST_OF_PROMPT = 24
"""Tokens of a prompt that are enough to hold a tag at its end."""
_GENERATION_FILE, _MODEL_FILE = "generation_config.json", "config.json"
_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "special_tokens_map.json",
    _GENERATION_FILE,
)


class HuggingFaceTokenizer:
    """A Tokenizer over a PreTrainedTokenizerFast, which must have an end token.

    When every ordinary token is one character, a lookup table encodes and decodes: exact, and about a hundred times faster
    for short prompts.
    """

    def __init__(self, tokenizer: Any, *, more_end_tokens: Iterable[int] = ()) -> None:
        if tokenizer.eos_token_id is None:
            raise ConfigurationError("the tokenizer has no eos_token; a policy needs one to end its answers")
        self._tokenizer = tokenizer
        self._end_token = int(tokenizer.eos_token_id)
        self._end_tokens = frozenset({self._end_token, *more_end_tokens})
        self._special = set(tokenizer.all_special_ids)
        added = tokenizer.added_tokens_decoder.values()
        self._special_texts = [token.content for token in added if token.content]
        self._template = dateless(choose_template(tokenizer.chat_template))
        self._messages: dict[str, Messages] = {}
        self._id_of_character = _character_table(tokenizer)
        self._character_of_id = {number: character for character, number in self._id_of_character.items()}
        self._files: dict[str, bytes] = {}

    @classmethod
    def from_folder(cls, folder: Path) -> "HuggingFaceTokenizer":
        """The tokenizer saved in a model folder. Raises ArtifactCorrupt when it cannot be read."""
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except Exception as error:  # the border to the library, which raises bare exceptions for damaged files
            raise ArtifactCorrupt(f"the tokenizer in {folder} cannot be loaded: {error}") from error
        loaded = cls(tokenizer, more_end_tokens=_list_end_tokens(folder, known=tokenizer.added_tokens_decoder))
        loaded._files = _contents(folder)
        return loaded

    def is_same_as(self, folder: Path) -> bool:
        """Whether the files in `folder` equal those this tokenizer was loaded from."""
        return bool(self._files) and self._files == _contents(folder)

    @property
    def end_token(self) -> int:
        """The tokenizer's own."""
        return self._end_token

    @property
    def end_tokens(self) -> frozenset[int]:
        """The tokenizer's end token and those that the model's generation_config.json lists, as Gemma's <end_of_turn>; without
        that file, those of config.json."""
        return self._end_tokens

    @property
    def pad_token(self) -> int:
        """An id for padding; its value does not matter, because a mask hides it."""
        pad = self._tokenizer.pad_token_id
        return self._end_token if pad is None else int(pad)

    @property
    def splits_special_tokens(self) -> bool:
        """Whether "<end>" in a text is five characters: a tokenizer of characters without a chat template."""
        return bool(self._id_of_character) and not self._template

    def encode(self, text: str) -> tuple[int, ...]:
        """`text` as ids, none of them special: "<|end|>" in a text stays text, "<tool_call>" too.

        Raises ConfigurationError on a character outside the alphabet.
        """
        if not self._id_of_character:
            return tuple(self._splitting.encode(text, add_special_tokens=False).ids)
        try:
            return tuple([self._id_of_character[character] for character in text])
        except KeyError as error:
            raise ConfigurationError(
                f"character {error.args[0]!r} of {text[:40]!r} is not in the tokenizer's alphabet "
                f"{''.join(self._id_of_character)!r}; the policy was built for another environment; rebuild it"
            ) from error

    def num_sampled(self, text: str) -> int:
        """The tokens in which a model says `text`, where marks as <think> can be one token each."""
        if self._id_of_character:
            return len(text)
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def encode_chat(self, instructions: str, state: str, arguments: Mapping[str, Any] | None = None) -> tuple[int, ...]:
        """A system and a user message under the model's chat template, with its `arguments`, up to where the answer begins;
        without instructions no system message.

        Only the template's own special tokens are special: those spelled in a message stay text, so that no agent, program or
        row of data can open another message. Raises ConfigurationError for arguments that the template does not take.
        """
        arguments = arguments or {}
        if not self._template:
            raise ConfigurationError(
                "policies.<name>.prompt_format 'chat': this tokenizer has no chat template; use prompt_format: compact"
            )
        self._check_arguments(arguments)
        told = self._messages_under(arguments)
        text = self._render(told.of(instructions, state), arguments)
        if not any(token in content for token in self._special_texts for content in (instructions, state)):
            return tuple(self._tokenizer.encode(text, add_special_tokens=False))
        if (parts := told.parts(text, instructions, state)) is None:
            raise ConfigurationError(
                "a message spells one of the model's special tokens, and the model's chat template changes messages, so the "
                f"two cannot be told apart; remove it from the problem or use another model: {(instructions + state)[:80]!r}"
            )
        of_template = (self._tokenizer.encode(part, add_special_tokens=False) for part in parts[::2])
        opening, middle, end = of_template
        return (*opening, *self.encode(parts[1]), *middle, *self.encode(parts[3]), *end)

    def _messages_under(self, arguments: Mapping[str, Any]) -> Messages:
        """How the chat template is given instructions and state. Raises ConfigurationError if it leaves one of them out."""
        key = repr(sorted(arguments.items()))
        if key not in self._messages:
            self._messages[key] = Messages.under(lambda messages: self._render(messages, arguments))
        return self._messages[key]

    def _check_arguments(self, arguments: Mapping[str, Any]) -> None:
        """Raise ConfigurationError for a name that the chat template never reads: it would change nothing without a word."""
        names = set(_NAME.findall(self._template or "")) if arguments else set()
        for name in arguments:
            if name not in names:
                raise ConfigurationError(
                    f"policies.<name>.chat_template_arguments.{name}: the model's chat template reads no such argument; "
                    f"{did_you_mean(name, names, cutoff=0.7)}leave it out"
                )

    def _render(self, messages: Sequence[Mapping[str, str]], arguments: Mapping[str, Any]) -> str:
        template = self._tokenizer.apply_chat_template
        shared = {"chat_template": self._template, "add_generation_prompt": True, "tokenize": False}
        try:
            return str(template([dict(each) for each in messages], **shared, **arguments))
        except (TemplateError, TypeError, ValueError) as error:
            if not arguments:
                raise
            raise ConfigurationError(
                f"policies.<name>.chat_template_arguments {show_value(dict(arguments))}: the model's chat template fails with "
                f"them ({error}); use values that it takes"
            ) from error

    @property
    def special_texts(self) -> frozenset[str]:
        """How the tokens with which a chat template marks turns and calls are spelled."""
        return frozenset(text for text in self._special_texts if text.strip())

    def render_turns(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None,
        arguments: Mapping[str, Any],
        opens_answer: bool,
    ) -> str:
        """What the chat template writes with its `arguments`, up to where an answer begins if `opens_answer`. Raises
        ConfigurationError for arguments that it does not take, and what the template raises."""
        if not self._template:
            raise ConfigurationError("policies.<name>.prompt_format 'chat': this tokenizer has no chat template")
        self._check_arguments(arguments)
        shared = {"chat_template": self._template, "add_generation_prompt": opens_answer, "tokenize": False}
        told = [dict(each) for each in messages]
        return str(self._tokenizer.apply_chat_template(told, tools=tools, **shared, **arguments))

    def encode_rendered(self, text: str) -> tuple[int, ...]:
        """What a chat template wrote as ids: special tokens are special."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    @cached_property
    def _splitting(self) -> Tokenizer:
        """The tokenizer with all added tokens special, and all special tokens split: models mark turns and tool calls also with
        tokens that are not called special, as DeepSeek-R1-Distill-Qwen does. It is another one than the template's, in which
        the library would switch splitting on and off for all threads."""
        splitting = Tokenizer.from_str(self._tokenizer.backend_tokenizer.to_str())
        added = self._tokenizer.added_tokens_decoder.values()
        splitting.add_special_tokens(
            [
                AddedToken(each.content, normalized=each.normalized, special=True)
                for each in added
                if each.content.strip()
            ]
        )
        splitting.encode_special_tokens = True
        splitting.no_truncation()
        splitting.no_padding()
        return splitting

    @cached_property
    def text_tokens(self) -> frozenset[int]:
        """The ids that `decode` does not leave out. A model may have more ids than its tokenizer, which have no text."""
        special = {number for number, token in self._tokenizer.added_tokens_decoder.items() if token.special}
        return frozenset(self._tokenizer.get_vocab().values()) - special - self._special - self._end_tokens

    def is_special(self, text: str) -> bool:
        """Whether `text` is a special token as it is spelled in a prompt."""
        return text in self._special_spellings

    @cached_property
    def _special_spellings(self) -> frozenset[str]:
        added = self._tokenizer.added_tokens_decoder.values()
        return frozenset(token.content for token in added if token.special)

    def decode_with_specials(self, tokens: Sequence[int]) -> str:
        """The text of `tokens` including special tokens, as in a prompt under a chat template."""
        return str(self._tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False))

    def opens_thinking(self, prompt_tokens: Sequence[int]) -> bool:
        """Whether the chat template ends the prompt with <think>. A message that ends with it does not: the template's own
        tokens follow."""
        return self.decode_with_specials(prompt_tokens[-_LAST_OF_PROMPT:]).rstrip().endswith(OPENING)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of `tokens` without special and end tokens."""
        tokens = [token for token in tokens if token not in self._end_tokens]
        if self._character_of_id:
            return "".join([self._character_of_id[token] for token in tokens if token not in self._special])
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def _character_table(tokenizer: Any) -> dict[str, int]:
    """Character to id if all ordinary tokens are single characters, else empty."""
    special = set(tokenizer.all_special_ids)
    ordinary = {token: number for token, number in tokenizer.get_vocab().items() if number not in special}
    ordered = sorted(ordinary.items(), key=lambda entry: entry[1])
    return dict(ordered) if all(len(token) == 1 for token in ordinary) else {}


def _list_end_tokens(folder: Path, *, known: Container[int]) -> list[int]:
    """`eos_token_id` of the folder's generation_config.json, one number or several; without that file, those of config.json
    that are `known`, as some were never changed from another tokenizer's. Raises ArtifactCorrupt."""
    if (folder / _GENERATION_FILE).exists():
        return _end_tokens_in(folder / _GENERATION_FILE)
    if (folder / _MODEL_FILE).exists():
        return [token for token in _end_tokens_in(folder / _MODEL_FILE) if token in known]
    return []


def _end_tokens_in(file: Path) -> list[int]:
    try:
        document = json.loads(file.read_bytes())
        listed = document.get("eos_token_id", document.get("text_config", {}).get("eos_token_id"))
        return [] if listed is None else [int(token) for token in (listed if isinstance(listed, list) else [listed])]
    except (ValueError, TypeError, AttributeError) as error:
        raise ArtifactCorrupt(f"{file}: eos_token_id cannot be read: {error}") from error


def _contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in _FILES if (folder / name).exists()}
