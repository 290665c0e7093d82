"""Answers that reason first about questions: programs and final values."""

from tests.components.environments.reasoned.row import MALFORMED, Row

TOOL, REASONER = "tool_agent", "reasoner"

MATH = (
    Row(REASONER, r"<think>\boxed{5}</think> the answer is 4", r"\boxed{4}"),
    Row(REASONER, "12 + 7 = 19, and twice that is 38.\n\nThe final answer is \\boxed{38}. I hope this helps!", r"\boxed{38}"),
    Row(REASONER, r"\boxed{5}... wait, I forgot one. \boxed{6}", r"\boxed{6}"),
    Row(REASONER, r"\boxed{5}. Wait, one is counted twice, so the answer is 4.", r"\boxed{4}"),
    Row(REASONER, "The program printed 12.\n\n**Answer:** 12 apples\n\nI hope this helps.", "12 apples"),
    Row(REASONER, "5 + 6 = 11\n11 * 3 = 33", "33"),
    Row(REASONER, "He pays 3 a day.\nIn a week he pays 21.\n#### 21", "21"),
    Row(REASONER, "Die Antwort lautet 3/4.", "3/4"),
    Row(REASONER, "一共有五个苹果。答案是 5。", "5"),
    Row(REASONER, "La réponse est $\\frac{3}{4}$.", r"$\frac{3}{4}$"),
    Row(REASONER, "We add them.\n\n42\n\nThat agrees with the program.", "42"),
    Row(REASONER, "First 17, then 25, hence 42", "42"),
    Row(REASONER, "Therefore, there are 12 apples.", "12"),
    Row(REASONER, "The answer is 6 * 7 = 42.", "42"),
    Row(REASONER, "Answer: f(2) = 5", "5"),
    Row(REASONER, "The answer is x = 3, y = 4", "x = 3, y = 4"),
    Row(REASONER, "Adding up.\nTherefore, she has 12 + 5 = 17 apples.", "17"),
    Row(REASONER, "Answer: 2^10", "2^10"),
    Row(REASONER, "sqrt(2)", "sqrt(2)"),
    Row(REASONER, "2x", "2x"),
    Row(REASONER, "The answer is $5$ and not $6$.", "$5$"),
    Row(REASONER, "I cannot decide between the two.\nBoth look right, and no further information is given.", MALFORMED),
    Row(REASONER, r"<think>It must be \boxed{5}, but let me check", MALFORMED),
    Row(TOOL, "I add the numbers.\n```python\nprint(1 + 2)\n```\nThis prints 3.", "print(1 + 2)"),
    Row(TOOL, "```python\nprint(1)\n```\nOutput:\n```\n1\n```", "print(1)"),
    Row(TOOL, "```python\nprint(1 + 2)\n```\nThat misses one:\n```python\nprint(1 + 2 + 3)\n```", "print(1 + 2 + 3)"),
    Row(TOOL, "<think>\n```python\nprint('no')\n```\n</think>\n```py\nx = 2\nprint(x)\n```", "x = 2\nprint(x)"),
    Row(TOOL, "1. The program:\n   ```python\n   for i in (1,):\n       print(i)\n   ```", "for i in (1,):\n    print(i)"),
    Row(TOOL, 'print("<think>")', 'print("<think>")'),
    Row(TOOL, "so I sum them</think>\n```python\nprint(sum([1, 2]))", "print(sum([1, 2]))"),
    Row(TOOL, "<think>print(1)", MALFORMED),
)  # fmt: skip

MATH_NUMBERS = (
    Row(REASONER, "The answer is 6 * 7 = 42.", "42"),
    Row(REASONER, "Each pays 12 + 5, so the answer is 12 + 5 = 17 euros.", "17"),
    Row(REASONER, "Answer: 1/2 of 10 = 5", "5"),
    Row(REASONER, "She has 12 + 5 = 17 apples.", "17"),
    Row(REASONER, "Answer: 5*8", MALFORMED),
    Row(REASONER, "Answer: 2^10", MALFORMED),
    Row(REASONER, "Answer: 3 and 4", MALFORMED),
    Row(REASONER, "Answer: 3, 4", MALFORMED),
    Row(REASONER, "Answer: 4, because 2 and 2 are 4.", "4"),
    Row(REASONER, "12+7*3: the product is 21, so it is 33.", "33"),
    Row(REASONER, "The answer is 33 because multiplication comes first.", "33"),
    Row(REASONER, "<think>33? 57?</think>33", "33"),
    Row(REASONER, "= 12 + 21\n= 33", "33"),
    Row(REASONER, "Respuesta: 1,234", "1234"),
    Row(REASONER, "It is thirty-three.", MALFORMED),
    Row(TOOL, "The expression is evaluated by Python.\n```python\nprint(12+7*3)\n```", "print(12+7*3)"),
)
