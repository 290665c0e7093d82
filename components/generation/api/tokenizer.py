"""The tokenizer of models behind an API, which take text and give text: UTF-8 bytes and two special tokens, without loss."""

from collections.abc import Sequence

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

    def encode(self, text: str) -> tuple[int, ...]:
        """The bytes of `text`. Raises ConfigurationError on half of a surrogate pair, which is no character."""
        try:
            return tuple(text.encode())
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"character {text[error.start]!r} at position {error.start} of a prompt is half of a surrogate pair and "
                "has no UTF-8 form; leave it out of the problem"
            ) from error

    def encode_chat(self, instructions: str, state: str) -> tuple[int, ...]:
        """Both parts, with the end of the instructions between them."""
        return (*self.encode(instructions), _END_OF_INSTRUCTIONS, *self.encode(state))

    def encode_answer(self, text: str, *, ended: bool) -> tuple[int, ...]:
        """What a model answered, with the end token when it ended by itself.

        A server may send half of a surrogate pair in its JSON; it becomes U+FFFD, so that every answer can be written.
        """
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return (*whole.encode(), _END) if ended else tuple(whole.encode())

    def split(self, prompt_tokens: Sequence[int]) -> tuple[str, str]:
        """The instructions and the state of a prompt; without instructions the first is empty."""
        ends = [position for position, token in enumerate(prompt_tokens) if token == _END_OF_INSTRUCTIONS]
        assert len(ends) <= 1, (
            f"the end of the instructions occurs at {ends}, in a prompt of {len(prompt_tokens)} tokens"
        )
        end = ends[0] if ends else 0
        return self.decode(prompt_tokens[:end]), self.decode(prompt_tokens[end:])

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of `tokens`, special ones left out. Bytes that are no UTF-8, as half a character, become U+FFFD."""
        return bytes([token for token in tokens if token < _NUM_BYTES]).decode(errors="replace")
