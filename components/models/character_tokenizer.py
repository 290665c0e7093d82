"""A tokenizer with one token per character of an alphabet, for models built from scratch."""

from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from components.errors import ConfigurationError

PAD, END = "<pad>", "<end>"


def character_tokenizer(alphabet: str) -> Any:
    """A PreTrainedTokenizerFast with id 0 for padding, 1 for the end, and then one id per character.

    **Example** alphabet "UDLR": 6 tokens; "UL" is (2, 4).

    Raises ConfigurationError for an empty alphabet or a repeated character.
    """
    repeated = sorted({character for character in alphabet if alphabet.count(character) > 1})
    if not alphabet or repeated:
        raise ConfigurationError(f"alphabet {alphabet!r}: name at least one character, each once; repeated: {repeated}")
    vocabulary = {token: number for number, token in enumerate([PAD, END, *alphabet])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=PAD))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False
    )
