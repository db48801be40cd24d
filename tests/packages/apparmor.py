"""The files that an AppArmor profile allows, and those that a process used: rules as apparmor_parser prints them with all
includes, and calls as strace prints them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

_RULE = re.compile(r"^\s*(?:owner\s+)?((?:/|@\{)\S*)\s+([a-zA-Z]+)\s*,", re.MULTILINE)
_VARIABLE = re.compile(r"@\{\w+\}")
_CALL = re.compile(r"\b(openat|bind|connect|mkdir|rmdir|unlink|chmod|lchown|rename)\((.*)")
_NUMBERS = {"@{pid}": "[1-9]*", "@{pids}": "[1-9]*", "@{tid}": "[1-9]*"}


class Profile:
    """The file rules of a profile."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"(^|\s)#.*", "", text)
        self._variables: dict[str, list[str]] = {name: [value] for name, value in _NUMBERS.items()}
        for name, values in re.findall(r"^\s*(@\{\w+\})\s*\+?=\s*(.*)$", text, re.MULTILINE):
            if name not in _NUMBERS:
                self._variables.setdefault(name, []).extend(values.replace('"', "").split())
        self._rules = [(_pattern(path), rights) for glob, rights in _RULE.findall(text) for path in self._expand(glob)]

    def allows(self, path: str, rights: str) -> bool:
        """Whether all rights (letters) are allowed for a path. A folder's path ends with a slash."""
        return all(any(right in given and pattern.fullmatch(path) for pattern, given in self._rules) for right in rights)

    def _expand(self, glob: str) -> Iterator[str]:
        used = _VARIABLE.search(glob)
        if used is None:
            yield re.sub("//+", "/", glob)
            return
        for value in self._variables.get(used[0], []):
            yield from self._expand(glob[:used.start()] + value + glob[used.end():])


def used(trace: str) -> set[tuple[str, str]]:
    """The absolute paths that calls of a trace used with success, each with the rights that it took. AppArmor asks nothing
    when a path is only looked up (O_PATH), and resolves /proc/self/fd."""
    found = set()
    for line in trace.splitlines():
        call = _CALL.search(line)
        path = call and re.search(r'"(/[^"]*)"', call[2])
        if not call or not path or re.search(r"= -1|O_PATH|/proc/self/fd/", line):
            continue
        name = path[1].replace("/proc/self/", "/proc/1/").rstrip("/")
        is_folder = "O_DIRECTORY" in line or call[1] in ("mkdir", "rmdir")
        rights = "r" if "O_RDONLY" in line else "w" if call[1] != "openat" or "O_WRONLY" in line else "rw"
        found.add((name + "/" * is_folder, rights))
    parents = {str(parent) for name, _ in found for parent in PurePosixPath(name).parents}
    return {(name + "/" * (name in parents), rights) for name, rights in found}


def _pattern(glob: str) -> re.Pattern[str]:
    words = {"**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}
    return re.compile(re.sub(r"\*\*|[*?{},]|\[[^]]*\]|.", lambda found: words.get(found[0]) or
                             (found[0] if found[0].startswith("[") else re.escape(found[0])), glob))
