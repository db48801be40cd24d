"""The repository as the checks see it: its text files, and findings in them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

# The folders to check. A build tree or a virtual environment beside them is skipped.
FOLDERS = ("bench", "cmake", "docs", "examples", "packaging", "src", "tests", "tools", "ui")
_VENDORED = ("third_party/web/clarity.css", "third_party/web/classes.txt")  # what a check reads of other people's files
_NO_TEXT = ("__pycache__", ".pytest_cache", "fuzz-corpus", "axe")
_COMMENT_LEADER = re.compile(r"^[ \t]*(?://+|#+|\*)[ \t]?", re.MULTILINE)


@dataclass(frozen=True, order=True)
class Finding:
    """One finding, as one line for a person and an editor."""

    path: str
    line: int
    what: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}; {self.way_out}"


class Tree:
    """The files below `root`, named by their paths relative to it, with slashes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        found = [path for path in root.iterdir() if path.is_file() and not path.name.startswith(".")]
        for folder in FOLDERS:
            found += [path for path in (root / folder).rglob("*") if path.is_file()]
        found += [path for path in (root / path for path in _VENDORED) if path.is_file()]
        names = (path.relative_to(root) for path in found)
        self.files = sorted(name.as_posix() for name in names if not set(name.parts) & set(_NO_TEXT))
        self._paths = frozenset(self.files)

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def having(self, *suffixes: str) -> list[str]:
        """The files whose names end with one of these suffixes."""
        return [path for path in self.files if path.endswith(suffixes)]

    @functools.cache
    def text(self, path: str) -> str:
        """The file's contents."""
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    @functools.cache
    def prose(self, path: str) -> str:
        """The file's contents without the comment markers at line starts, because a sentence may continue in the
        next line."""
        return self.text(path) if path.endswith(".md") else _COMMENT_LEADER.sub("", self.text(path))


def line_of(text: str, offset: int) -> int:
    """The number of the line in which `offset` lies."""
    return text.count("\n", 0, offset) + 1
