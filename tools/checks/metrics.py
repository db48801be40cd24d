"""Metrics: docs/metrics.md has each row of the daemon's table and no other, and no other file names a metric that does not exist.

The table is src/api/metric_table.cc. Files that name metrics: the documents, the manual pages, and the alerts and the dashboard in
packaging/monitoring/, whose queries and texts may also use only labels that the metrics of the query have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from checks.tree import Finding, Tree, line_of

TABLE = "src/api/metric_table.cc"
PAGE = "docs/metrics.md"
_ROW = re.compile(r'\{"(pvrdma_\w+)",\s*k(Counter|Gauge),\s*"\w*",\s*"([\w,]*)",\s*((?:"[^"]*"\s*)+)\}')
_ROW_BEGIN = re.compile(r'\{"pvrdma_')
_DOCUMENTED = re.compile(r"^\| `(pvrdma_\w+)` \|.*$", re.MULTILINE)
MONITORING = "packaging/monitoring/"
# The labels that Prometheus adds.
_ADDED = {"instance", "job"}
_ALERT = re.compile(r"^ *- alert:.*?(?=^ *- alert:|\Z)", re.MULTILINE | re.DOTALL)
_ALERT_QUERY = re.compile(r"^ *expr:(.*?)(?=^ *(?:for|labels|annotations):)", re.MULTILINE | re.DOTALL)
_IN_QUERY = re.compile(r"\b(pvrdma_\w+)(?:\{([^}]*)\})?")
_MATCHED = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPED = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
_LISTED = re.compile(r"^label_values\(.*,\s*(\w+)\)$")
_SHOWN = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")
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
    yield from _monitoring(tree, rows)
    for path in (*tree.having(".md"), *(path for path in tree.files if path.startswith("docs/man/"))):
        if path in (PAGE, "CHANGELOG.md"):  # the changelog has former names, too
            continue
        text = tree.text(path)
        for named in _NAMED.finditer(text):
            if named[0] not in rows:
                yield Finding(path, line_of(text, named.start()), f"there is no metric {named[0]}", f"name one of {PAGE}")


@dataclass(frozen=True)
class _Query:
    line: int
    text: str
    shown: str = ""  # a legend or a sentence with labels in it


def _queries(path: str, text: str) -> Iterator[_Query]:
    if path.endswith(".json"):
        for panel in json.loads(text)["panels"]:
            for target in panel["targets"]:
                yield _Query(line_of(text, text.index(json.dumps(target["expr"]))), target["expr"], target["legendFormat"])
        for variable in json.loads(text)["templating"]["list"]:
            yield _Query(line_of(text, text.index(json.dumps(variable["query"]))), variable["query"])
        return
    for alert in _ALERT.finditer(text):
        query = _ALERT_QUERY.search(alert[0])
        yield _Query(line_of(text, alert.start()), query[1] if query else "", alert[0])


def _monitoring(tree: Tree, rows: dict[str, Metric]) -> Iterator[Finding]:
    for path in (path for path in tree.having(".json", ".yml") if path.startswith(MONITORING)):
        for query in _queries(path, tree.text(path)):
            named = _IN_QUERY.findall(query.text)
            if unknown := sorted({name for name, _ in named} - rows.keys()):
                yield from (Finding(path, query.line, f"there is no metric {name}", f"name one of {PAGE}") for name in unknown)
                continue
            known = _ADDED.union(*(rows[name].labels for name, _ in named))
            used: set[str] = set()
            for name, matchers in named:
                for label in set(_MATCHED.findall(re.sub(r'"[^"]*"', "", matchers))) - set(rows[name].labels) - _ADDED:
                    yield Finding(path, query.line, f"{name} has no label {label}", f"{PAGE} has its labels")
            for labels in _GROUPED.findall(query.text):
                used.update(label.strip() for label in labels.split(","))
            used.update(_LISTED.findall(query.text), _SHOWN.findall(query.shown))
            for label in sorted(used - known):
                yield Finding(path, query.line, f"no metric of the query has the label {label}", f"{PAGE} has their labels")


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
