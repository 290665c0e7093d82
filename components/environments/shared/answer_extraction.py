"""What a reader takes for the answer in a text that reasons first: its last fenced block, labelled line, or line."""

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from components.errors import MalformedAction

REASON_FIRST = "You may reason first, at any length; a correction counts, because only the end of your answer is read:"
_ALONE = (" and nothing else", ", or with nothing but the program")
"""What the instructions for compact answers ask for."""
MAX_LINES = 4096
"""Lines of a text, from its end, in which marked lines are looked for."""
_MAX_LABELS = 64
_LABEL = re.compile(
    r"(?P<answer>\b(?:answers?|antwort|réponse|respuesta|resposta|risposta|ответ)\b|答案|回答|答え|解答|정답)"
    r"|\b(?:solution|result|lösung|ergebnis|résultat|solución|resultado|решение|output|value|final)\b"
    r"|(?P<moves>\b(?:moves?|list|path|plan|steps?|placements?|züge|coups|movimientos|mosse|ходы)\b)",
    re.IGNORECASE,
)
_SAYS = re.compile(r"[^\n:：=.,;!?()\[\]{}]{0,40}?(?:\([^()\n]{0,40}\)[ \t*_`~]{0,4})?[:：=][\s*_`~:：=]*+")
_IS = re.compile(
    r"[^\n:：=.,;!?()\[\]{}]{0,40}?(?:[:：=]|\b(?:is|are|ist|sind|lautet|est|es|son|é|è)\b|это|是|为|は|는)[\s*_`~:：=]*+",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?:`{3,}|~{3,})(?P<language>[^`~\n]*)$", re.MULTILINE)
_STATEMENT = re.compile(
    r"(?:import|from \S+ import|def|class|return|assert|async|raise|del|global) |(?:if|for|while|with|match) [^:]{0,120}+:|"
    r"""(?:try|else):|[@#)\]}]|["']|pass\b|[A-Za-z_][\w.]{0,60}+\(|[A-Za-z_][\w, .\[\]]{0,60}? ?[-+*/|&^%]?=[^=]"""
)
_BULLET = re.compile(r"\A(?:[-*+•>]|\d{1,3}[.)])\s+")
_MARKUP = "*_`~"
_LOOK_BACK = 300
_CLAUSE_END = re.compile(r"(?<![:：*_`\s])[ \t]*\n|[.;!?,。；！？，](?![\d*_`]*[:：])")
_DENIAL = (
    r"(?:\b(?:not|never|cannot|neither|nor|none|unless|except|without|instead of|(?:rather|other) than|(?:any|no)thing but"
    r"|all but|for (?:example|instance)|such as|would have been|nicht|nie|kein\w*|statt|pas|jamais|nunca|no es|non|не)\b"
    r"|n['’]t\b|不是|不能|ではな)"
)
_DENIES = re.compile(
    rf"{_DENIAL}(?:\W+\w+)?\W*\Z|{_DENIAL}(?:\W+\w+){{0,2}}\W*[:：]\W*\Z|\bif (?:it|i|this|that|nothing) were\b"
    r"|\b(?:wrong|worse|incorrect|invalid|rejected|bad) (?:to|answer|list|path|plan|moves?|solution|result|value|one|way)\b",
    re.IGNORECASE,
)
"""Ends of a clause that denies or supposes what follows it: a denial at most one word before it, or two and a colon."""
_GOES_ON = re.compile(
    r"""[ \t*_`~$.,;:!()\]}"'”’]{0,20}(?:\.{2,}|…|[+×*^/±~][ \t]*+[\d(\[]|\(?x ?\d"""
    r"|\b(?:and )?(?:etc|and so on|then|next|finally|lastly|afterwards|followed by|plus|minus|or|twice|thrice|times|repeated"
    r"|reversed|backwards?|unless|if|usw|dann|danach|oder|puis|ensuite|ou|luego|después|o|потом|или)\b|或|然后|または)",
    re.IGNORECASE,
)
_TAKES_BACK = re.compile(
    r"\b(?:wait|scrap|never ?mind|second thoughts?|disregard|hm+|i was wrong|take (?:it|that|this) back|(?:do not|don't) know"
    r"|(?:that|this|it|which)(?:['’]s| is| was| would be|,)? (?:wrong|incorrect|invalid|false|blocked|impossible"
    r"|not (?:right|correct|it|so))|(?:that|this|it|which) (?:fails|would (?:fail|hit|not)))\b|(?:^|[.!?\n])[\W_]{0,9}no[,.!:]",
    re.IGNORECASE,
)
_JOINS = re.compile(
    r"(?:[\W_]|\b(?:and|then|or|plus|next|finally|followed by|maybe|perhaps|else|oder|und|ou|et|y|o)\b)*+",
    re.IGNORECASE,
)
_OPEN_FENCE = re.compile(r"(?<![`~])(?:`{3,}+|~{3,}+)\w{0,20}\s{0,9}\Z")
_KEY = re.compile(r"""["']([^"'\n]{0,60})["']\s{0,9}:\s{0,9}["'\s]{0,9}\Z""")
_OWN_KEY = re.compile(
    r"(?:final[_ ])?(?:answer|solution|result|output|moves|list|path|plan|steps|placements|actions|(?:tool_)?calls)"
)
_PYTHON = ("python", "py", "python3")


class Block(NamedTuple):
    """A fenced block; `start` and `end` are its place in the text, with its fences."""

    language: str
    body: str
    start: int
    end: int


def blocks(text: str) -> list[Block]:
    """The fenced blocks of `text`. One that is left open goes to the next one with a language, or to the end."""
    if "```" not in text and "~~~" not in text:
        return []
    found, opened = list[Block](), None
    for fence in _FENCE.finditer(text):
        language = fence["language"].strip()
        if opened is not None:
            found.append(_block(opened, text, fence.start(), fence.start() if language else fence.end()))
        opened = fence if opened is None or language else None
    if opened is not None and text[opened.end() :].strip():
        found.append(_block(opened, text, len(text), len(text)))
    return found


def _block(opened: re.Match[str], text: str, body_end: int, end: int) -> Block:
    body = text[opened.end() + 1 : body_end].removesuffix("\n")
    if indent := opened["indent"]:
        body = "\n".join(line.removeprefix(indent) for line in body.split("\n"))
    return Block(language=opened["language"].strip().lower(), body=body, start=opened.start(), end=end)


def check_is_meant(before: str, after: str) -> None:
    """Raise MalformedAction if the text around an answer says that it is another one, or none.

    `before` may end in a clause that denies, supposes or quotes it ("The answer is not"), a bracket or a JSON key that is no
    name of an answer. `after` may continue it ("then D", "...", "or"), or take it back ("Wait", "That is wrong").
    """
    before = _OPEN_FENCE.sub("", before[-_LOOK_BACK:])
    clause = _CLAUSE_END.split(before)[-1]
    key = _KEY.search(before)
    if _DENIES.search(clause):
        raise MalformedAction(f"the answer is not meant: {clause.strip()!r} stands before it")
    if before.rstrip().endswith("[") or (key is not None and not _OWN_KEY.fullmatch(key[1])):
        raise MalformedAction("the answer is part of something else")
    if found := _GOES_ON.match(after) or _TAKES_BACK.search(after):
        raise MalformedAction(f"the answer goes on or is taken back: {found[0].strip()!r} follows it")


def is_joined(between: str) -> bool:
    """Whether nothing but marks and words such as "then" and "or" stand between two answers, so that neither is the last."""
    return _JOINS.fullmatch(between) is not None


def final_program(text: str) -> str:
    """The program in `text`: the last block fenced as Python, else the last fenced block. Without a block, the lines from the
    first that looks like a statement to the last, if remarks stand before it; else the whole text."""
    fenced = blocks(text)
    named = [block for block in fenced if block.language.partition(" ")[0] in _PYTHON]
    if not fenced:
        return _between_remarks(text)
    last = (named or fenced)[-1]
    check_is_meant(text[: last.start], "")
    return last.body


def _between_remarks(text: str) -> str:
    lines = text.strip("\n").split("\n")
    if len(lines) > MAX_LINES or _is_code(lines[0]):
        return text
    places = [number for number, line in enumerate(lines) if _is_code(line)]
    return "\n".join(lines[places[0] : places[-1] + 1]) if places else text


def _is_code(line: str) -> bool:
    """Whether a line looks like a statement, or belongs to one."""
    return bool(line.strip()) and (line[0] in " \t" or _STATEMENT.match(line) is not None)


def final_text(text: str) -> str:
    """The answer in `text` if nothing is known of its grammar: the last fenced block, unless a labelled line follows it; else
    the last labelled line, else the last line that is not empty. One pair of Markdown marks around it is left out.

    **Example** `"6 * 7 is 42.\\n**Answer:** 42\\n\\nI hope this helps."` is `"42"`.
    """
    fenced = blocks(text)
    rest = text[fenced[-1].end :] if fenced else text
    told = labelled(rest)
    if told is not None:
        return told
    if fenced:
        check_is_meant(text[: fenced[-1].start], rest)
        return fenced[-1].body
    return bare(text.strip().rpartition("\n")[2])


def label_ends(text: str, *, of_moves: bool = False) -> Iterator[int]:
    """Where the text behind each label begins, the last first, possibly on the next line: "Final answer:", "La respuesta es",
    "答案："; with `of_moves` also "Moves:".

    Words of other languages are not known; their lines still count as lines. At most the last 64 words are looked at.
    """
    for word in reversed(deque(_LABEL.finditer(text), maxlen=_MAX_LABELS)):
        if word["moves"] is None or of_moves:
            said = (_SAYS if word["answer"] is None else _IS).match(text, word.end())
            if said is not None and said.end() < len(text):
                yield said.end()


def labelled(text: str) -> str | None:
    """What follows the last label in `text`, on one line; None without a label. **Example** `"Answer: 4."` is `"4"`.

    Raises MalformedAction if the text around it says that it is not meant."""
    start = next(label_ends(text), None)
    if start is None:
        return None
    line, _, rest = text[start:].partition("\n")
    check_is_meant(text[:start], rest)
    return bare(line)


def last_match(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The last match of `pattern` in `text`."""
    last = deque(pattern.finditer(text), maxlen=1)
    return last[0] if last else None


def bare(line: str) -> str:
    """`line` without Markdown marks around it, or a full stop behind it. **Example** `"**42**."` is `"42"`."""
    text = line.strip().strip(_MARKUP).strip()
    return text.rstrip(".。").rstrip(_MARKUP) or text


def unbulleted(line: str) -> str:
    """`line` without the mark of a list item, and without Markdown marks around it."""
    line = line.strip()
    return _BULLET.sub("", line, count=1).strip().strip(_MARKUP).strip()


def reasoning_instructions(instructions: str, ending: str) -> str:
    """`instructions` for answers that may reason first and whose end is `ending`."""
    for compact in _ALONE:
        instructions = instructions.replace(compact, "")
    return f"{instructions}\n{REASON_FIRST} {ending}".lstrip("\n")
