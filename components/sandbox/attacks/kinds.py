"""The common kinds of attacks."""

import re
from collections.abc import Collection
from dataclasses import replace

from components.sandbox.attacks.base import SHORT, Attack, Judge, probing
from components.sandbox.attacks.grading import expect_refused, heard, nothing_left
from components.schema import Execution, ExecutionStatus, Limits

_ATTEMPT = re.compile(r'^(?:attempt|notice)\("([^"\n]+)",', re.MULTILINE)


def attack(
    name: str,
    tries: str,
    program: str,
    judge: Judge,
    *,
    limits: Limits = SHORT,
    stdin: str = "",
    outputs: tuple[str, ...] = (),
) -> Attack:
    """An attack by one program."""
    job = Execution(program=program, stdin=stdin, outputs=outputs, limits=limits)
    return Attack(name=name, tries=tries, jobs=(job,), judge=judge)


def probe(
    name: str,
    tries: str,
    body: str,
    *more: str,
    by: Collection[str] | None = None,
    ended: Collection[ExecutionStatus] = (),
    limits: Limits = SHORT,
    **values: object,
) -> Attack:
    """An attack by one probing program, which must make every attempt of `attempts_in(body)` and `more` and succeed in none.

    See `expect_refused` for `by` and `ended`, `probing` for `values`.
    """
    judge = expect_refused(*attempts_in(body), *more, by=by, ended=ended)
    return attack(name, tries, probing(body, **values), judge, limits=limits)


def leaving(
    name: str,
    tries: str,
    program: str,
    look: str,
    *more: str,
    judge: Judge | None = None,
    limits: Limits = SHORT,
    **values: object,
) -> Attack:
    """An attack by one program that leaves something behind, and a probing one that looks for it in every box.

    The default judge wants every attempt of `attempts_in(look)` and `more` made and refused.
    """
    made = attack(name, tries, program, judge or nothing_left(*attempts_in(look), *more), limits=limits)
    return replace(made, look=Execution(program=probing(look, **values), limits=SHORT))


def at_once(
    name: str, tries: str, first: str, second: str, *more: str, judge: Judge | None = None, **values: object
) -> Attack:
    """An attack by two probing programs at the same time.

    The default judge wants every attempt of `attempts_in(second)` and `more` made and refused.
    """
    return Attack(
        name=name,
        tries=tries,
        jobs=tuple(Execution(program=probing(body, **values), limits=SHORT) for body in (first, second)),
        judge=judge or heard(*attempts_in(second), *more),
        at_once=True,
    )


def attempts_in(body: str) -> tuple[str, ...]:
    """The names of the attempts and notices that `body` makes unconditionally: on an unindented line, by a literal name."""
    return tuple(_ATTEMPT.findall(body))
