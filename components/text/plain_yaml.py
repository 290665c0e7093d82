"""YAML that holds what JSON holds: each key once, numbers as people write them, and dates as text."""

import re
from contextlib import suppress
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

_TAG = "tag:yaml.org,2002:"
_NUMBERS = {
    f"{_TAG}int": re.compile(r"[-+]?(?:0|[1-9][0-9_]{0,999}|0x[0-9a-fA-F]{1,800})\Z"),
    f"{_TAG}float": re.compile(
        r"(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
}
_READ = (*_NUMBERS, f"{_TAG}bool", f"{_TAG}null")
"""What a scalar is by its form."""
_KNOWN = {*_READ, *(f"{_TAG}{name}" for name in ("str", "seq", "map", "merge"))}
_BREAK = re.compile("[\\n\\r\\x85\\u2028\\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Plain(yaml.SafeLoader):
    """PyYAML's parser with the numbers of YAML 1.2: 1e-5 is one, 010 and 1:30 are text, as dates are."""


class _FastPlain(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The same in C, where PyYAML was built with it: every command reads all presets."""


class _Writer(yaml.SafeDumper):
    """Puts text in quotes that the readers would take for something else, and breaks no line."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """The text, with its line breaks as escapes."""
        style = '"' if _BREAK.search(data) else None
        return self.represent_scalar(f"{_TAG}str", data, style=style)


_Writer.add_representer(str, _Writer.represent_str)
for _kind in (_Plain, _FastPlain, _Writer):
    _kind.yaml_implicit_resolvers = {
        first: [(tag, _NUMBERS.get(tag, form)) for tag, form in forms if tag in _KNOWN]
        for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_yaml(text: str) -> Any:
    """The one value in a text, of dicts, lists, text, numbers, booleans and None.

    Raises yaml.YAMLError, where it can with `problem_mark`: for what is no YAML, a key that stands twice, a tag of other
    values, and a list that holds itself. A key may replace one that `<<` brings.

    **Example** "{rate: 1e-5, day: 2026-02-30}" is {"rate": 1e-5, "day": "2026-02-30"}.
    """
    try:
        with suppress(yaml.YAMLError):
            return _read(_FastPlain(text))
        return _read(_Plain(text))  # which names what is wrong better
    except RecursionError as error:
        raise yaml.YAMLError("nested too deeply") from error
    except UnicodeError as error:
        raise yaml.YAMLError("holds half a character; write it in UTF-8") from error


def write_yaml_line(value: Any) -> str:
    """A value in one line, which `read_yaml` reads as the same. Raises yaml.YAMLError for an object that JSON does not have.

    **Example** {"rate": 1e-05, "name": "1e5"} is "{name: '1e5', rate: 1.0e-05}".
    """
    return yaml.dump(value, Dumper=_Writer, default_flow_style=True, width=float("inf")).removesuffix("...\n").strip()


def _read(loader: yaml.SafeLoader) -> Any:
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check(node, loader)
        loader.deep_construct = True
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check(root: Node, loader: yaml.SafeLoader) -> None:
    """Raise ConstructorError for the first key that stands twice, or value that JSON does not have."""
    rest, known = [root], {id(root)}
    while rest:
        node = rest.pop()
        if node.tag not in _KNOWN:
            kind = node.tag.removeprefix(_TAG)
            raise _refuse(node, f"{kind!r} is no kind of value here; write text, a number, a list")
        if isinstance(node, ScalarNode):
            form = loader.resolve(ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]
            if node.tag in _READ and form != node.tag and (form, node.tag) != tuple(_NUMBERS):
                raise _refuse(node, f"{node.value!r} is no {node.tag.removeprefix(_TAG)}")
            if _SURROGATE.search(node.value):
                raise _refuse(node, f"{node.value!r} holds half a character; write it in UTF-8")
            continue
        if isinstance(node, MappingNode):
            _check_keys(node)
        inner = [part for each in node.value for part in (each if isinstance(each, tuple) else (each,))]
        rest += [each for each in reversed(inner) if id(each) not in known]
        known |= {id(each) for each in inner}


def _check_keys(node: MappingNode) -> None:
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if not isinstance(key, ScalarNode):
            raise _refuse(key, "a key is a name; put a value in double braces in quotes")
        if key.tag == f"{_TAG}merge":
            continue
        if (key.tag, key.value) in lines:
            raise _refuse(key, f"{key.value!r} stands here and in line {lines[key.tag, key.value]}")
        lines[key.tag, key.value] = key.start_mark.line + 1


def _refuse(node: Node, problem: str) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
