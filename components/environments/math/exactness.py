"""Comparisons that math-verify makes by rounding, or that hold for whatever has no solution, made exactly.

Constants are compared as fractions, or in more digits than their integers have. Equations are equal if they are multiples of
one another, or if they have solutions, and the same ones; what holds for all values or for none equals only itself.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from math_verify import grader  # type: ignore[import-untyped, unused-ignore]
from sympy import (
    Eq,
    FiniteSet,
    Float,
    Intersection,
    MatrixBase,
    MatrixExpr,
    Rational,
    Reals,
    Set,
    Symbol,
    expand,
    nan,
    oo,
    zoo,
)
from sympy import solve as solutions
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

_SAME_RELATION = grader.sympy_compare_relational
_SAME_FORM = grader.sympy_symbolic_eq
_SAME_NUMBER = grader.sympy_numeric_eq
_ABSOLUTE_TOLERANCE, _RELATIVE_TOLERANCE = Rational(1, 2_000_000), Rational(1, 500_000)
"""Of decimals, as between written-out numbers."""
_FIRST_DIGITS, _MAX_DIGITS = 30, 3000
_PLACES = ((Rational(7, 5), Rational(4, 13)), (Rational(19, 11), Rational(3, 17)))
"""Two points at which formulas are evaluated: the value of the first unknown, and the step to the next."""


def make_exact() -> None:
    """Let math-verify compare constants and relations by the functions of this module, in this process."""
    grader.sympy_numeric_eq = same_value
    grader.sympy_symbolic_eq = same_form
    grader.sympy_compare_relational = same_relation


def same_value(one: Any, other: Any, float_rounding: int, numeric_precision: int) -> bool:
    """Whether two expressions, matrices too, have the same value, as far as evaluating them can prove it.

    **Example** `2**-98` and `2**-99` differ; `sqrt(2)/2` and `0.7071068` do not.
    """
    if isinstance(one, MatrixBase | MatrixExpr) or isinstance(other, MatrixBase | MatrixExpr):
        one, other = grader.safe_sympy_doit(one), grader.safe_sympy_doit(other)
        if not isinstance(one, MatrixBase) or not isinstance(other, MatrixBase) or one.shape != other.shape:
            return False
        pairs = zip(one.flat(), other.flat(), strict=True)
        return all(grader.sympy_expr_eq(a, b, float_rounding, numeric_precision) for a, b in pairs)
    if grader.get_pct_val(one) is not None or grader.get_pct_val(other) is not None:
        return bool(_SAME_NUMBER(one, other, float_rounding, numeric_precision))
    try:
        return (
            _same_constant(one, other) if not _unknowns(one, other) else _same_everywhere(one, other, numeric_precision)
        )
    except Exception:  # the border to SymPy, which may raise anything: nothing is proved
        return False


def same_form(one: Any, other: Any) -> bool:
    """Whether SymPy simplifies the difference of two expressions to nothing, and their values do not tell otherwise."""
    if not _SAME_FORM(one, other):
        return False
    try:
        values = zip(_values(one, one, other), _values(other, one, other), strict=True)
        pairs = [(a.evalf(_FIRST_DIGITS), b.evalf(_FIRST_DIGITS)) for a, b in values]
        return not any(abs(a - b) > max(abs(a), abs(b)) * Rational(1, 10**12) for a, b in pairs)
    except Exception:  # the border to SymPy, which may raise anything: no value tells otherwise
        return True


def same_relation(one: Any, other: Any, float_rounding: int, numeric_precision: int) -> bool:
    """Whether two equations or inequalities, or chains of them, are equal."""
    if not isinstance(one, Relational) and not isinstance(other, Relational):
        links, others = one._unsorted_args, other._unsorted_args
        return len(links) == len(others) and all(
            same_relation(a, b, float_rounding, numeric_precision) for a, b in zip(links, others, strict=True)
        )
    if not isinstance(one, Relational) or not isinstance(other, Relational):
        return False
    same = partial(grader.sympy_expr_eq, float_rounding=float_rounding, numeric_precision=numeric_precision)
    if _is_about_nothing(one) or _is_about_nothing(other):
        return _same_sides(one, other, same)
    if isinstance(one, Eq) and isinstance(other, Eq):
        return _are_multiples(one, other, same) or (
            bool(_SAME_RELATION(one, other, float_rounding, numeric_precision)) and _has_solutions(one)
        )
    return bool(_SAME_RELATION(one, other, float_rounding, numeric_precision))


def may_be_compared(answer: Any, expected: Any) -> bool:
    """Whether an answer may equal an expected one of another kind: an equation of numbers must hold to count as its last side,
    and what has no solutions is no empty set, nor an equation that always holds the set of all numbers."""
    if grader.is_relation(answer) == grader.is_relation(expected):
        return True
    relation, value = (answer, expected) if grader.is_relation(answer) else (expected, answer)
    links = _links(relation)
    if isinstance(value, Set):
        is_listed = isinstance(value, FiniteSet) and len(value) > 0
        return not any(_is_about_nothing(link) and not _is_unbounded(link) for link in links) and (
            is_listed or not (value.is_empty or any(isinstance(link, Eq) for link in links))
        )
    return all(_unknowns(link.lhs, link.rhs) or _holds(link) for link in links)


def write_as_set(one: Any, other: Any) -> Any:
    """`one`, or where inequalities of polynomials in one unknown are compared to a set, the set for which they hold.

    **Example** `x^2 > -1` beside an interval is the set of all real numbers.
    """
    if not grader.is_relation(one) or not isinstance(other, Set):
        return one
    links = _links(one)
    if len(_unknowns(*(side for link in links for side in (link.lhs, link.rhs)))) != 1:
        return one
    sets = [_solve(link) for link in links]
    return one if None in sets else Intersection(*sets)


def _solve(link: Any) -> Any:
    """The set for which an inequality of polynomials in one unknown holds, with its decimals read as fractions and their
    results as decimals again; None for another relation."""
    if _is_unbounded(link):
        return Reals
    difference = link.lhs - link.rhs
    decimals = difference.atoms(Float)
    exact = difference.xreplace({each: Rational(str(each)) for each in decimals})
    if isinstance(link, Eq) or difference.atoms(AppliedUndef) or not exact.is_polynomial():
        return None
    found = type(link)(exact, 0, evaluate=False).as_set()
    return found.evalf(_FIRST_DIGITS) if decimals else found


def _is_unbounded(link: Any) -> bool:
    """Whether a relation tells that an unknown is finite, as `x < oo`."""
    sides = {link.lhs, link.rhs}
    return bool(sides & {oo, -oo}) and any(isinstance(side, Symbol) for side in sides) and not isinstance(link, Eq)


def _links(relation: Any) -> Sequence[Any]:
    return (relation,) if isinstance(relation, Relational) else relation._unsorted_args


def _same_constant(one: Any, other: Any) -> bool:
    if one.has(Float) and other.has(Float) and not isinstance(one, Float) and not isinstance(other, Float):
        one, other = (each.xreplace({part: Rational(str(part)) for part in each.atoms(Float)}) for each in (one, other))
    one, other = grader.safe_sympy_doit(one), grader.safe_sympy_doit(other)
    if one == other:
        return one not in (nan, zoo)
    if one.has(Float) or other.has(Float):
        first, second = one.evalf(_FIRST_DIGITS), other.evalf(_FIRST_DIGITS)
        most = min(_ABSOLUTE_TOLERANCE, _RELATIVE_TOLERANCE * abs(first))
        return bool(abs(first - second).evalf() <= most)
    if one.is_Rational and other.is_Rational:
        return bool(one == other)
    num_digits = sum(
        len(str(abs(each.p))) + len(str(each.q)) for value in (one, other) for each in value.atoms(Rational)
    )
    full = min(_MAX_DIGITS, 2 * _FIRST_DIGITS + 2 * num_digits)
    return all(_agree(one, other, digits) for digits in (_FIRST_DIGITS, full))


def _agree(one: Any, other: Any, digits: int) -> bool:
    """Whether two constants agree in `digits` digits; what is infinite does not.

    Raises PrecisionExhausted for one whose digits cancel out.
    """
    evaluated = [each.evalf(digits + 10, maxn=_MAX_DIGITS + 20, strict=True) for each in (one, other)]
    apart, size = abs(evaluated[0] - evaluated[1]), max(map(abs, evaluated))
    return bool(size > 0 and size.is_finite and apart.evalf(digits + 10) <= size * Rational(1, 10**digits))


def _same_everywhere(one: Any, other: Any, numeric_precision: int) -> bool:
    """Whether the difference of two formulas cancels out in floating point, and they agree at points."""
    difference = one - other
    if difference == 0:
        return True
    if difference.evalf(chop=True, n=numeric_precision) != 0:
        return False
    return all(_same_constant(a, b) for a, b in zip(_values(one, one, other), _values(other, one, other), strict=True))


def _unknowns(*parts: Any) -> list[Any]:
    """The variables of formulas and the functions that are not defined, such as `f(2)`, in one order."""
    found = {each for part in parts for each in part.atoms(AppliedUndef)}
    free = {each for part in parts for each in part.free_symbols}
    return sorted(found | free, key=str)


def _values(formula: Any, *with_unknowns_of: Any) -> tuple[Any, Any]:
    """The values of a formula at two points."""
    unknowns = sorted(_unknowns(*with_unknowns_of), key=lambda each: (not isinstance(each, AppliedUndef), str(each)))
    first, second = (
        formula.subs([(each, start + number * step) for number, each in enumerate(unknowns)]) for start, step in _PLACES
    )
    return first, second


def _is_about_nothing(relation: Any) -> bool:
    """Whether a relation holds for all values or for none, as far as its values tell: its sides differ by a constant."""
    if not _unknowns(relation.lhs, relation.rhs):
        return True
    difference = expand(relation.lhs - relation.rhs)
    if not _unknowns(difference):
        return True
    first, second = (value.evalf(_FIRST_DIGITS) for value in _values(difference, difference))
    return bool(abs(first - second) <= Rational(1, 10**20))


def _same_sides(one: Any, other: Any, same: Any) -> bool:
    """Whether two relations have equal sides, or are equalities of numbers that hold and have an equal last side.

    One whose sides are written alike, as `0=0`, equals no other.
    Sides with unknowns are equal as written but for the order of terms: those of an identity all have the value of the other.
    """
    if (one.lhs == one.rhs) != (other.lhs == other.rhs):
        return False
    sides = (one.lhs, one.rhs, other.lhs, other.rhs)
    as_same = (lambda a, b: bool(expand((a - b).doit()) == 0)) if _unknowns(*sides) else same
    if type(one) is type(other) and as_same(one.rhs, other.rhs):
        return bool(as_same(one.lhs, other.lhs)) or (_holds(one) and _holds(other))
    is_inverse = grader.INVERSE_RELATIONS.get(type(one)) is type(other)
    return is_inverse and as_same(one.lhs, other.rhs) and as_same(one.rhs, other.lhs)


def _holds(relation: Any) -> bool:
    """Whether an equality of numbers is proved."""
    return (
        isinstance(relation, Eq)
        and not _unknowns(relation.lhs, relation.rhs)
        and same_value(relation.lhs, relation.rhs, 6, 15)
    )


def _are_multiples(one: Any, other: Any, same: Any) -> bool:
    """Whether the differences of the sides of two equations have a constant ratio."""
    first, second = one.lhs - one.rhs, other.lhs - other.rhs
    (a, b), (c, d) = (_values(each, first, second) for each in (first, second))
    if not abs((a * d - b * c).evalf(_FIRST_DIGITS)) <= Rational(1, 10**20) * abs((a * d).evalf()) or c == 0:
        return False
    return bool(same(expand(first * c), expand(second * a)))


def _has_solutions(equation: Any) -> bool:
    return bool(solutions(equation, equation.free_symbols))
