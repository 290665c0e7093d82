"""What denies an answer, takes it back or adds to it: the words around it in a text that reasons first."""

import re

from components.errors import MalformedAction

_LOOK_BACK = 300
_CLAUSE_END = re.compile(r"(?<![:：*_`\s])[ \t]*\n|[.;!?,。；！？，](?![\d*_`]*[:：])")
_DENIAL = (
    r"(?:\b(?:not|never|cannot|neither|nor|none|unless|except|without|instead of|(?:rather|other) than|(?:any|no)thing but"
    r"|all but|for (?:example|instance)|such as|would have been|nicht|pas|no es)\b|n['’]t\b|不是)"
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
    r"|reversed|backwards?|unless|if)\b)",
    re.IGNORECASE,
)
_TAKES_BACK = re.compile(
    r"\b(?:wait|scrap|never ?mind|second thoughts?|disregard|hm+|i was wrong|take (?:it|that|this) back|(?:do not|don't) know"
    r"|(?:that|this|it|which)(?:['’]s| is| was| would be|,)? (?:wrong|incorrect|invalid|false|blocked|impossible"
    r"|not (?:right|correct|it|so))|(?:that|this|it|which) (?:fails|would (?:fail|hit|not)))\b|(?:^|[.!?\n])[\W_]{0,9}no[,.!:]",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"\b(?:or|maybe|perhaps|else)\b", re.IGNORECASE)
_COUNT = re.compile(r"\b(?:\d{1,3}|first|second|third|step|call|action|json|tool_call)\b", re.IGNORECASE)
_JOINS = re.compile(
    rf"(?:[\W_]|\b(?:and|then|plus|next|finally|followed by)\b|{_CHOICE.pattern}|{_COUNT.pattern})*+", re.IGNORECASE
)
_OPEN_FENCE = re.compile(r"(?<![`~])(?:`{3,}+|~{3,}+)\w{0,20}\s{0,9}\Z")
_KEY = re.compile(r"""["']([^"'\n]{0,60})["']\s{0,9}:\s{0,9}["'\s]{0,9}\Z""")
_OWN_KEY = re.compile(
    r"(?:final[_ ])?(?:answer|solution|result|output|moves|list|path|plan|steps|placements|actions|(?:tool_)?calls)"
)


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


def joint(between: str) -> str:
    """What joins two answers between which only marks and such words stand: "choice" for "or", "count" for the number of a list
    item, else "marks", as for a comma or "then"; empty if other words stand between them."""
    if not _JOINS.fullmatch(between):
        return ""
    return "choice" if _CHOICE.search(between) else "count" if _COUNT.search(between) else "marks"
