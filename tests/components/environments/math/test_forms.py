"""The forms in which models write a final answer, by each reader: display mathematics, wrappings, words around a box."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from components.environments.math.grammar import final_value, parse_answer
from components.environments.math.verifier import verdict
from components.environments.search.grammar import final_lines
from components.environments.shared.answer_extraction import final_text
from components.errors import MalformedAction

CORPUS = Path(__file__).with_name("corpus.jsonl")
VALUES = ("42", "-3", "1,234", "0.25", r"\frac{3}{4}", r"2\sqrt{3}", "(1, 2)", "x=5", r"\{1, 2\}", r"\text{even}")
BOXED = (
    r"\[ \boxed{V} \]", r"\[\boxed{V}\]", "\\[\n\\boxed{V}\n\\]", "\\[\n\\boxed{V}.\n\\]", "$$\\boxed{V}$$",
    "$$\n\\boxed{V}\n$$", r"\(\boxed{V}\)", r"$\boxed{V}$.", "\\begin{equation}\n\\boxed{V}\n\\end{equation}",
    "\\begin{align*}\nx &= \\boxed{V}\n\\end{align*}", r"\[ x = \boxed{V} \]", r"\[\displaystyle \boxed{V}\]",
    r"\[ \quad\boxed{V}\quad \]", "**\\[ \\boxed{V} \\]**", "> \\[ \\boxed{V} \\]", "1. \\[ \\boxed{V} \\]",
    r"\\[ \\boxed{V} \\]", r"\[ \mathbf{\boxed{V}} \]", r"\[ {\color{red}\boxed{V}} \]", r"\[ \fbox{V} \]",
    r"$\boxed{V}$ of the circle", "It takes $\\boxed{V}$ minutes to wait.", r"\boxed{V}, then we add.",
    "\\[\\boxed{V}\\]\nThe customer has to wait.", r"$\boxed{V}.$$If $n$ is odd, nothing changes.", r"**\boxed{V}** (see it)",
    r"All except $\boxed{V}$", r"It is not an integer: $\boxed{V}$", r"\boxed{V} \qquad \blacksquare", r"\[\boxed{V} \tag{1}\]",
    r"\boxed{V}, or marginal revenue equals cost", "\\boxed{V}\n\nThe other case gives -1, which is impossible.",
    "\\boxed{V} (we disregard the negative root)", "The final answer is: $\\boxed{V}$. I hope it is correct.",
    r"<answer>\[\boxed{V}\]</answer>", r"\left( \boxed{V} \right)", r"\boxed {V}!", "```\n\\boxed{V}\n```",
    r"\[\boxed{V}\text{ times}\]", r"$\boxed{V}\text{ m}.$", r"(that is, \boxed{V})", r"For x in (0, 1]: \boxed{V}",
    r"- \boxed{V}", r"Step 1 - \boxed{V}", r"(1) x = 5, (2) \boxed{V}", r"13, \boxed{V}", r"f(x, y) = \boxed{V}",
    r"\boxed{V} a day", r"\boxed{V}m",
)  # fmt: skip
LABELLED = (
    "Answer: V", "**Answer:** V", "Answer:\n\\[\nV\n\\]", "Answer:\n$$\nV\n$$", r"Answer: \[ V \]", "Answer: $V$.",
    r"The answer is \(V\).", "**Final Answer**\nV", "### Answer\n\n$V$", r"<answer>\(V\)</answer>",
    r"\[\text{Answer: } \boxed{V}\]",
)  # fmt: skip
HASHED = ("#### $V$", "The final price: 3, all in all.\n#### $V$")
REFUSED = (
    r"\boxed{V} or 13", r"\boxed{V}\text{ or }\boxed{13}", r"\boxed{13}\text{ or }\boxed{V}", r"\[\boxed{V}\] or \[\boxed{3}\]",
    r"\boxed{V} \text{ or } 13", r"\boxed{V} or maybe 13", r"\boxed{V}, or perhaps thirteen", "\\boxed{V}\n\nor 13",
    r"\boxed{V}\lor 13", r"\boxed{V} \vee \boxed{13}", r"\boxed{V} or more", r"\boxed{13} \quad \text{or} \quad \boxed{V}",
    r"\boxed{13} \quad \text{and} \quad \boxed{V}", r"\boxed{13}\boxed{V}", r"\boxed{V}\\ \text{or} \\ \boxed{13}",
    r"\boxed{V} \mathrm{or} 13", r"\boxed{V} \text{ oder } \boxed{13}", r"\boxed{V}~million", r"\boxed{V}\ \text{million}",
    r"\boxed{V}\,\mathrm{thousand}", r"\boxed{V}\text{ dozen}", r"\boxed{V}\text{ squared}", r"\boxed{V},000",
    r"\boxed{V}{,}000", r"\boxed{V}\,000", r"$\boxed{V}$,000", r"\boxed{V}.5", r"\boxed{V} \times 10^6", r"\boxed{V}\cdot 2",
    r"\boxed{V} \div 2", r"\boxed{V}\sqrt{2}", r"\boxed{V}\pi", r"\boxed{V}^2", r"\boxed{V}^{2}", r"\boxed{V}_8",
    r"\boxed{V}\frac{1}{2}", r"\boxed{V} + 1", r"\boxed{V} - 1", r"\boxed{V}-1", r"\boxed{V} \pm 1", r"\boxed{V}/2",
    r"\boxed{V}:13", r"\boxed{V} to 13", r"\boxed{V} times two", r"\boxed{V} times $x$", r"\boxed{V} if positive, else 13",
    r"\boxed{V} unless 13", r"\boxed{V} and 13", r"\boxed{V}. Wait, that is wrong.", "\\boxed{V}\n\nNo, that is wrong.",
    "\\boxed{V}\n\nHmm, I do not know.", r"The answer is not \[\boxed{V}\]", "The answer is not\n\\[\n\\boxed{V}\n\\]",
    r"It isn't $\boxed{V}$", r"\text{not } \boxed{V}", r"\left[\boxed{V}\right]", r"[\boxed{V}]", r"Do not say: \[\boxed{V}\]",
    r"\boxed{V}, then 13.", r"\boxed{V}\ldots", r"[13, \boxed{V}]", r"$(13, \boxed{V})$", r"\{13, \boxed{V}\}",
    r"(\boxed{V}, 13)", r"\left[13; \boxed{V}\right]", r"[(1, 2), \boxed{V}]", r"[13, \mathbf{\boxed{V}}]", "[13,\n\\boxed{V}]",
    r"f(2, \boxed{V})", r"(-\infty, \boxed{V})", r"(\sqrt{2}, \boxed{V})", r"3\boxed{V}", r"x=-\boxed{V}", r"\sqrt{\boxed{V}}",
    r"\frac{1}{\boxed{V}}", r"2^{\boxed{V}}", r"40 + \boxed{V}",
)  # fmt: skip
PRODUCTS = (
    r"\boxed{V}x",
    r"\boxed{V} x",
    r"\boxed{V} ab",
    r"\boxed{V}i",
    r"$\boxed{V}$ n",
    r"\boxed{V}\,x",
    r"\boxed{V}\text{ x}",
)
"""Where an answer is a name, they are read."""


def read_strictly(text: str) -> str:
    return parse_answer(text, max_characters=200, numbers_only=False)


def read_freely(text: str) -> str:
    return read_strictly(final_value(text))


def read_name(text: str) -> str:
    return (
        final_lines(text, answers=True)
        .removeprefix("=")
        .removeprefix("Answer:")
        .removeprefix("**Answer:**")
        .removeprefix("Answer:**")
        .strip()
    )


READERS: dict[str, tuple[Callable[[str], str], Sequence[str], Sequence[str]]] = {
    "strict": (read_strictly, BOXED, (*REFUSED, *PRODUCTS)),
    "free": (read_freely, (*BOXED, *LABELLED, *HASHED), (*REFUSED, *PRODUCTS)),
    "own": (final_text, (*BOXED, *LABELLED, *HASHED), (*REFUSED, *PRODUCTS)),
    "search": (read_name, (*BOXED, *LABELLED), REFUSED),
}


def read_form(read: Callable[[str], str], form: str, value: str) -> str:
    try:
        return read(f"We compute it.\n\n{form.replace('V', value)}")
    except MalformedAction as error:
        return f"malformed: {error}"


@pytest.mark.parametrize("reader", READERS)
def test_a_value_is_read_in_every_form(reader: str) -> None:
    read, forms, _ = READERS[reader]
    wrong = [
        (form, value, found)
        for form in forms
        for value in VALUES
        if not verdict(found := read_form(read, form, value), value)
    ]
    print(f"{reader}: {len(forms)} forms x {len(VALUES)} values, {len(wrong)} misread")
    assert not wrong


@pytest.mark.parametrize("reader", READERS)
def test_a_value_that_is_not_all_or_not_meant_is_refused(reader: str) -> None:
    read, _, forms = READERS[reader]
    wrong = [form for form in forms if read_form(read, form, "42") in ("42", "42.")]
    print(f"{reader}: {len(forms)} wrong forms, {len(wrong)} read")
    assert not wrong


def test_answers_like_those_of_models_are_judged_as_a_person_judges_them() -> None:
    rows = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    wrong = [
        row for row in rows if verdict(read_form(read_freely, "V", row["text"]), row["reference"]) is not row["right"]
    ]
    print(f"{len(rows) - len(wrong)} of {len(rows)} answers agree")
    assert not wrong
