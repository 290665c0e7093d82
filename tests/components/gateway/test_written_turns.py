"""Prompts of conversations under the chat templates that are published."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trl
from transformers.utils.chat_template_utils import render_jinja_template

from components.errors import ConfigurationError
from components.gateway.base import RequestRefused
from components.gateway.encoder import ChatEncoder
from components.gateway.field_syntax import FieldSyntax
from components.gateway.written_turns import Piece, TurnWriter
from components.models.tokenizer import HuggingFaceTokenizer
from tests.components.gateway.talks import ADD, call, make_chat_tokenizer, say

FOLDER = Path(trl.__file__).parent / "chat_templates"
PUBLISHED = sorted(path.stem for path in FOLDER.glob("*.jinja") if not path.stem.endswith("_training"))
OF_PICTURES = {"idefics3", "llava_next", "smolvlm"}
READ_CALLS = {
    "json": {"llama3_1", "llama3_2", "qwen2_5", "qwen3", "qwen3_instruct_2507", "qwen3_vl"},
    "tags": {
        *("glm4moe", "qwen3_5_nothink", "qwen3_5_think", "qwen3_6", "qwen3_8"),
        *("nemotron_3_5_lightning", "nemotron_3_nano", "nemotron_3_super", "nemotron_3_ultra"),
    },
    "python": {"lfm2_2_5_vl", "lfm2_v2"},
    "marks": {"diffusion_gemma", "gemma4", "gemma4_v2", "gemma4_v3", "gemma4_v4", "gemma4_v5"},
}
SPECIAL = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|<｜[^｜<>\n]{1,40}｜>|</?s>|<(?:start|end)_of_turn>|<\|[a-z_]+>|<[a-z_]+\|>|</?tool_call>|<bos>|<eos>"
)


class Published:
    """A template as transformers renders it."""

    def __init__(self, name: str) -> None:
        self._text = (FOLDER / f"{name}.jinja").read_text()
        self.special_texts = {*SPECIAL.findall(self._text), "<bos>", "<eos>"}

    def render_turns(
        self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Mapping[str, Any]] | None, opens_answer: bool
    ) -> str:
        marks = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "pad", "unk")}
        ((text,), _) = render_jinja_template(
            [list(messages)], tools=tools, chat_template=self._text, add_generation_prompt=opens_answer, **marks
        )
        return str(text)


def join(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def name_form(writer: TurnWriter) -> str:
    if isinstance(writer.syntax, FieldSyntax):
        return {"": "tags", "'": "python", '<|"|>': "marks"}[writer.syntax.quote]
    return "" if writer.syntax is None else "json"


def test_all_published_templates_are_tried() -> None:
    assert len(PUBLISHED) == 41
    assert set(PUBLISHED) >= OF_PICTURES.union(*READ_CALLS.values())


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_template_is_continued_turn_by_turn_or_refused_by_name(name: str) -> None:
    if name in OF_PICTURES:
        with pytest.raises(ConfigurationError, match=r"chat template .*use another model"):
            TurnWriter.under(Published(name))
        return
    template = Published(name)
    writer = TurnWriter.under(template)
    form = name_form(writer)
    assert form == next((form for form, names in READ_CALLS.items() if name in names), "")
    spells = "".join(sorted(template.special_texts))
    described = replace(ADD, description=f"Adds {spells}.")
    head = [say("be careful", role="system"), say(f"first {spells}"), say("a late rule", role="system")]
    answer = say("the answer", role="assistant")
    called = say("", role="assistant", calls=(call(),))
    asked = {
        "first": writer.write(head, [described]),
        "user": writer.follow(answer, [say(f"second {spells}"), say("another late rule", role="system")], [described]),
        "tool": writer.follow(called, [say(f"42 {spells}", role="tool", answers="c1")], [described]),
    }
    for texts, pieces in zip(
        (
            ("be careful", f"first {spells}", "a late rule"),
            (f"second {spells}", "another late rule"),
            (f"42 {spells}",),
        ),
        asked.values(),
        strict=True,
    ):
        assert [text for text in texts if join(pieces).count(text) != 1] == [], "each text is in the prompt, once"
        spelled = [piece for piece in pieces if piece.is_template and spells in piece.text]
        assert not spelled, "what a text spells opens no turn"
        assert "stands-here" not in join(pieces)
    assert "add" in join(asked["first"])
    for pieces, closing in ((asked["user"], writer.closing), (asked["tool"], writer.call_closing)):
        assert join(pieces).startswith(closing)
        assert "the answer" not in join(pieces), "nothing is written twice"
        assert "first" not in join(pieces)
    assert form or writer.call_closing == writer.closing


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3_instruct_2507", "llama3", "phi3", "lfm2"])
def test_turns_written_one_by_one_are_those_of_the_whole_conversation(name: str) -> None:
    template = Published(name)
    writer = TurnWriter.under(template)
    first, answer, second = say("a question"), say("an answer", role="assistant"), say("another one")
    by_turn = join(writer.write([first], [])) + answer.text + join(writer.follow(answer, [second], []))
    whole = [{"role": each.role, "content": each.text} for each in (first, answer, second)]
    assert by_turn == template.render_turns(whole, tools=None, opens_answer=True)


def test_what_a_template_leaves_out_is_refused_by_its_text() -> None:
    writer = TurnWriter.under(Published("llama3_1"))
    talk = [say("q"), say("I say", role="assistant", calls=(call(),)), say("3", role="tool", answers="c1")]
    with pytest.raises(RequestRefused, match="leaves out 'I say'"):
        writer.write(talk, [ADD])


@pytest.mark.parametrize("knows_tools", [True, False])
def test_what_spells_a_mark_of_the_gateway_is_text(knows_tools: bool) -> None:
    own = ChatEncoder(HuggingFaceTokenizer(make_chat_tokenizer()))
    writer = TurnWriter.under(Published("qwen3")) if knows_tools else own._writer
    mark = "text-number-0-stands-here text-number-99-stands-here"
    said = [
        say(mark),
        say("", role="assistant", calls=(call(name=mark, arguments=f'{{"a": "{mark}"}}'),)),
        say("3", role="tool", answers="c1"),
    ]
    pieces = writer.write(said, [replace(ADD, name=mark, description=mark)])
    assert join(pieces).count(mark) == 5
    assert [piece for piece in pieces if piece.is_template and "stands-here" in piece.text] == []


def test_a_result_without_its_call_is_refused() -> None:
    writer = TurnWriter.under(Published("qwen3"))
    with pytest.raises(RequestRefused, match=r"answers the call 'zz'.*send the whole conversation"):
        writer.write([say("q"), say("3", role="tool", answers="zz")], [ADD])


@pytest.mark.parametrize(
    "flaw", ["{{ messages[0].content }}", "{% for m in messages %}{{ m.content }}{% endfor %}", "{{ x.y }}"]
)
def test_a_template_that_cannot_be_continued_is_refused(flaw: str) -> None:
    template = Published("qwen3")
    template._text = flaw
    with pytest.raises(ConfigurationError, match="cannot be continued turn by turn"):
        TurnWriter.under(template)
