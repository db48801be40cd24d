"""All checks of tools/check."""

from __future__ import annotations

from checks import citations, formatting, includes, message_style, messages, metrics, names, prose, versions, web
from checks.tree import Finding, Tree

_OF_TEXTS = (includes, citations, names, messages, message_style, metrics, prose, versions, web)


def in_texts(tree: Tree) -> list[Finding]:
    """What is found without running a program, sorted by file."""
    return sorted(finding for each in _OF_TEXTS for finding in each.check(tree))


def findings(tree: Tree) -> list[Finding]:
    """All that is found, sorted by file."""
    return sorted([*in_texts(tree), *formatting.check(tree)])
