"""How documents and comments are written: lines that fit a window, and none of the words that this project decided against.

A line of a document has 100 columns at most. Not counted: tables, code, headings, and a line without a space to break at.
A comment in packaging/, which administrators read, has 120 columns at most.
The words are looked for in the documents, the manual pages and the packaging, and in comments and docstrings (comments.py), but not
in code or backticks. CONTRIBUTING.md says how we write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks import comments
from checks.tree import Finding, Tree, line_of

_COLUMNS = 100
_COMMENT_COLUMNS = 120
_CODE = re.compile(r"^[ \t]*```.*?^[ \t]*```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^[ \t]*```.*?^[ \t]*```", re.MULTILINE | re.DOTALL)
_NEVER_WRAPPED = re.compile(r"[ \t]*\||#|[ \t]*(?:(?:[-*]|\d+\.)[ \t]+)?\S+$")

# What was written, as a pattern, and what to write.
_WORDS = (
    (r"anew", "write \"again\""),
    (r"as said", "leave it out, or name it"),
    (r"what is not", "name the thing"),
    (r"so many", "give the number, or the bound"),
    (r"(?<!there\s)(?:is|are) none(?!\sof)", "write \"invalid\", \"missing\" or what it lacks"),
    (r"(?:by|for|from|of|to|with) who", "name the actor: the caller, the guest, the peer"),
    (r"finds? no room|found no room", "write \"was full\", or \"was dropped\""),
    (r"(?:VMs?|guests?) (?:stands?|stood)", "write \"is paused\" or \"is stunned\""),
)
_WORD = [(re.compile(rf"\b{words}\b".replace(" ", r"\s+"), re.IGNORECASE), way_out) for words, way_out in _WORDS]


def check(tree: Tree) -> Iterator[Finding]:
    """Findings in documents, manual pages, packaging, and comments."""
    documents = tree.having(".md")
    for path in documents:
        yield from _lines(tree, path)
    for path in tree.files:
        if path.startswith("packaging/"):
            yield from _comment_lines(tree, path)
    texts = (*documents, *(path for path in tree.files if path.startswith(("docs/man/", "packaging/"))))
    for path in texts:
        yield from _words(path, 1, tree.prose(path))
    for path in tree.files:
        if path in texts:
            continue
        for block in comments.of(path, tree.text(path)):
            yield from _words(path, block.line, block.text)


def _words(path: str, first_line: int, text: str) -> Iterator[Finding]:
    text = _blanked(_CODE, text)
    for pattern, way_out in _WORD:
        for words in pattern.finditer(text):
            said = " ".join(words[0].split())
            yield Finding(path, first_line - 1 + line_of(text, words.start()), f"\"{said}\" is not how we write", way_out)


def _lines(tree: Tree, path: str) -> Iterator[Finding]:
    for number, line in enumerate(_blanked(_FENCE, tree.text(path)).splitlines(), 1):
        columns = len(line.rstrip())
        if columns > _COLUMNS and not _NEVER_WRAPPED.match(line):
            yield Finding(path, number, f"{columns} columns", f"wrap it at {_COLUMNS}")


def _comment_lines(tree: Tree, path: str) -> Iterator[Finding]:
    for number, line in enumerate(tree.text(path).splitlines(), 1):
        if line.lstrip().startswith("#") and len(line) > _COMMENT_COLUMNS:
            yield Finding(path, number, f"a comment of {len(line)} columns", f"wrap it at {_COMMENT_COLUMNS}")


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """The text with spaces in place of what matches; each line keeps its number."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
