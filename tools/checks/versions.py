"""Hardware versions of VMs in the documents: each list of them must be that of vocabulary/hardware_version.h.

A list is two or more numbers after the words "hardware version" with "to" or with three numbers or more, such as "13 to 15 and 17 to
21". The table of docs/device.md that begins with "VM hardware version" must have them in its first column. The changelog is history and
is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.tree import Finding, Tree, line_of

LIST = "src/vocabulary/hardware_version.h"
# These must have a list.
STATED_IN = ("README.md", "docs/device.md", "docs/man/pvrdmactl.1", "docs/man/pvrdmad.toml.5", "packaging/pvrdmad.toml")
_ENTRY = re.compile(r"VmHardwareVersion\{(\d+),")
_NUMBERS = r"\d{1,2}(?:(?:,? (?:and|or|to) |, )\d{1,2})+"
_STATED = re.compile(rf"hardware versions?(?: of [\w ]+)?[^.;|\d]{{0,60}}?\b({_NUMBERS})\b", re.IGNORECASE)
_TABLE = re.compile(r"^\| VM hardware version \|.*\n\|[- |]+\|\n((?:\|.*\n)+)", re.MULTILINE)
_MARKUP = re.compile(r"^\.\s*(?:Cm|It|Pq)\b|(?<=\s)(?:Cm|No|Ar)(?=\s)|[`*_#]", re.MULTILINE)


def check(tree: Tree) -> Iterator[Finding]:
    """Findings in documents, manual pages and packaging; none in a tree without the list."""
    if LIST not in tree:
        return
    listed = [int(number) for number in _ENTRY.findall(tree.text(LIST))]
    for path in tree.files:
        if path == "CHANGELOG.md" or not (path.endswith(".md") or path.startswith(("docs/man/", "packaging/"))):
            continue
        found = list(_lists(tree.text(path)))
        for line, numbers in found:
            if numbers != listed:
                yield Finding(path, line, f"hardware versions {_written(numbers)} are not those of {LIST}",
                              f"write {_written(listed)}")
        if path in STATED_IN and not found:
            yield Finding(path, 1, "the hardware versions are missing", f"write \"hardware versions\" and {_written(listed)}")


def _lists(text: str) -> Iterator[tuple[int, list[int]]]:
    for table in _TABLE.finditer(text):
        rows = [row.split("|")[1] for row in table[1].splitlines()]
        yield line_of(text, table.start()), _numbers(", ".join(rows))
    # Spaces in place of markup and line ends, so that each offset keeps its line.
    flat = _MARKUP.sub(lambda markup: " " * len(markup[0]), text)
    words = [(word.start(), word[0]) for word in re.finditer(r"\S+", flat)]
    starts: list[int] = []
    joined = ""
    for offset, word in words:
        word = f" {word}" if joined and word != "," else word
        joined += word
        starts += [offset] * len(word)
    for stated in _STATED.finditer(joined):
        if " to " in stated[1] or len(re.findall(r"\d+", stated[1])) > 2:
            yield line_of(text, starts[stated.start(1)]), _numbers(stated[1])


def _numbers(text: str) -> list[int]:
    """13 to 15, 17: 13, 14, 15, 17."""
    found: list[int] = []
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", text):
        found += range(int(first), int(last or first) + 1)
    return found


def _written(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
