"""Level 3: small simulations and recurrences."""

from components.environments.code.procedural.puzzle import integer, integers, numbered, puzzle, text, words


@puzzle(3, {"n": integer(0, 30), "w": words(3, 8, numbered("+-*", 1, 9))}, a=integer(50, 500))
def calculator(n: int, w: list[str], *, a: int) -> int:
    """what a calculator shows that starts from n and follows the commands w: +3 adds 3, -3 subtracts 3, *3 multiplies by 3;
    after each command the number is taken modulo {a}"""
    for command in w:
        v = int(command[1:])
        if command[0] == "+":
            n += v
        elif command[0] == "-":
            n -= v
        else:
            n *= v
        n %= a
    return n


@puzzle(3, {"s": text(6, 20, "UDLR")}, a=integer(3, 19), b=integer(3, 19))
def robot(s: str, *, a: int, b: int) -> list[int]:
    """the final column and row of a robot that starts in column 0, row 0 of a field of {a} columns and {b} rows and follows
    s: U is one row less, D one more, L one column less, R one more; who leaves the field comes back on the other side"""
    column = row = 0
    for c in s:
        column = (column + (c == "R") - (c == "L")) % a
        row = (row + (c == "D") - (c == "U")) % b
    return [column, row]


@puzzle(3, {"x": integers(4, 12, 1, 20)}, a=integer(2, 5), b=integer(0, 40))
def counters(x: list[int], *, a: int, b: int) -> int:
    """the minute at which the last customer is served, when {a} counters open at minute {b} and the customers, served in order
    and each for as many minutes as x says, go to the counter that is free first"""
    free = [b] * a
    for minutes in x:
        free.sort()
        free[0] += minutes
    return max(free)


@puzzle(3, {"n": integer(1, 60)}, a=integer(2, 12), b=integer(13, 30))
def coins(n: int, *, a: int, b: int) -> int:
    """in how many ways coins of 1, {a} and {b} can sum up to n, when their order does not matter"""
    return sum((n - i * b - j * a) >= 0 for i in range(n // b + 1) for j in range(n // a + 1))


@puzzle(3, {"n": integer(3, 24)}, a=integer(2, 4), b=integer(5, 7), c=integer(50, 150))
def stairs(n: int, *, a: int, b: int, c: int) -> int:
    """in how many ways, modulo {c}, one can climb n stairs with steps of 1, {a} or {b} stairs, when the order matters"""
    ways = [1]
    for i in range(1, n + 1):
        ways.append(sum(ways[i - step] for step in (1, a, b) if step <= i))
    return ways[n] % c


@puzzle(3, {"s": text(8, 20, "()")}, a=integer(2, 30), b=integer(2, 9))
def brackets(s: str, *, a: int, b: int) -> int:
    """{a} times the largest number of brackets that are open at once in s, plus {b} times the number of closing ones without a
    partner"""
    depth = deepest = unmatched = 0
    for c in s:
        if c == "(":
            depth += 1
            deepest = max(deepest, depth)
        elif depth:
            depth -= 1
        else:
            unmatched += 1
    return a * deepest + b * unmatched


@puzzle(3, {"n": integer(3, 40)}, a=integer(2, 12), b=integer(0, 9))
def circle(n: int, *, a: int, b: int) -> int:
    """{b} plus the number of the last person left, when n people, numbered from 1, stand in a circle and, counting from number
    1 on, always the one who is counted as {a} leaves and the count starts anew with the next"""
    people = list(range(1, n + 1))
    place = 0
    while len(people) > 1:
        place = (place + a - 1) % len(people)
        people.pop(place)
    return people[0] + b


@puzzle(3, {"n": integer(2, 60)}, a=integer(1, 9), b=integer(1, 9), c=integer(50, 999))
def recurrence(n: int, *, a: int, b: int, c: int) -> int:
    """term number n of the sequence that starts with 0 (number 0) and 1 (number 1), where each further term is {a} times the
    term before plus {b} times the one before that, modulo {c}"""
    p, q = 0, 1
    for _ in range(n - 1):
        p, q = q, (a * q + b * p) % c
    return q


@puzzle(3, {"s": text(6, 14, ".#")}, a=integer(1, 254), b=integer(1, 5))
def automaton(s: str, *, a: int, b: int) -> str:
    """s after {b} steps of a cellular automaton on a ring: a cell's new value is bit number 4*l+2*c+r of {a} (bit 0 is the
    lowest), where l, c and r are 1 if the left neighbour, the cell and the right neighbour are '#' and 0 if they are '.'"""
    for _ in range(b):
        v = [c == "#" for c in s]
        m = len(v)
        s = "".join(".#"[a >> (4 * v[i - 1] + 2 * v[i] + v[(i + 1) % m]) & 1] for i in range(m))
    return s


@puzzle(3, {"x": integers(6, 12, 0, 40)}, a=integer(0, 5), b=integer(2, 40))
def longest_rising(x: list[int], *, a: int, b: int) -> int:
    """{b} times the largest number of items that can be kept of x, in order, so that each exceeds the kept one before by more
    than {a}"""
    best: list[int] = []
    for i, v in enumerate(x):
        best.append(1 + max([best[j] for j in range(i) if v - x[j] > a], default=0))
    return b * max(best)


@puzzle(3, {"s": text(3, 8, "abcd"), "t": text(3, 8, "abcd")}, a=integer(2, 12), b=integer(2, 20))
def edits(s: str, t: str, *, a: int, b: int) -> int:
    """the lowest cost of turning s into t, when inserting or deleting a letter costs {a} and replacing one costs {b}"""
    costs = [j * a for j in range(len(t) + 1)]
    for i, c in enumerate(s):
        above = costs
        costs = [(i + 1) * a]
        for j, d in enumerate(t):
            costs.append(min(above[j] + b * (c != d), above[j + 1] + a, costs[j] + a))
    return costs[-1]


@puzzle(3, {"x": integers(3, 9, 1, 50)}, a=integer(10, 40), b=integer(2, 9))
def tank(x: list[int], *, a: int, b: int) -> list[int]:
    """the level of a tank after each day, when it starts empty, each day takes the rain in x up to its capacity of {a}, what is
    more is lost, and then gives {b}, or all that is in it if that is less"""
    level = 0
    levels: list[int] = []
    for rain in x:
        level = max(0, min(a, level + rain) - b)
        levels.append(level)
    return levels
