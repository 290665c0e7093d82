"""The unit of an answer: 12 hours differ from 12 minutes, while a bare 12 has left its unit out."""

import re
from functools import lru_cache

_TAIL_CHARACTERS = 80
"""No more of the end of a text is read for its unit."""
_SPELLINGS = {
    "mm": "mm millimeter millimetre",
    "cm": "cm centimeter centimetre",
    "m": "m meter metre",
    "km": "km kilometer kilometre",
    "nm": "nm nanometer nanometre",
    "inch": "in inch inche",
    "foot": "ft foot feet",
    "yard": "yd yard",
    "mile": "mi mile",
    "mg": "mg milligram",
    "g": "g gram",
    "kg": "kg kilogram kilo",
    "pound": "lb pound £",
    "ounce": "oz ounce",
    "ton": "ton tonne",
    "second": "s sec second",
    "minute": "min minute",
    "hour": "h hr hour",
    "day": "day",
    "week": "wk week",
    "month": "month",
    "year": "yr year",
    "ml": "ml milliliter millilitre",
    "liter": "l liter litre",
    "gallon": "gal gallon",
    "degree": "° deg degree",
    "celsius": "°c celsius",
    "fahrenheit": "°f fahrenheit",
    "radian": "rad radian",
    "dollar": "$ usd dollar buck",
    "cent": "¢ cent",
    "euro": "€ eur euro",
    "yen": "¥ yen",
    "rupee": "₹ rupee",
    "percent": "% percent percentage",
    "am": "am a.m",
    "pm": "pm p.m",
    "km/hour": "kph kmh",
    "mile/hour": "mph",
}
_UNITS = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings.split()}
_POWERS = {"square": 2, "sq": 2, "squared": 2, "^2": 2, "cubic": 3, "cu": 3, "cubed": 3, "^3": 3}
_NOUN = "a noun:"
"""How the unit of words that are none begins, such as apples."""
_FILLERS = frozenset(
    {"total", "in", "all", "altogether", "left", "each", "remaining", "more", "extra", "different", "distinct", "possible",
     "long", "tall", "old", "wide", "high", "deep", "away", "many", "such", "way", "ways", "possibility", "possibilities",
     "arrangements", "combinations", "outcomes", "solution", "solutions", "value", "values", "number", "numbers", "integer",
     "integers", "items", "objects", "pieces", "things", "times"}
)  # fmt: skip
"""Words that say nothing of what is counted."""
SHORT_WORDS = frozenset(
    {"a", "an", "as", "at", "by", "he", "i", "in", "is", "it", "me", "my", "no", "of", "on", "so", "to", "up", "us", "we",
     "am", "are", "do", "go", "be", "if", "or"}
)  # fmt: skip
"""Words of the language that are as short as products of variables."""
_NO_NOUNS = frozenset(
    {
        "units",
        "unit",
        "hundred",
        "thousand",
        "million",
        "billion",
        "trillion",
        "dozen",
        "half",
        "halves",
        "and",
        "or",
        "not",
    }
)
_MONEY = frozenset({"dollar", "cent", "euro", "yen", "rupee"})
"""What they are paid for (per day) is left out."""
_LONGEST_SYMBOL = 2
"""Letters of a unit that could be variables instead: it is one only after a number without other letters."""

_WORD = "|".join(sorted(map(re.escape, _UNITS), key=len, reverse=True))
_POWERED = rf"(?:(?:square|sq|cubic|cu)\.? )?(?:{_WORD})s?(?: ?\^ ?[23]| squared| cubed)?(?![a-z])"
_END = re.compile(rf"(?:^|(?<=[\d\s)\]°]))(?P<above>{_POWERED})(?: ?(?:/| per ) ?(?P<below>{_POWERED}))?$")
_PHRASE = re.compile(r"(?<=[\d)]) ?(?P<words>[a-z]{3,}(?: [a-z]+)*)$")
_PARTS = re.compile(
    rf"(?P<before>(?:square|sq|cubic|cu)(?=\.? ))?\.? ?(?P<word>{_WORD})s? ?(?P<after>\^ ?[23]|squared|cubed)?"
)
_SIGNED_MONEY = re.compile(r"[+-]? ?\\?(?P<sign>[$£€¥₹]) ?[\d.]")
_DEGREES = re.compile(r"(?:\^\s*)?\\(?:circ|degree)(?![A-Za-z])\s*")
_FORMATTING = re.compile(
    r"\\(?:text(?:normal|rm|bf|it|sf|up)?|math(?:rm|bf|it|sf|normal)|[mh]box|operatorname|rm)(?![A-Za-z])"
    r"|\\[ ,;:!]|\\q?quad(?![A-Za-z])|[{}~\s]"
)
_GLUED = re.compile(r"(?<=\d)(?=[a-z])")
_SUPERSCRIPTS = str.maketrans({"²": "^2", "³": "^3"})
_COMMAND = re.compile(r"\\[A-Za-z]+")
_LETTER = re.compile(r"[A-Za-z]")
_LISTED = re.compile(r"[;|]|(?<!\\),(?!\d{3})|\b(?:and|or)\b")


def units_differ(answer: str, expected: str) -> bool:
    r"""Whether two answers have different units; one without a unit differs from none, and neither does a list.

    Spellings, plurals and abbreviations of a unit are equal. Words that are no unit differ from every unit, and from each other
    unless one has all words of the other. Takes linear time.

    **Example** `5 cm`, `5\text{ centimeters}` and `5` do not differ; `5 cm` and `5 m` do, `5 apples` and `5 pears`.
    """
    if _LISTED.search(answer) or _LISTED.search(expected):
        return False
    given, wanted = unit_of(answer), unit_of(expected)
    if given is None or wanted is None or given == wanted:
        return False
    if given.startswith(_NOUN) and wanted.startswith(_NOUN):
        words, others = (set(unit.removeprefix(_NOUN).split()) for unit in (given, wanted))
        return not (words <= others or others <= words)
    return {given, wanted} not in ({"degree", "celsius"}, {"degree", "fahrenheit"})


def is_unit(word: str) -> bool:
    """Whether a word is the name or the sign of a known unit."""
    word = word.lower()
    return word in _UNITS or word.removesuffix("s") in _UNITS


def share_unit(answer: str, expected: str) -> bool:
    """Whether both have the same known unit."""
    unit = unit_of(answer)
    return unit is not None and unit == unit_of(expected)


@lru_cache(maxsize=4096)
def unit_of(text: str) -> str | None:
    r"""The unit of an answer as written, in one spelling; None without one.

    **Example** `\$3.50` has dollar, `9\text{ sq. feet}` foot^2, `40 km per hour` km/hour, `2x` and `$7$` none.
    """
    money = _SIGNED_MONEY.match(text.lstrip())
    if money and not (money["sign"] == "$" and "\\$" not in text and text.count("$") % 2 == 0):
        return _UNITS[money["sign"]]
    start = max(0, len(text) - _TAIL_CHARACTERS)
    tail = _DEGREES.sub("°", text[start:].translate(_SUPERSCRIPTS)).replace("$", "")
    tail = " ".join(_FORMATTING.sub(" ", tail).replace("\\%", "%").split()).strip(" .,*`\"'").lower()
    tail = _GLUED.sub(" ", tail).replace("° c", "°c").replace("° f", "°f")
    found = _END.search(tail)
    if found is None:
        return _of_phrase(tail)
    before = tail[: found.start()].rstrip()
    if before.endswith(("/", "per")) or not any(map(str.isdigit, text)):
        return None
    if _is_symbol(found["above"]) and _LETTER.search(_COMMAND.sub("", text[:start] + before)):
        return None
    above = _canonical(found["above"])
    return f"{above}/{_canonical(found['below'])}" if found["below"] and above not in _MONEY else above


def _of_phrase(tail: str) -> str | None:
    """The unit in words after a number that end in none: of `5 feet tall` foot, of `5 tall boys` the nouns `boy`."""
    phrase = _PHRASE.search(tail)
    if phrase is None or not _NO_NOUNS.isdisjoint(phrase["words"].split()):
        return None
    first, *_ = words = phrase["words"].split()
    unit = _UNITS.get(first) or _UNITS.get(first.removesuffix("s"))
    nouns = sorted({_singular(word) for word in words if word not in _FILLERS})
    return unit or (f"{_NOUN}{' '.join(nouns)}" if nouns else None)


def _singular(word: str) -> str:
    """**Example** `boxes` and `box` have one; so have `pies` and `pie`."""
    word = {"men": "man", "women": "woman", "children": "child", "people": "person", "dice": "die"}.get(word, word)
    return re.sub(r"(?:(?<=[sxz])es|(?<=[cs]h)es|(?<!s)s)\Z", "", re.sub(r"ies\Z|(?<=[^aeiou])y\Z", "ie", word))


def _is_symbol(written: str) -> bool:
    word = written.strip()
    return word.isalpha() and len(word) <= _LONGEST_SYMBOL


def _canonical(written: str) -> str:
    parts = _PARTS.fullmatch(written.strip())
    assert parts is not None, f"{written!r} matched as a unit"
    unit = _UNITS[parts["word"]]
    power = _POWERS.get((parts["before"] or parts["after"] or "").replace(" ", ""), 1)
    return unit if power == 1 else f"{unit}^{power}"
