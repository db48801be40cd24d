"""Who may include whom: the table of docs/architecture.md, which this parses, against the sources.

Each folder of src/ with sources has a row. A row's last cell lists the folders that it may include: names of rows
("base, control/model"), "nothing of ours", or "all but" such a list. Tests and what only they use (_TEST_SOURCE) obey the row of
their folder too; besides, they may include tests/ and each other, which nothing else may.
"""

from __future__ import annotations

import graphlib
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

from checks.tree import Finding, Tree, line_of

TABLE = "docs/architecture.md"
_HEAD = re.compile(r"^\| *folder *\|.*\| *may include *\|\n\|[-| ]+\|\n", re.MULTILINE)
_FOLDER = re.compile(r"`src/([\w/]+)/`")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[\"<]([^\">\n]+)[\">]", re.MULTILINE)
_TEST_SOURCE = re.compile(r"(_test|_fuzz|_bench|_fixture|_testbed|_testing)\.(cc|h)$|/(fake|raw|test)_\w+\.(cc|h)$")
_TEST_LIBRARY = re.compile(r"(gtest|gmock|benchmark)/")
_WAY_OUT = f"ask an interface of a lower folder for it, or change the table in {TABLE}"


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    line: int
    may_include: frozenset[str]


def check(tree: Tree) -> list[Finding]:
    """Findings in the table and in the sources."""
    rows, findings = _read_table(tree)
    sources = [path for path in tree.having(".cc", ".h") if path.startswith("src/")]
    inhabited = {_folder_of(path, rows) for path in sources}
    for folder in sorted({posixpath.dirname(path).removeprefix("src/") for path in sources} - rows.keys()):
        first = next(path for path in sources if posixpath.dirname(path) == f"src/{folder}")
        findings.append(Finding(first, 1, f"src/{folder}/ is not in the table of who may include whom",
                                f"give it a row in {TABLE}"))
    for folder in sorted(rows.keys() - inhabited):
        findings.append(Finding(TABLE, rows[folder].line, f"src/{folder}/ has no sources", "remove its row"))
    findings += _circles(rows)
    for path in sources:
        findings += _check_source(tree, path, rows)
    return findings


def _read_table(tree: Tree) -> tuple[dict[str, Row], list[Finding]]:
    """The rows by folder, and the table's findings."""
    text = tree.text(TABLE) if TABLE in tree else ""
    head = _HEAD.search(text)
    if head is None:
        return {}, [Finding(TABLE, 1, "there is no table of who may include whom",
                            "write one with the columns folder and may include")]
    lines: dict[str, tuple[int, str]] = {}
    findings = []
    first = line_of(text, head.end())
    for number, line in enumerate(text[head.end():].split("\n\n")[0].splitlines(), first):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        folder = _FOLDER.fullmatch(cells[0])
        if folder is None:
            findings.append(Finding(TABLE, number, f"\"{cells[0]}\" is no folder of src/", "write it as `src/NAME/`"))
        else:
            lines[folder[1]] = number, cells[-1]
    rows = {}
    for folder, (number, cell) in lines.items():
        all_but = cell.startswith("all but ")
        listed = set() if cell == "nothing of ours" else set(cell.removeprefix("all but ").replace("`", "").split(", "))
        for unknown in sorted(listed - lines.keys()):
            findings.append(Finding(TABLE, number, f"src/{folder}/ may include \"{unknown}\", which has no row",
                                    "list names of rows, with commas, \"all but\" such a list, or \"nothing of ours\""))
        rows[folder] = Row(number, frozenset(lines.keys() - listed - {folder} if all_but else listed))
    return rows, findings


def _circles(rows: dict[str, Row]) -> list[Finding]:
    try:
        graphlib.TopologicalSorter({folder: row.may_include for folder, row in rows.items()}).prepare()
    except graphlib.CycleError as error:
        circle = [folder for folder in error.args[1] if folder in rows]
        return [Finding(TABLE, rows[circle[0]].line, f"the table has a circle: {', '.join(circle)}",
                        "let one of them no longer include another")]
    return []


def _folder_of(path: str, rows: dict[str, Row]) -> str | None:
    """The row of `path`: its folder, or the nearest folder above that has a row. None: not in src/."""
    folder = posixpath.dirname(path)
    while folder.startswith("src/"):
        name = folder.removeprefix("src/")
        if name in rows:
            return name
        folder = posixpath.dirname(folder)
    return None


def _check_source(tree: Tree, path: str, rows: dict[str, Row]) -> Iterator[Finding]:
    own = _folder_of(path, rows)
    is_test = _TEST_SOURCE.search(path) is not None
    text = tree.text(path)
    for include in _INCLUDE.finditer(text):
        line = line_of(text, include.start())
        target = _resolve(tree, path, include[1])
        if not is_test and (_TEST_LIBRARY.match(include[1]) or (target and _is_for_tests(target))):
            yield Finding(path, line, f"{include[1]} is for tests, and this file is not one of them",
                          "move what is needed out of it, or name this file as a test (_test, _fixture, fake_ ...)")
            continue
        other = _folder_of(target, rows) if target else None
        if own is None or other is None or other == own or other in rows[own].may_include:
            continue
        if is_test and _is_for_tests(target):
            continue
        yield Finding(path, line, f"src/{own}/ may not include {include[1]}", _WAY_OUT)


def _resolve(tree: Tree, path: str, name: str) -> str | None:
    """The file of this tree that `path` includes by `name`, found as compilers do. None: the file is not in this
    tree."""
    for folder in (posixpath.dirname(path), "src", "tests"):
        candidate = posixpath.normpath(posixpath.join(folder, name))
        if candidate in tree:
            return candidate
    return None


def _is_for_tests(path: str) -> bool:
    return path.startswith("tests/") or _TEST_SOURCE.search(path) is not None
