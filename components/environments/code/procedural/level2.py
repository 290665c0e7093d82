"""Level 2: two ideas together, a counter, or a nested loop."""

from components.environments.code.procedural.puzzle import integer, integers, puzzle, text, words

NUMBERS = integers(4, 9, 0, 40)


@puzzle(2, {"x": integers(5, 11, 0, 6)}, a=integer(2, 40))
def most_common(x: list[int], *, a: int) -> int:
    """{a} times the item that occurs most often in x, the smallest such item if there are several, plus how often it occurs"""
    best = min(set(x), key=lambda v: (-x.count(v), v))
    return a * best + x.count(best)


@puzzle(2, {"x": integers(6, 14, 0, 30)}, a=integer(0, 12), b=integer(2, 30))
def longest_climb(x: list[int], *, a: int, b: int) -> int:
    """{b} times the length of the longest stretch of x in which each item exceeds the one before by more than {a}"""
    longest = run = 1
    for i in range(1, len(x)):
        run = run + 1 if x[i] - x[i - 1] > a else 1
        longest = max(longest, run)
    return b * longest


@puzzle(2, {"x": integers(6, 12, 0, 30)}, a=integer(10, 45), b=integer(2, 30))
def pairs_below(x: list[int], *, a: int, b: int) -> int:
    """{b} times the number of pairs of items of x, at different places, with a sum of at most {a}"""
    return b * sum(x[i] + x[j] <= a for i in range(len(x)) for j in range(i))


@puzzle(2, {"s": text(5, 14, "abc")}, a=text(1, 2, ",;:-_+"))
def run_lengths(s: str, *, a: str) -> str:
    """the runs of equal letters in s, each as its letter and its length, with '{a}' between them"""
    runs = ""
    size = 0
    for i, c in enumerate(s):
        size += 1
        if s[i + 1 : i + 2] != c:
            runs += (a if runs else "") + c + str(size)
            size = 0
    return runs


@puzzle(2, {"n": integer(1, 5000)}, a=integer(2, 9), b=integer(0, 99))
def in_base(n: int, *, a: int, b: int) -> str:
    """n plus {b}, written in base {a}"""
    n += b
    digits = ""
    while n:
        digits = str(n % a) + digits
        n //= a
    return digits or "0"


@puzzle(2, {"x": NUMBERS}, a=integer(1, 6), b=integer(0, 30))
def rotated(x: list[int], *, a: int, b: int) -> list[int]:
    """x rotated to the left by {a} places, with each item replaced by the sum of itself, its right neighbour (for the last item
    the first one) and {b}"""
    k = a % len(x)
    y = x[k:] + x[:k]
    return [y[i] + y[(i + 1) % len(y)] + b for i in range(len(y))]


@puzzle(2, {"n": integer(20, 150)}, a=integer(2, 30))
def primes(n: int, *, a: int) -> int:
    """the sum of the primes up to n that are greater than {a}"""
    return sum(v for v in range(max(2, a + 1), n + 1) if all(v % d for d in range(2, int(v**0.5) + 1)))


@puzzle(2, {"x": integers(6, 12, 0, 40)}, a=integer(2, 5), b=integer(2, 30))
def best_window(x: list[int], *, a: int, b: int) -> int:
    """{b} times the largest sum of {a} neighbouring items of x"""
    return b * max(sum(x[i : i + a]) for i in range(len(x) - a + 1))


@puzzle(2, {"n": integer(1, 60)}, a=integer(2, 9), b=integer(3, 12))
def steps(n: int, *, a: int, b: int) -> int:
    """what becomes of n in {b} steps: halve it when it is even, else multiply it by {a} and add 1"""
    for _ in range(b):
        n = n // 2 if n % 2 == 0 else n * a + 1
    return n


@puzzle(2, {"w": words(3, 7)}, a=text(1, 2))
def by_length(w: list[str], *, a: str) -> list[str]:
    """the words of w sorted by length, shortest first and equal lengths in alphabetical order, each with '{a}' at its end"""
    return [v + a for v in sorted(w, key=lambda v: (len(v), v))]


@puzzle(2, {"n": integer(2, 400)}, a=integer(2, 40))
def divisors(n: int, *, a: int) -> int:
    """the number of divisors of n plus {a} times its smallest divisor above 1"""
    found = [d for d in range(1, n + 1) if n % d == 0]
    return len(found) + a * found[1]


@puzzle(2, {"x": NUMBERS, "y": NUMBERS}, a=integer(1, 20))
def merged(x: list[int], y: list[int], *, a: int) -> list[int]:
    """the items of x and, increased by {a}, those of y, all in ascending order and each value once"""
    return sorted({*x, *[v + a for v in y]})


@puzzle(2, {"s": text(4, 10, "abcdef"), "t": text(4, 10, "abcdef")}, a=integer(2, 30), b=integer(2, 9))
def common_letters(s: str, t: str, *, a: int, b: int) -> int:
    """{a} times the number of different letters that s and t share, plus {b} times the length of the longer one"""
    return a * len(set(s) & set(t)) + b * max(len(s), len(t))


@puzzle(2, {"w": words(4, 9, text(1, 2, "ab"))}, a=integer(2, 60))
def first_repeat(w: list[str], *, a: int) -> int:
    """{a} times the place (from 1) of the first word of w that occurred before, or 0 if none did, plus the number of different
    words"""
    seen: set[str] = set()
    place = 0
    for i, v in enumerate(w):
        if v in seen and not place:
            place = i + 1
        seen.add(v)
    return a * place + len(seen)
