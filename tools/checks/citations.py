"""Citations of documents, their sections and decisions: in comments, in scripts and in the documents themselves.

| cited as                                        | has to be there                                  |
|-------------------------------------------------|--------------------------------------------------|
| `docs/*.md`, `*.md`                             | the document: beside the file that cites, at the root or in docs/ |
| `docs/*.md 4.2`, `*.md section 4`               | a heading of the document with that number       |
| `reference 4.2`, `reference, appendix A`        | a heading of docs/device.md                      |
| `ADR 7`                                         | docs/adr/0007-*.md                               |
| `§4.2` in a document                            | a heading of that document                       |
| a link of a document, with or without `#anchor` | the file or folder, and the heading              |
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterator

from checks.tree import Finding, Tree, line_of

REFERENCE = "docs/device.md"
_SPEAKING = (".cc", ".h", ".py", ".md", ".txt", ".cmake", ".sh", ".toml", ".service", ".c")
_NUMBER = r"(?:\d+(?:\.\d+)*|[Aa]ppendix [A-Z])"
_NUMBERS = rf"{_NUMBER}(?:(?:,?\s+(?:and|to|or)\s+|,\s+|\s?[-–]\s?){_NUMBER})*"
_DOCUMENT = re.compile(r"(?<![\w./<-])((?:\.\./)*(?:[\w-]+/)*[\w.-]+\.md)\b"
                       rf"(?:,?\s+((?:sections?\s+)?{_NUMBERS}))?")
_OF_REFERENCE = re.compile(rf"\breference,?\s+(?:sections?\s+)?({_NUMBERS})", re.IGNORECASE)
_DECISION = re.compile(r"\bADRs?\s+(\d+(?:(?:,\s+|\s+(?:and|to)\s+)\d+\b)*)")
_OWN_SECTION = re.compile(r"§(\d+(?:\.\d+)*)")
_LINK = re.compile(r"\]\(([^()\s]+)\)|\b(?:src|srcset|href)=\"([^\"\s]+)\"")
_HEADING = re.compile(r"^#+[ \t]+(.+?)[ \t]*$", re.MULTILINE)
_HEADING_NUMBER = re.compile(rf"({_NUMBER})\b")
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def check(tree: Tree) -> Iterator[Finding]:
    """Findings in all files that can cite."""
    for path in tree.files:
        if not path.endswith(_SPEAKING) and "." in posixpath.basename(path):
            continue
        text = tree.prose(path)
        yield from _documents(tree, path, text)
        yield from _sections(tree, path, text, _OF_REFERENCE, REFERENCE)
        yield from _decisions(tree, path, text)
        if path.endswith(".md"):
            yield from _sections(tree, path, text, _OWN_SECTION, path)
            yield from _links(tree, path, text)


def _documents(tree: Tree, path: str, text: str) -> Iterator[Finding]:
    for citation in _DOCUMENT.finditer(text):
        line = line_of(text, citation.start())
        places = (posixpath.join(folder, citation[1]) for folder in (posixpath.dirname(path), "", "docs"))
        document = next((place for place in map(posixpath.normpath, places) if place in tree), None)
        if document is None:
            yield Finding(path, line, f"there is no document {citation[1]}", "cite one that is in the repository")
        elif citation[2] and (_numbers(tree, document) or "section" in citation[2]):
            yield from _missing(tree, path, line, citation[2], document)


def _sections(tree: Tree, path: str, text: str, pattern: re.Pattern[str], document: str) -> Iterator[Finding]:
    for citation in pattern.finditer(text):
        yield from _missing(tree, path, line_of(text, citation.start()), citation[1], document)


def _missing(tree: Tree, path: str, line: int, cited: str, document: str) -> Iterator[Finding]:
    if document not in tree:
        yield Finding(path, line, f"there is no document {document}", "write it, or cite another")
        return
    there = _numbers(tree, document)
    for number in re.findall(_NUMBER, cited):
        if number.lower() not in there:
            yield Finding(path, line, f"{document} has no section {number}", "cite a section that it has")


def _decisions(tree: Tree, path: str, text: str) -> Iterator[Finding]:
    for citation in _DECISION.finditer(text):
        for number in re.findall(r"\d+", citation[1]):
            if not any(name.startswith(f"docs/adr/{int(number):04}-") for name in tree.files):
                yield Finding(path, line_of(text, citation.start()), f"there is no ADR {number}",
                              "cite one that is in docs/adr/")


def _links(tree: Tree, path: str, text: str) -> Iterator[Finding]:
    without_code = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    for link in _LINK.finditer(without_code):
        target = link[1] or link[2]
        if re.match(r"[a-z]+:", target):
            continue
        line = line_of(text, link.start())
        name, _, anchor = target.partition("#")
        document = posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if name else path
        if document not in tree and not (tree.root / document).is_dir():
            yield Finding(path, line, f"the link to {target} leads nowhere", "link to what is there")
        elif anchor and anchor not in _anchors(tree, document):
            yield Finding(path, line, f"{document} has no heading #{anchor}", "link to a heading that it has")


@functools.cache
def _numbers(tree: Tree, document: str) -> frozenset[str]:
    """The numbers of its headings, including "appendix a"."""
    titles = _HEADING.findall(_CODE.sub("", tree.text(document)))
    return frozenset(number[1].lower() for number in map(_HEADING_NUMBER.match, titles) if number)


@functools.cache
def _anchors(tree: Tree, document: str) -> frozenset[str]:
    """The valid anchors of links to a document, made from its headings like GitHub's."""
    if document not in tree:
        return frozenset()
    anchors: list[str] = []
    for title in _HEADING.findall(re.sub(r"^```.*?^```", "", tree.text(document), flags=re.MULTILINE | re.DOTALL)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        anchors.append(f"{anchor}-{anchors.count(anchor)}" if anchor in anchors else anchor)
    return frozenset(anchors)
