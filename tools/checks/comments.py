"""The comments of a source, as blocks: a phrase may go on from one line of a block to the next.

A block is one or more lines with nothing but a comment. It may begin behind code; the next lines then have their markers in the
same column. A docstring of Python is a block, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_C = re.compile(r"(?<!:)//+[!/]?<?")
_HASH = re.compile(r"(?<!\S)#+!?")
_C_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)'")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_PYTHON = re.compile(r"#!.*\bpython")
_SHELL = re.compile(r"#!.*\b(?:ba|da)?sh\b")


@dataclass
class Block:
    """A comment without its markers; `line` is the number of its first line."""

    line: int
    text: str


def of(path: str, text: str) -> list[Block]:
    """The comments of a C++, Python, shell or CMake source, or of a makefile; none of any other file."""
    if path.endswith((".cc", ".h", ".c")):
        return list(_blocks(text, _C, _C_QUOTED))
    if path.endswith(".py") or _PYTHON.match(text):
        return [*_blocks(text, _HASH, _QUOTED), *_docstrings(text)]
    if path.endswith((".sh", ".cmake", "CMakeLists.txt", "Makefile")) or _SHELL.match(text):
        return list(_blocks(text, _HASH, _QUOTED))
    return []


def _blocks(text: str, marker: re.Pattern[str], quoted: re.Pattern[str]) -> Iterator[Block]:
    block, column = None, -1
    for number, line in enumerate(text.splitlines(), 1):
        begin = marker.search(line)
        if begin and ("\"" in line or "'" in line):
            begin = marker.search(quoted.sub(lambda text: "_" * len(text[0]), line))
        is_alone = begin is not None and not line[:begin.start()].strip()
        if block and not (is_alone and begin.start() == column):
            yield block
            block = None
        if begin and block:
            block.text += "\n" + line[begin.end():]
        elif begin:
            block, column = Block(number, line[begin.end():]), begin.start()
    if block:
        yield block


def _docstrings(text: str) -> Iterator[Block]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node):
            yield Block(node.body[0].lineno, node.body[0].value.value)
