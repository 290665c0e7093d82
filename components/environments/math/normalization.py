"""One spelling for the many ways of writing the same answer."""

import re

MAX_CHARACTERS = 1000
"""A longer text equals nothing: comparing two part by part takes quadratic time."""
MAX_FINAL_CHARACTERS = 400
"""The maximum length of a final answer of an agent, a program or a dataset."""

_CHARACTERS = str.maketrans(
    {
        "−": "-",
        "–": "-",
        "×": "*",
        "·": "*",
        "⋅": "*",
        "÷": "/",
        "’": "'",
        "\u00a0": " ",
        "\u202f": " ",
        "°": r"^\circ ",
    }
    | dict.fromkeys("€£¥₹¢", "")
    | {"π": r"\pi ", "∞": r"\infty ", "∪": r"\cup ", "≤": r"\le ", "≥": r"\ge ", "±": r"\pm "}
)
_FONTS = r"\\(?:text(?:normal|bf|it|rm|sf|tt|up)?|math(?:rm|bf|it|sf|tt|normal)|[mh]box|operatorname)"
_POWER = r"(?:\s*\^\s*(?:\{\s*)?[23](?:\s*\})?)?"
_UPRIGHT = (
    r"[\s~]*(?:/[\s~]*)?\\(?:text(?:normal|rm|up)?|mathrm|[mh]box)\s*\{(?!\s*(?:or|and|not|[eiknxyz]|percent|(?:hundred|thousand|"
    rf"million|billion|trillion|dozen)s?)\b)[A-Za-z ~/]+\}}{_POWER}"
)
_UPRIGHT_UNITS = rf"(?<=[\d}})])(?:(?>(?:{_UPRIGHT})+)(?=[\s.]*$)|(?P<kept>(?>(?:{_UPRIGHT})+)))"
"""Units in upright letters after a value, which cannot be a product of variables. Those in the middle of a text are matched and
kept, so that no search starts inside them, which would take quadratic time."""
_SPELLED_UNIT = (
    r"(?<=[\d})])\s+(?:sq(?:uare)? |cubic )?(?:cm|mm|km|kg|inch(?:es)?|feet|units?|degrees?|dollars?|cents?|met(?:er|re)s?|"
    rf"miles?|hours?|minutes?|seconds?|days?|years?){_POWER}(?=[\s.]*$)"
)
_REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\\$|\$|(?<!\\)\\[()\[\]!]|\\displaystyle|\\(?:left|right|[bB]igg?[lr]?)(?![a-zA-Z])", ""),
        (r"(?<=\d)\\,(?=\d{3})", ""),
        (r"(?<!\\)\\[,;: ]|~|\\q?quad(?![a-zA-Z])", " "),
        (r"\{\s*,\s*\}", ","),
        (r"\\[dtc]frac", r"\\frac"),
        (_UPRIGHT_UNITS, r"\g<kept>"),
        (_FONTS + r"\s*\{([^{}]*)\}", r" \1 "),
        (_SPELLED_UNIT, ""),
        (r"(?:\^\s*(?:\{\s*\\circ\s*\}|\\circ)|\\degree)(?:\s*[CF](?=[\s.]*$))?", ""),
        (r"\\%", "%"),
        (r"(?<=[)\]])\s*U\s*(?=[(\[])", r"\\cup "),
        (r"\s+", " "),
    )
)
_NAMED = re.compile(r"(?P<name>[A-Za-z](?:_\{?\w\}?)?)\s*(?:=|\\in(?![a-z]))\s*(?=[^=])")
_WORDS = re.compile(r"[A-Za-z][A-Za-z' -]*")
_CONSTANTS = frozenset({"pi", "e", "i", "oo", "inf", "infinity"})


def plain(text: str) -> str:
    r"""`text` in the spelling for comparison: no dollar signs, sizes, font commands or degree signs.

    **Example** `r"$\left(1,\,\dfrac{1}{2}\right)$."` gives `r"(1, \frac{1}{2})"`.
    """
    text = text.translate(_CHARACTERS)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text.strip(" `*\"'").removesuffix(".").rstrip()


def split_variable(text: str) -> tuple[str, str]:
    """The variable of a plain answer, "" without one, and its value: `x = 5` is ("x", "5")."""
    found = _NAMED.match(text)
    return (found["name"], text[found.end() :]) if found else ("", text)


def words(text: str) -> str | None:
    """A plain answer in words, folded for comparison; None for anything else."""
    folded = " ".join(text.strip("() ").casefold().split())
    return folded if _WORDS.fullmatch(folded) and folded not in _CONSTANTS else None
