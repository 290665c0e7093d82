"""Answers that somebody writes who wants a parser to take long, at the greatest length that is read."""

from collections.abc import Iterator

UNITS = (
    *("a", "A", "1", "0", "U", " ", "\t", "\n", "\r", "\\", '"', "'", "`", "```", "~", "*", "#", "?", "=", "-", "+"),
    *(".", ","),
    *(";", ":", "/", "%", "^", "_", "|", "!", "$", "&", "@", "\x00", "\x1b", "\ufeff", "\u2028", "\x85", "\u00a0"),
    *("[", "{", "(", "<", "]", "}", ")", "[[", "[{", '{"a":', '[{"tool":', "[]", "{}", "[],", "{},", "0,", "1,"),
    *('"",', "'',"),
    *("π", "∞", "é", "e\u0301", "\u0301", "\u202e", "\u200d", "１", "٣", "𝟙", "ﬁ", "İ", "\U0001f9d1"),
    *("\ud800", "\udfff"),
    *("UDLR", "U, ", "111 ", "ab", "13,", "buy 1 pear;", "pay;", "\\boxed{", "\\boxed{1}", "\\boxed  "),
    *("\\fbox{{", "\\frac{"),
    *("\\frac{1}{2}", "\\text{a}", "\\text{ a }^2 ", "1\\text{cm}^{2} ", "5 cm^ ", "\\sqrt{", "\\left(", "\\cup "),
    *("\\pm ", "{,}"),
    *("1,234,", "1e9", "10^{", "9!", "**", "^^", "```python\n", "```\n", "```py  ", "``` \t", "\n```", "\n ```"),
    *("? a\n", "#1 = a\n", "= a\n", "### a\n", "#1", "Answer: a\n", "Search Query: a\n", "**answer:", "a the an "),
    *("1 => 2\n", "=>", "=>\n", "Input:\n", "Output:\n", "Input:\n1\nOutput:\n2\n", "\\n", "- 1 => 1\n", "`1`=>`1`\n"),
    *("lambda:", "not ", "-", "f(", "x if y else ", "a.b", "a[", "a:", "if 1:\n ", "def f():\n ", "{1:", "f'{", "0x"),
    *("1_0", "1.5e"),
    *("print(1)\n", "print(1);", "x=1;", '"""', "#\n", "\\\n", "async ", "await ", "match x:\n", "@a\n", "*a,"),
    *("**a,", ":=", "...,"),
    *("1e999,", "NaN,", "-0,", "1j+", "1+", "1**", "true,", "null,", '"\\u0000",', '"\\ud800",', "&#1;"),
    *("<think>", "</think>"),
)
"""What answers are made of, in every environment's alphabet, and what Unicode makes of it."""

LEADS = (
    *("", "[", "{", "(", '"', "```python\n", "```\n", "1", "\\boxed{", "? ", "= ", "#1 = ", "1 => "),
    *("output:\n", '[{"tool":"'),
)
ENDS = ("", "X", "\n", "]", "}", ")", '"', "\n```", "=> 1", "\\", "\x00")


def repeat(unit: str, num_characters: int, lead: str = "", end: str = "") -> str:
    """`lead`, as many units as fit, and `end`: never longer than `num_characters`."""
    return f"{lead}{unit * max(0, (num_characters - len(lead) - len(end)) // len(unit))}{end}"


def simple_texts(num_characters: int, share: int = 1, first: int = 0) -> Iterator[str]:
    """Every unit over and over, with a lead and an end that take turns; of these every `share`-th, as `first` chooses."""
    for number, unit in [*enumerate(UNITS)][first % share :: share]:
        yield repeat(unit, num_characters, LEADS[number % len(LEADS)], ENDS[number % len(ENDS)])


def near_values(num_characters: int) -> Iterator[str]:
    """Values with everything that may stand behind one over and over, and an end that makes all of it wrong."""
    behind = (
        *("\\text{a}", " \\text{a}", "/ \\text{ a }", "\\text{a}^2 ", "  \\text{a} ^ { 2 }  ", " cm ^  ", " \\cup "),
        *(", ", "} ", "!^", "/1", ",111"),
    )
    for unit in behind:
        value = repeat(unit, num_characters - len("\\boxed{}"), "1", "X")
        yield value
        yield f"\\boxed{{{value}}}"
    yield f"\\boxed{{{{{','.join(f'{{{number},1,2,3}}' for number in range(num_characters // 11))}}}}}"


def all_texts(num_characters: int, share: int = 1, first: int = 0) -> Iterator[str]:
    """Every unit behind every lead, and before every end; of these every `share`-th, from one that `first` chooses."""
    made_of = [
        each
        for number, unit in enumerate(UNITS)
        for each in (
            *((unit, lead, ENDS[number % len(ENDS)]) for lead in LEADS),
            *((unit, LEADS[number % len(LEADS)], end) for end in ENDS),
        )
    ]
    for unit, lead, end in made_of[first % share :: share]:
        yield repeat(unit, num_characters, lead, end)


def nests(num_characters: int) -> Iterator[str]:
    """Brackets that are all closed, alone and as the end of a box."""
    pairs = (
        ("[", "]"),
        ("{", "}"),
        ("(", ")"),
        ("\\frac{1}{", "}"),
        ("\\boxed{", "}"),
        ('{"a":', "}"),
        ("[[", "],[]]"),
    )
    for opening, closing in pairs:
        depth = num_characters // (len(opening) + len(closing))
        yield opening * depth + closing * depth
