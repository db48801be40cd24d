"""Metrics: docs/metrics.md has each row of the daemon's table and no other, and no other file names a metric that does not exist.

The table is src/api/metric_table.cc. Files that name metrics: the documents and the manual pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from checks.tree import Finding, Tree, line_of

TABLE = "src/api/metric_table.cc"
PAGE = "docs/metrics.md"
_ROW = re.compile(r'\{"(pvrdma_\w+)",\s*k(Counter|Gauge),\s*"\w*",\s*"([\w,]*)",\s*((?:"[^"]*"\s*)+)\}')
_ROW_BEGIN = re.compile(r'\{"pvrdma_')
_DOCUMENTED = re.compile(r"^\| `(pvrdma_\w+)` \|.*$", re.MULTILINE)
# The endings by which a name is known to be that of a metric.
_NAMED = re.compile(r"\bpvrdma_\w+_(?:total|bytes|seconds|info|use|limit|up|connected|listening|state|objects)\b")


@dataclass(frozen=True, order=True)
class Metric:
    """A row of the table."""

    name: str
    type: str  # "counter", "gauge"
    labels: tuple[str, ...]
    help: str

    def as_documented(self) -> str:
        """Its row in docs/metrics.md."""
        labels = ", ".join(f"`{label}`" for label in self.labels)
        return f"| `{self.name}` | {self.type} | {labels} | {self.help} |"


def table(tree: Tree) -> list[Metric]:
    """The rows. ValueError: one of them cannot be read."""
    text = tree.text(TABLE)
    rows = [Metric(name, kind.lower(), tuple(labels.split(",")) if labels else (), "".join(re.findall(r'"([^"]*)"', said)))
            for name, kind, labels, said in _ROW.findall(text)]
    if len(rows) != len(_ROW_BEGIN.findall(text)):
        raise ValueError(f"{TABLE} has {len(_ROW_BEGIN.findall(text))} rows, and {len(rows)} have the form of a row")
    return rows


def check(tree: Tree) -> Iterator[Finding]:
    """Findings in the documents."""
    if TABLE not in tree:
        return
    rows = {row.name: row for row in table(tree)}
    yield from _page(tree, rows)
    for path in (*tree.having(".md"), *(path for path in tree.files if path.startswith("docs/man/"))):
        if path in (PAGE, "CHANGELOG.md"):  # the changelog has former names, too
            continue
        text = tree.text(path)
        for named in _NAMED.finditer(text):
            if named[0] not in rows:
                yield Finding(path, line_of(text, named.start()), f"there is no metric {named[0]}", f"name one of {PAGE}")


def _page(tree: Tree, rows: dict[str, Metric]) -> Iterator[Finding]:
    text = tree.text(PAGE)
    seen: set[str] = set()
    for documented in _DOCUMENTED.finditer(text):
        name, line = documented[1], line_of(text, documented.start())
        if name not in rows:
            yield Finding(PAGE, line, f"there is no metric {name}", f"remove its row, or add one to {TABLE}")
        elif documented[0] != rows[name].as_documented():
            yield Finding(PAGE, line, f"{name} differs from {TABLE}", f"write {rows[name].as_documented()}")
        elif name in seen:
            yield Finding(PAGE, line, f"{name} has two rows", "remove one")
        seen.add(name)
    for name in sorted(rows.keys() - seen):
        yield Finding(PAGE, 1, f"{name} has no row", f"write {rows[name].as_documented()}")
