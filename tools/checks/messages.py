"""Messages of the product that documents quote: each must be in the sources.

A document quotes messages in tables whose first column is headed "message", in backticks: `adapter VM-01: link down`. A message
stands for a string literal of src/, in which each {} of the format matches any text. A message that the product puts together from
several literals is quoted by one of them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from checks.tree import Finding, Tree

_SPAN = re.compile(r"`([^`\n]+)`")
_LITERALS = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*')
_PIECES = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_LEAST_TEXT = 12  # characters of a literal besides its placeholders: "{}: {}" stands for no message


def check(tree: Tree) -> Iterator[Finding]:
    """Findings in documents."""
    for path in tree.having(".md"):
        is_table = False
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if not line.startswith("|"):
                is_table = False
                continue
            first = line.split("|", 2)[1].strip()
            if first == "message":
                is_table = True
            elif is_table:
                for message in _SPAN.findall(first):
                    if not any(literal.fullmatch(message) for literal in _literals(tree)):
                        yield Finding(path, number, f"no literal in src/ is the message \"{message}\"",
                                      "quote one as the product writes it")


@functools.cache
def _literals(tree: Tree) -> tuple[re.Pattern[str], ...]:
    """The literals of the product's sources, adjacent ones together, as patterns."""
    texts = set()
    for path in tree.having(".cc", ".h"):
        if path.startswith("src/") and "_test." not in path:
            for literals in _LITERALS.findall(tree.text(path)):
                texts.add("".join(_PIECES.findall(literals)).replace('\\"', '"').strip())
    return tuple(re.compile(_pattern(text)) for text in sorted(texts) if len(_PLACEHOLDER.sub("", text)) >= _LEAST_TEXT)


def _pattern(literal: str) -> str:
    return ".*".join(re.escape(part) for part in _PLACEHOLDER.split(literal))
