"""Answers that reason first about a programming problem: tests and programs."""

from tests.components.environments.reasoned.row import MALFORMED, Row

TESTER, CODER = "tester", "coder"

CODE = (
    Row(TESTER, "Doubling 0 is an edge case.\n\n0 => 0\n4 => 8", "0 => 0\n4 => 8"),
    Row(TESTER, "<think>3 => 5? No, 6.</think>\n3 => 6", "3 => 6"),
    Row(TESTER, "3 => 5? Let me compute that again.\n\n3 => 6\n4 => 8\n\nI hope these find the mistake!", "3 => 6\n4 => 8"),
    Row(TESTER, "The form is INPUT => OUTPUT.\n1. `3 => 6`\n2. `4 => 8`", "3 => 6\n4 => 8"),
    Row(TESTER, "```\n3 => 6\n\n4 => 8\n```\nGood luck.", "3 => 6\n4 => 8"),
    Row(TESTER, "- 3 => 6\n- -4 => -8\n\nNote that n => 2n holds for every whole number.", "3 => 6\n-4 => -8"),
    Row(TESTER, "Der kleinste Fall:\n0 => 0", "0 => 0"),
    Row(TESTER, "I check one small number.\n\nInput:\n3\nOutput:\n6", "3 => 6"),
    Row(TESTER, "Maybe 1 => 2 is shown already.\n\n**Input:**\n```\n5\n```\n**Output:**\n```\n10\n```\n", "5 => 10"),
    Row(TESTER, "Test 1: 3 => 6 (a small one)\n**Test 2:** 0 => 0  # nothing", "3 => 6\n0 => 0"),
    Row(TESTER, "An empty input should be tried.", MALFORMED),
    Row(TESTER, "<think>3 => 6", MALFORMED),
    Row(TESTER, "the base case</think>0 => 0", "0 => 0"),
    Row(CODER, "We read a number and double it.\n```python\nprint(2 * int(input()))\n```\nIt runs in constant time.",
        "print(2 * int(input()))"),
    Row(CODER, "```python\nprint(int(input()))\n```\nThat forgets to double:\n```python\nprint(2 * int(input()))\n```",
        "print(2 * int(input()))"),
    Row(CODER, "```python\nprint(2 * int(input()))\n```\nExample:\n```\n3\n6\n```\n```bash\npython main.py\n```",
        "print(2 * int(input()))"),
    Row(CODER, "<think>\n```python\nprint(1)\n```\nor\n```python\nprint(\n</think>\n```python\nprint(2)\n```", "print(2)"),
    Row(CODER, "```python\ntext = '<think>a</think>'\nprint(text.split('</think>')[1])\n```",
        "text = '<think>a</think>'\nprint(text.split('</think>')[1])"),
    Row(CODER, "まず入力を読みます。\n```\nprint(2 * int(input()))\n```", "print(2 * int(input()))"),
    Row(CODER, "print(2 * int(input()))", "print(2 * int(input()))"),
    Row(CODER, "Here it is:\n```python\nprint(2 * int(input()))", "print(2 * int(input()))"),
    Row(CODER, "Here it is, with a function:\n\ndef double(x):\n    return 2 * x\nprint(double(int(input())))\n\nHope so.",
        "def double(x):\n    return 2 * x\nprint(double(int(input())))"),
    Row(CODER, "x=int(input())\nprint(2*x)", "x=int(input())\nprint(2*x)"),
    Row(CODER, "~~~python\nprint(2)\n~~~", "print(2)"),
    Row(CODER, "I would double the number.", MALFORMED),
    Row(CODER, "```python\nprint(1)\n```\nBetter:\n```python\nprint(2\n```", MALFORMED),
)  # fmt: skip

PUZZLE = (
    Row("tool_agent", "I search the board.\n```python\nprint('[\"U\"]')\n```\nIt prints one move.", "print('[\"U\"]')"),
    Row("tool_agent", "<think>print(1)</think>\n```\nprint('[]')\n```", "print('[]')"),
    Row("tool_agent", "```python\nprint('[]')\n```\nIt prints:\n```json\n[]\n```", "print('[]')"),
    Row("tool_agent", "```py\nprint(1)\n```\nBetter:\n```py\nprint(2)\n```", "print(2)"),
    Row("tool_agent", "```python\nprint('[]')", "print('[]')"),
    Row("tool_agent", "print('[]')", "print('[]')"),
    Row("tool_agent", "<think>```python\nprint(1)\n```", MALFORMED),
    Row("plan_agent", "The program failed, so I decide myself: [U, R]", "UR"),
)
