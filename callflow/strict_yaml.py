"""Reads YAML strictly: every value is text, no key stands twice, and each key knows its line.

YAML's own readers turn `no` into False and take the last of two equal keys without a word; a site
would lose its number that way. Types are for whoever reads the result.
"""

from __future__ import annotations

from typing import Any, NoReturn

import yaml

from callflow.errors import CallflowError

# libyaml where PyYAML was built with it: eight times faster.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

DEEPEST = 8
"""How far a list may stand in a list; an alias that holds itself has no end."""


class YamlError(CallflowError):
    """A text that cannot be used: its line, from 1, and what is wrong there."""

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"line {line} {reason}")


class YamlMapping(dict[str, Any]):
    """A mapping; `line`: where it begins, `lines`: where each of its keys stands."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


class YamlList(list[Any]):
    """A list; `lines`: where each of its values begins."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[int] = []


def parse(text: str, *, first_line: int = 1, anchors: bool = True) -> Any:
    """A string, YamlMapping or YamlList; None where there is nothing. Raises YamlError.

    `first_line`: which line of its file `text` begins with. Without `anchors` an alias is refused.
    """
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        before = getattr(error, "position", 0) if mark is None else mark.index
        reason = getattr(error, "problem", None) or getattr(error, "reason", "")
        line = text.count("\n", 0, before) + first_line
        raise YamlError(line, f"is no YAML: {reason or 'write `key: value` lines'}") from error
    except (RecursionError, ValueError) as error:
        raise YamlError(first_line, "is no YAML: write `key: value` lines") from error
    return None if root is None else _Parser(first_line, anchors).value(root, 1)


def line_of(value: Any, where: tuple[str | int, ...], line: int) -> int:
    """The line of what stands at `where`, as far as that leads into `value`; else `line`."""
    for step in where:
        if isinstance(value, YamlMapping) and step in value:
            line = value.lines[str(step)]
        elif isinstance(value, YamlList) and isinstance(step, int) and step < len(value):
            line = value.lines[step]
        else:
            break
        value = value[step]
    return line


class _Parser:
    def __init__(self, first_line: int, anchors: bool) -> None:
        self._first_line = first_line
        self._anchors = anchors
        self._seen: set[int] = set()

    def value(self, node: yaml.Node, depth: int) -> Any:
        if not self._anchors:
            if id(node) in self._seen:
                self._refuse(node, "has an alias; write the value out")
            self._seen.add(id(node))
        if isinstance(node, yaml.ScalarNode):
            return str(node.value)
        if depth > DEEPEST:
            self._refuse(node, "has lists too deep in one another")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, depth)
        found = YamlList()
        for each in node.value:
            found.lines.append(self._line(each))
            found.append(self.value(each, depth + 1))
        return found

    def _mapping(self, node: yaml.MappingNode, depth: int) -> YamlMapping:
        found = YamlMapping(self._line(node))
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value:
                self._refuse(key, "has a key that is no plain word; write `key: value`")
            if key.value in found:
                self._refuse(key, f"has {key.value} twice in one entry; keep one of them")
            found.lines[key.value] = self._line(key)
            found[key.value] = self.value(value, depth + 1)
        return found

    def _line(self, node: yaml.Node) -> int:
        return int(node.start_mark.line) + self._first_line

    def _refuse(self, node: yaml.Node, reason: str) -> NoReturn:
        raise YamlError(self._line(node), reason)
