"""What denies an answer, takes it back or adds to it: the words around it in a text that reasons first."""

import re

from components.environments.shared.printed import print_latex
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
_COMMANDS = re.compile(
    r"\A\S+(?: of| than| but| example| instance)?\W*\Z|\b(?:this|that|these|so|it|like|right|correct"
    r"|(?:write|say|answer|use|put|box|do|play|send|choose|give|take|submit|output|enter)(?:ing)?)\b",
    re.IGNORECASE,
)
"""A denial before a colon that denies what follows the colon, as in "do not write:"; "not an integer:" does not."""
_COLON = re.compile(r"[:：]\W*\Z")
_EXCEPTS = re.compile(r"\A(?:except|all but|without)\b", re.IGNORECASE)
_OF_ALL = re.compile(r"\b(?:all|every\w*|each|any)\b", re.IGNORECASE)
_NUMERAL = (
    r"(?:\d|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million)"
)
_GOES_ON = re.compile(
    r"""[ \t*_`~$.,;:!()\]}"'”’]{0,20}(?:\.{2,}|…|[+×*^/±~][ \t]*+[\d(\[]|\(?x ?\d"""
    r"|\b(?:and )?(?:etc|and so on|then|next|finally|lastly|afterwards|followed by|plus|minus|or|twice|thrice|times|repeated"
    r"|reversed|backwards?|unless|if)\b)",
    re.IGNORECASE,
)
_RESTATES = r"\W*(?:equivalently|in other words|that is|i\.?e\b|in decimal|written|as an?\b)"
_NO_SUBJECT = (
    rf"(?:{_NUMERAL}|an?|the|its?|is|no|none|not|some|any|both|neither|we|you|i|he|she|they|this|that|else|maybe|perhaps"
    r"|possibly|probably|even|rather|otherwise|about|around|approximately|roughly|nearly|almost|more|less|fewer|so|higher"
    r"|lower|greater|above|below|larger|smaller|just|simply|only|exactly|another|at|up|down|twice|half|should|could|might)\b"
)
_MULTIPLIES = (
    r"\\(?:sqrt|[dtc]?frac|pi|theta|alpha|beta|gamma|phi|lambda|mu|sigma|omega|rho|infty|sin|cos|tan|cot|sec|csc|log|ln|exp"
    r"|[dt]?binom|sum|prod|int|bmod|vec)(?![A-Za-z])"
)
_ADJOINS = (
    r"[ \t$*]{0,4}(?:[,.'’]?\d|_\{?\d|:\d|[-−–] ?\d|\((?=[^()\s]{0,20}[-+*^])[^()\s]{1,20}\)|[²³¹⁰⁴-⁹₀-₉½¼¾⅓⅔√]"
    rf"|{_MULTIPLIES})"
)
"""What stands against a value is a part of it."""
_SIGNS = (
    r"""[ \t*_`$.,;:!()\]}"'”’]{0,20}(?:\.{2,}|…|\+|[×±]|\^(?!\s?\{?\s?(?:th|st|nd|rd)\b)|~[ \t]*\d|/[ \t]*[\d(\\]"""
    r"|(?<!\*)\*(?!\*)(?:[ \t]*(?:\d|\\(?!f?boxe?d?))|\())"
)
_SAME_SENTENCE = (
    r"[ \t$]{0,6}(?:hundred|thousand|[bmtr]{1,2}illion|dozen|squared|cubed|halves)\b"
    r"""|[ \t*_`~$,;:()\]}"'”’]{0,20}\b(?:etc|and so on|followed by|plus|minus|twice|thrice|repeated|reversed|backwards?"""
    rf"|unless|if|(?:times|multiplied by|divided by|over|to|through|and|point|modulo|mod)\W{{1,6}}(?:{_NUMERAL}|a half\b)"
    r"|times\W{1,6}(?-i:[a-z]\b|\\)"
    r"|(?:and )?(?:then|next|finally|lastly|afterwards)\W{1,6}(?:-?\d[\d.,/]{0,20}|(?-i:[A-Z])\w?)\W{0,6}(?:\Z|[\n.;]))"
)
_ANOTHER = (
    rf"""[\s*_`~$.,;:!?()\]}}"'”’]{{0,20}}\b(?:or|oder|ou)\b(?!{_RESTATES})"""
    rf"(?!(?<=, or)\s(?!{_NO_SUBJECT})(?-i:[a-z]+ [a-z]+\b))"
)
_VALUE_GOES_ON = re.compile(rf"{_ADJOINS}|{_SIGNS}|{_SAME_SENTENCE}|{_ANOTHER}", re.IGNORECASE)
_SENTENCE = r"(?:^|[.!?\n;,…(—–-]|\b(?:but|oh|no|ah|hm+|actually|and)\b)[\W_]{0,9}"
_WRONG = r"(?:['’]s| is| was| would be|,)? (?:wrong|incorrect|not (?:right|correct|it|so))\b(?! to\b)"
_TAKES_BACK = re.compile(
    rf"{_SENTENCE}wait\b(?=\W*(?:\Z|[,.!?:…—–-]|\n|(?:no|i|that|this|it|the|is|are|actually|maybe|let|what|there|one|we|but|my|a"
    r" (?:minute|moment|sec(?:ond)?))\b))|\b(?:scrap (?:that|this|it)|never ?mind|second thoughts?"
    r"|disregard (?:that|this|it|my|what|the (?:above|previous|answer))|hm+|i was wrong|take (?:it|that|this) back"
    rf"|i (?:really )?(?:do not|don['’]?t) know|(?:that|this|it){_WRONG})|(?:^|[.!?\n])[\W_]{{0,9}}no[,.!:]",
    re.IGNORECASE,
)
_FAILS = re.compile(
    rf"\bwhich{_WRONG}|\b(?:that|this|it|which)(?:(?:['’]s| is| was| would be|,)? (?:invalid|false|blocked|impossible)"
    r"| (?:fails|would (?:fail|hit|not)))\b|\b(?:scrap|disregard|(?:do not|don['’]t) know)\b",
    re.IGNORECASE,
)
_VALUE_FAILS = re.compile(
    rf"\A\W{{0,9}}which{_WRONG}|(?:^|[.!?\n])[\W_]{{0,9}}(?:(?:but|so|however,?) )?(?:that|this|it)(?:['’]s| is)"
    r" (?:invalid|false|impossible)\b",
    re.IGNORECASE,
)
"""Behind a value other cases may be called impossible; a list of moves or calls is itself what is blocked or fails."""
_CHOICE = re.compile(r"\b(?:or|maybe|perhaps|else|either|alternatively|possibly|oder|ou)\b", re.IGNORECASE)
_COUNT = re.compile(r"\b(?:\d{1,3}|first|second|third|step|call|action|json|tool_calls?)\b", re.IGNORECASE)
_JOINS = re.compile(
    rf"(?:[\W_]|\b(?:and|then|plus|next|finally|followed by)\b|{_CHOICE.pattern}|{_COUNT.pattern})*+", re.IGNORECASE
)
_ENDS_IN_DENIAL = re.compile(r"\b(?:not|never|cannot|neither|nor|instead of|rather than|n['’]t)[\s$]*\Z", re.IGNORECASE)
"""Also at the end of the line above."""
_OPEN_BRACKET = re.compile(r"(?<!\\)\[\s*\Z")
"""Of a list; `\\[` begins a display."""
_OPENING, _CLOSING = "([{", ")]}"
_WORD = re.compile(r"(?<![\\A-Za-z])[^\W\d_]{2}")
_GOES_ON_LIST = re.compile(r"[\s$]{0,9}[,;][^\n)\]}]{0,80}[)\]}]")
_OPERATES = re.compile(r"(?:\d|(?:\A|[^-])-|[\d}][ \t]*[+×/][ \t]*)\Z")
"""A digit, a sign or an operator that stands against what follows it."""
_VARIABLE = re.compile(r"[ \t$]{0,8}(?:[b-fijkn-rt-z]|ab|xyz?)(?![\w'’(])")
"""A letter that is neither a word nor a unit."""
_TAKES_ARGUMENT = re.compile(
    r"(?:\\(?:sqrt(?:\[[^\]]{0,9}\])?|[dtc]?frac|[dt]?binom|log|ln|exp|sin|cos|tan)|[\^_}])[ \t]*\Z"
)
_OPEN_FENCE = re.compile(r"(?<![`~])(?:`{3,}+|~{3,}+)\w{0,20}\s{0,9}\Z")
_KEY = re.compile(r"""["']([^"'\n]{0,60})["']\s{0,9}:\s{0,9}["'\s]{0,9}\Z""")
_OWN_KEY = re.compile(
    r"(?:final[_ ])?(?:answer|solution|result|output|moves|list|path|plan|steps|placements|actions|(?:tool_)?calls)"
)


def check_is_meant(before: str, after: str, *, is_value: bool = False) -> None:
    r"""Raise MalformedAction if the text around an answer says that it is another one, or none.

    `before` may end in a clause that denies, supposes or quotes it ("The answer is not"), a bracket or a JSON key that is no
    name of an answer. `after` may continue it ("then D", "...", "or"), or take it back ("Wait", "That is wrong"). Behind a
    value, words such as "then", "times" and "or" continue it only with another value: "\boxed{4}, then we add" does not.
    """
    before = _OPEN_FENCE.sub("", before[-_LOOK_BACK:])
    key = _KEY.search(before)
    if _OPEN_BRACKET.search(before) or (key is not None and not _OWN_KEY.fullmatch(key[1])):
        raise MalformedAction("the answer is part of something else")
    before = print_latex(before)
    clause = _CLAUSE_END.split(before)[-1]
    if _denies(clause, is_value=is_value) or (is_value and _ENDS_IN_DENIAL.search(before)):
        raise MalformedAction(f"the answer is not meant: {clause.strip()!r} stands before it")
    after = print_latex(after)
    goes_on, fails = (_VALUE_GOES_ON, _VALUE_FAILS) if is_value else (_GOES_ON, _FAILS)
    if found := goes_on.match(after) or _TAKES_BACK.search(after) or fails.search(after):
        raise MalformedAction(f"the answer goes on or is taken back: {found[0].strip()!r} follows it")


def check_is_whole(before: str, content: str, after: str) -> None:
    r"""Raise MalformedAction if a value is one of an open list, or a sign, factor, function or variable stands against it.

    **Example** `[13, \boxed{42}]`, `\sqrt{\boxed{42}}` and `\boxed{5}x` do not tell the value of the box.
    """
    after = print_latex(after)
    if _is_part_of_formula(print_latex(before[-_LOOK_BACK:]), after) or (
        content.strip()[-1:].isdigit() and _VARIABLE.match(after)
    ):
        raise MalformedAction("the answer is part of a list or a formula")


def _is_part_of_formula(before: str, after: str) -> bool:
    r"""Whether a list is open before a value, or a sign, a factor or a function stands against it.

    **Example** `[13, `, `-` and `\sqrt{` begin something else; `(that is, ` and `{\color{red}` do not.
    """
    if _OPERATES.search(before):
        return True
    depth, start = 0, max(before.rfind("\n\n"), 0)
    for place in range(len(before) - 1, start - 1, -1):
        depth += (before[place] in _CLOSING) - (before[place] in _OPENING)
        if depth >= 0:
            continue
        depth, inside = 0, before[place + 1 :]
        if _WORD.search(inside):
            return False
        if before[place] == "{" and _TAKES_ARGUMENT.search(before[:place]):
            return True
        goes_on = _GOES_ON_LIST.match(after)
        if re.search("[,;]", inside) or (goes_on and not _WORD.search(goes_on[0])):
            return True
    return False


def _denies(clause: str, *, is_value: bool) -> bool:
    """Whether the end of a clause denies what follows it. "All except" tells a value, as "not an integer:" does."""
    found = _DENIES.search(clause)
    if found is None or not is_value:
        return found is not None
    is_exception = _EXCEPTS.match(found[0]) and _OF_ALL.search(clause[: found.end()])
    return not is_exception and (_COLON.search(found[0]) is None or _COMMANDS.search(found[0]) is not None)


def joint(between: str) -> str:
    """What joins two answers between which only marks and such words stand: "choice" for "or", "count" for the number of a list
    item, else "marks", as for a comma or "then"; empty if other words stand between them."""
    between = print_latex(between)
    if not _JOINS.fullmatch(between):
        return ""
    return "choice" if _CHOICE.search(between) else "count" if _COUNT.search(between) else "marks"
