"""Level 1: one loop, filter or condition."""

from components.environments.code.procedural.puzzle import integer, integers, puzzle, text, words

NUMBER = integer(0, 300)
NUMBERS = integers(3, 9, 0, 60)
SENTENCE = words(2, 7)


@puzzle(1, {"x": NUMBERS}, a=integer(5, 50))
def sum_above(x: list[int], *, a: int) -> int:
    """the sum of the items of x that are greater than {a}"""
    return sum(v for v in x if v > a)


@puzzle(1, {"x": integers(5, 12, 0, 60)}, a=integer(2, 9), b=integer(2, 9))
def count_multiples(x: list[int], *, a: int, b: int) -> int:
    """{b} times the number of items of x that are divisible by {a}"""
    return b * sum(v % a == 0 for v in x)


@puzzle(1, {"x": NUMBERS}, a=integer(2, 30), b=integer(0, 30))
def scaled(x: list[int], *, a: int, b: int) -> list[int]:
    """each item of x times {a} plus {b}, in order"""
    return [v * a + b for v in x]


@puzzle(1, {"x": integers(5, 9, 0, 60)}, a=integer(1, 3))
def sorted_without(x: list[int], *, a: int) -> list[int]:
    """x sorted from large to small, without the {a} largest"""
    return sorted(x, reverse=True)[a:]


@puzzle(1, {"x": integers(6, 12, 0, 60)}, a=integer(3, 9))
def not_multiples(x: list[int], *, a: int) -> list[int]:
    """0 followed by the items of x that are not divisible by {a}, in order"""
    return [0] + [v for v in x if v % a]


@puzzle(1, {"x": NUMBERS}, a=integer(11, 99))
def squares_modulo(x: list[int], *, a: int) -> int:
    """the sum of the squares of x, modulo {a}"""
    return sum(v * v for v in x) % a


@puzzle(1, {"x": NUMBERS}, a=integer(0, 50))
def running_sums(x: list[int], *, a: int) -> list[int]:
    """the running sums of x, starting from {a}: the first item plus {a}, then with the second added, and so on"""
    return [a + sum(x[: i + 1]) for i in range(len(x))]


@puzzle(1, {"s": text(4, 10)}, a=integer(1, 25))
def caesar(s: str, *, a: int) -> str:
    """s with each letter moved {a} places on in the alphabet, after z comes a"""
    return "".join(chr((ord(c) - 97 + a) % 26 + 97) for c in s)


@puzzle(1, {"s": text(6, 16)}, a=text(3, 3), b=integer(2, 12))
def count_letters(s: str, *, a: str, b: int) -> int:
    """{b} times the number of letters of s that occur in '{a}', plus the length of s"""
    return b * sum(c in a for c in s) + len(s)


@puzzle(1, {"n": NUMBER}, a=integer(20, 120), b=integer(130, 280))
def clamped(n: int, *, a: int, b: int) -> int:
    """n, but {a} if n is smaller than {a}, and {b} if n is larger than {b}"""
    if n < a:
        return a
    if n > b:
        return b
    return n


@puzzle(1, {"w": SENTENCE}, a=integer(2, 5), b=text(1, 2))
def long_words(w: list[str], *, a: int, b: str) -> str:
    """'{b}' followed by the words of w with at least {a} letters, all without spaces between"""
    return b + "".join(v for v in w if len(v) >= a)


@puzzle(1, {"w": SENTENCE}, a=text(1, 2, "+-*/.:;"))
def reversed_words(w: list[str], *, a: str) -> str:
    """the words of w in reverse order with '{a}' between them"""
    return a.join(w[::-1])


@puzzle(1, {"s": text(8, 16)}, a=integer(2, 5), b=text(1, 2, "xyz"))
def every_letter(s: str, *, a: int, b: str) -> str:
    """every letter number {a} of s, counted from the first one, which is taken, then '{b}'"""
    return s[::a] + b


@puzzle(1, {"n": integer(0, 99999)}, a=integer(2, 60), b=integer(0, 9))
def digit_sum(n: int, *, a: int, b: int) -> int:
    """{a} times the sum of the decimal digits of n, plus {b}"""
    return a * sum(int(c) for c in str(n)) + b


@puzzle(1, {"x": NUMBERS}, a=integer(2, 30))
def neighbours(x: list[int], *, a: int) -> list[int]:
    """for each item of x but the first, how much larger it is than the one before, times {a}"""
    return [(x[i] - x[i - 1]) * a for i in range(1, len(x))]


@puzzle(1, {"n": integer(1, 60)}, a=integer(2, 9), b=integer(2, 9))
def sum_of_multiples(n: int, *, a: int, b: int) -> int:
    """the sum of the numbers from 1 to n that are divisible by {a} or by {b}"""
    return sum(v for v in range(1, n + 1) if v % a == 0 or v % b == 0)
