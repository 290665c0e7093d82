"""Text as LaTeX prints it: words without their font commands, spaces and signs as themselves."""

import re

_FONTS = (
    r"\\(?:text(?:normal|bf|it|rm|sf|tt|sc|up|md)?|math(?:rm|bf|it|sf|tt|normal)|mbox|hbox|operatorname|emph|underline)"
    r"(?![A-Za-z])\*?"
)
_WORDS = re.compile(rf"{_FONTS}\s{{0,9}}\{{([^{{}}]*+)\}}|\{{\\(?:rm|bf|it|sf)\s([^{{}}]*+)\}}")
_DISPLAYS = r"(?:equation|align|gather|aligned|gathered|displaymath|math|multline|center)\*?"
_REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rf"\\(?:begin|end)\s?\{{{_DISPLAYS}\}}", " $ "),
        (r"\\{1,2}[\[\]()]", " $ "),
        (r"\\(?:quad|qquad|enspace|hfill|newline|displaystyle|rm|bf)(?![A-Za-z])|\\[hv]space\*?\{[^{}]{0,20}\}", " "),
        (r"\\[,;:! \\]|~(?!\s{0,9}\d)", " "),
        (r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])", ""),
        (r"\\(?:lor|vee)(?![A-Za-z])", " or "),
        (r"\\(?:land|wedge)(?![A-Za-z])", " and "),
        (r"\\(?:lnot|neg)(?![A-Za-z])", " not "),
        (r"\\(?:times|cdot|ast)(?![A-Za-z])", "*"),
        (r"\\div(?![A-Za-z])", "/"),
        (r"\\(?:pm|mp)(?![A-Za-z])", "±"),
        (r"\\[lcdv]?dots[cbmio]?(?![A-Za-z])", "..."),
        (r"\^\s?\{?\s?\\circ(?![A-Za-z])\s?\}?|\\degree(?![A-Za-z])", "°"),
        (r"\\([%$&#])", r"\1"),
        (r"\{\s?([,.])\s?\}", r"\1"),
    )
)


def print_latex(text: str) -> str:
    r"""`text` with the words, spaces and signs that LaTeX prints; displays begin and end with a dollar sign. Takes linear time.

    **Example** `r"\]\quad\text{ or }\times 10"` is `" $  or *10"`, but for spaces.
    """
    if not any(mark in text for mark in "\\~{"):
        return text
    text = _WORDS.sub(lambda found: f" {found[1] or found[2] or ''} ", text)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text
