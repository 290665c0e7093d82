"""The tokenizer of models behind an API: UTF-8 bytes and two special tokens, without loss."""

from collections.abc import Mapping, Sequence
from typing import Any

from components.errors import ConfigurationError

_NUM_BYTES = 256
_END = 256
_END_OF_INSTRUCTIONS = 257


class ByteTokenizer:
    """Token b is the byte b of UTF-8; 256 ends an answer and 257 ends the instructions of a prompt.

    **Example** `encode("é")` is (195, 169); `encode_chat("Hi", "a")` is (72, 105, 257, 97), from which `split` gives the two
    parts back.
    """

    @property
    def end_token(self) -> int:
        return _END

    @property
    def end_tokens(self) -> frozenset[int]:
        return frozenset({_END})

    def encode(self, text: str) -> tuple[int, ...]:
        """The bytes of `text`. Raises ConfigurationError on a lone surrogate."""
        try:
            return tuple(text.encode())
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"character {text[error.start]!r} at position {error.start} of a prompt is half of a surrogate pair and "
                "has no UTF-8 form; remove it from the problem"
            ) from error

    def encode_chat(self, instructions: str, state: str, arguments: Mapping[str, Any] | None = None) -> tuple[int, ...]:
        """Both parts, separated by the end-of-instructions token. `arguments` is empty: the provider applies the template."""
        assert not arguments, f"the template of a model behind an API takes no arguments: {arguments}"
        return (*self.encode(instructions), _END_OF_INSTRUCTIONS, *self.encode(state))

    def encode_answer(self, text: str, *, ended: bool) -> tuple[int, ...]:
        """An answer's bytes, with the end token if the model ended it. A lone surrogate in it becomes U+FFFD."""
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return (*whole.encode(), _END) if ended else tuple(whole.encode())

    def split(self, prompt_tokens: Sequence[int]) -> tuple[str, str]:
        """The instructions (possibly empty) and the state of a prompt."""
        ends = [position for position, token in enumerate(prompt_tokens) if token == _END_OF_INSTRUCTIONS]
        assert len(ends) <= 1, (
            f"the end of the instructions occurs at {ends}, in a prompt of {len(prompt_tokens)} tokens"
        )
        end = ends[0] if ends else 0
        return self.decode(prompt_tokens[:end]), self.decode(prompt_tokens[end:])

    def opens_thinking(self, prompt_tokens: Sequence[int]) -> bool:
        """False: a provider tells answers from thinking."""
        return False

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of `tokens` without special tokens. Invalid UTF-8 becomes U+FFFD."""
        return bytes([token for token in tokens if token < _NUM_BYTES]).decode(errors="replace")
