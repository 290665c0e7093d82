"""Level 0: one short expression."""

from components.environments.code.procedural.puzzle import integer, integers, puzzle, text

NUMBER = integer(0, 60)
NUMBERS = integers(2, 5, 0, 40)
WORD = text(3, 8, "abcdefgh")
LETTER = text(1, 1, "abcdefgh")


@puzzle(0, {"n": NUMBER}, a=integer(2, 60), b=integer(1, 60))
def linear(n: int, *, a: int, b: int) -> int:
    """{a}*n+{b}"""
    return a * n + b


@puzzle(0, {"n": integer(0, 400)}, a=integer(3, 60), b=integer(1, 60))
def remainder(n: int, *, a: int, b: int) -> int:
    """n%{a}+{b}"""
    return n % a + b


@puzzle(0, {"n": integer(0, 400)}, a=integer(2, 20), b=integer(1, 60))
def quotient(n: int, *, a: int, b: int) -> int:
    """n//{a}-{b}"""
    return n // a - b


@puzzle(0, {"n": NUMBER}, a=integer(1, 99))
def square(n: int, *, a: int) -> int:
    """n*n-{a}"""
    return n * n - a


@puzzle(0, {"m": NUMBER, "n": NUMBER}, a=integer(2, 40), b=integer(2, 40))
def two_terms(m: int, n: int, *, a: int, b: int) -> int:
    """{a}*m+{b}*n"""
    return a * m + b * n


@puzzle(0, {"m": NUMBER, "n": NUMBER}, a=integer(1, 99))
def product(m: int, n: int, *, a: int) -> int:
    """m*n+{a}"""
    return m * n + a


@puzzle(0, {"x": NUMBERS}, a=integer(1, 99))
def total(x: list[int], *, a: int) -> int:
    """the sum of x plus {a}"""
    return sum(x) + a


@puzzle(0, {"x": NUMBERS}, a=integer(2, 60))
def largest(x: list[int], *, a: int) -> int:
    """the max of x times {a}"""
    return max(x) * a


@puzzle(0, {"x": NUMBERS}, a=integer(1, 99))
def smallest(x: list[int], *, a: int) -> int:
    """the min of x minus {a}"""
    return min(x) - a


@puzzle(0, {"x": NUMBERS}, a=integer(1, 99))
def last(x: list[int], *, a: int) -> int:
    """the last item of x plus {a}"""
    return x[-1] + a


@puzzle(0, {"s": text(1, 12)}, a=integer(2, 60), b=integer(1, 60))
def length(s: str, *, a: int, b: int) -> int:
    """{a} times the length of s plus {b}"""
    return a * len(s) + b


@puzzle(0, {"s": WORD}, a=text(1, 2))
def suffixed(s: str, *, a: str) -> str:
    """s plus '{a}'"""
    return s + a


@puzzle(0, {"s": WORD}, a=text(1, 2))
def prefixed(s: str, *, a: str) -> str:
    """'{a}' plus s"""
    return a + s


@puzzle(0, {"s": WORD}, a=LETTER, b=text(1, 1, "pqrstuvw"))
def replaced(s: str, *, a: str, b: str) -> str:
    """s with '{a}' replaced by '{b}'"""
    return s.replace(a, b)


@puzzle(0, {"s": text(6, 14, "abcdefgh")}, a=LETTER, b=integer(2, 20))
def counted(s: str, *, a: str, b: int) -> int:
    """{b} times the count of '{a}' in s"""
    return b * s.count(a)


@puzzle(0, {"s": text(5, 9)}, a=text(1, 2))
def reversed_text(s: str, *, a: str) -> str:
    """s reversed, plus '{a}'"""
    return s[::-1] + a
