"""tools/check: each kind of finding, shown on a small tree that is otherwise clean."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from checks import everything  # noqa: E402
from checks.tree import Tree  # noqa: E402

CLANG_FORMAT = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True).stdout.strip()

# Wrong citations are assembled from parts, so that tools/check does not find them in this file.
MD = ".md"
REFERENCE = "reference "
ADR = "ADR "
TROUBLE = f"docs/trouble{MD}"

ARCHITECTURE = """# Architecture

| folder | what lives there | may include |
|---|---|---|
| `src/base/` | the ground | nothing of ours |
| `src/middle/` | between | base |
| `src/middle/part/` | a part of it | base, middle |
| `src/top/` | the roof | all but base |

See [the reference](device.md#42-rings) and `middle/middle.cc`.
"""
CLEAN = {
    ".clang-format": "BasedOnStyle: Google\nSortIncludes: Never\nIncludeBlocks: Preserve\n",
    "docs/architecture.md": ARCHITECTURE,
    "docs/device.md": "# Device\n\n## 4. Memory\n\n### 4.2 Rings\n\nAs §4 says.\n\n## Appendix A: numbers\n",
    "docs/adr/0007-payload-and-busy.md": "# ADR 7: why\n",
    "README.md": "# It\n\n![picture](docs/picture.svg) [more](docs/) `src/{base/base.h,middle/*.cc}` `src/middle/`\n",
    "docs/picture.svg": "<svg/>\n",
    "src/base/base.h": "// Ground (reference 4.2, appendix A; docs/device.md sections 4 and\n// 4.2; ADR 7).\n#pragma once\n",
    "src/base/base_test.cc": '#include "base/base.h"\n#include "gtest/gtest.h"\n#include "support/helper.h"\n',
    "src/middle/middle.h": "#pragma once\n",
    "src/middle/middle.cc": '#include "middle/middle.h"\n\n#include <vector>\n\n#include "base/base.h"\n',
    "src/middle/fake_middle.h": '#include "middle/middle.h"\n',
    "src/middle/part/part.cc": '#include "middle/middle.h"\n',
    "src/top/top.cc": '#include "middle/middle.h"\n',
    "tests/support/helper.h": '#include "top/top.h"\n',
    "tools/tool": "#!/bin/sh\n# As docs/architecture.md says.\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A clean tree."""
    for name, text in CLEAN.items():
        write(tmp_path, name, text)
    return tmp_path


def write(tree: Path, name: str, text: str) -> None:
    """Writes a file and makes its folders."""
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text)


def check(tree: Path, *options: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs tools/check on a tree."""
    environment = os.environ | ({} if path is None else {"PATH": path})
    return subprocess.run([ROOT / "tools" / "check", "--root", tree, *options], text=True, capture_output=True,
                          timeout=60, check=False, env=environment)


def findings(tree: Path) -> list[str]:
    """All findings but those of clang-format, which takes longer to start than all the others together."""
    return [str(finding) for finding in everything.in_texts(Tree(tree))]


def test_a_clean_tree_passes(tree: Path) -> None:
    assert findings(tree) == []


@pytest.mark.parametrize(("text", "found", "status"), [
    ("// Ground.\n", [], 0),
    (f"// As {REFERENCE}9.9 says.\n", ["src/base/base.h:1: docs/device.md has no section 9.9; "], 1),
])
def test_what_is_printed(tree: Path, text: str, found: list[str], status: int) -> None:
    write(tree, "src/base/base.h", text)
    done = check(tree)
    assert done.stderr == ""
    *printed, summary = done.stdout.splitlines()
    if printed and printed[0].startswith("check: formatting is not checked"):
        del printed[0]
    assert [line.startswith(start) for line, start in zip(printed, found, strict=True)] == [True] * len(found), done.stdout
    assert summary.startswith(f"check: {len(found) or 'no'} findings")
    assert done.returncode == status


@pytest.mark.parametrize(("name", "include"), [
    ("src/base/base.h", '#include "middle/middle.h"'),
    ("src/base/base.h", "#  include <middle/middle.h>"),
    ("src/base/base.h", '#include "../middle/middle.h"'),
    ("src/base/base_test.cc", '#include "middle/middle.h"'),
    ("src/middle/middle.cc", '#include "middle/part/part.h"'),
    ("src/top/top.cc", '#include "base/base.h"'),
])
def test_an_include_that_the_table_forbids(tree: Path, name: str, include: str) -> None:
    write(tree, "src/middle/part/part.h", "#pragma once\n")
    write(tree, name, f"#pragma once\n\n{include}\n")
    found = [line for line in findings(tree) if "may not include" in line]
    folder = name.rsplit("/", 1)[0]
    header = include.split('"')[1] if '"' in include else "middle/middle.h"
    assert found == [f"{name}:3: {folder}/ may not include {header}; ask an interface of a lower folder for it, or change "
                     f"the table in docs/architecture.md"]


@pytest.mark.parametrize("header", ["support/helper.h", "gtest/gtest.h", "middle/fake_middle.h"])
def test_what_only_tests_may_include(tree: Path, header: str) -> None:
    write(tree, "src/middle/middle.cc", f'#include "{header}"\n')
    [found] = findings(tree)
    assert found.startswith(f"src/middle/middle.cc:1: {header} is for tests, and this file is not one of them; ")


def test_a_folder_without_a_row(tree: Path) -> None:
    write(tree, "src/middle/new/new.cc", "\n")
    [found] = findings(tree)
    assert found == ("src/middle/new/new.cc:1: src/middle/new/ is not in the table of who may include whom; give it a row in "
                     "docs/architecture.md")


@pytest.mark.parametrize(("old", "new", "what"), [
    ("| base, middle |", "| base, muddle |", "docs/architecture.md:7: src/middle/part/ may include \"muddle\", which has no row"),
    ("| base |", "| base, top |", "docs/architecture.md:6: the table has a circle: "),
    ("| `src/top/` |", "| the top |", "docs/architecture.md:8: \"the top\" is no folder of src/"),
    ("| `src/base/` |", "| `src/ghost/` | of nothing | base |\n| `src/base/` |", "docs/architecture.md:5: src/ghost/ has no sources"),
    ("| may include |", "| includes |", "docs/architecture.md:1: there is no table of who may include whom"),
])
def test_a_table_that_is_wrong(tree: Path, old: str, new: str, what: str) -> None:
    write(tree, "docs/architecture.md", ARCHITECTURE.replace(old, new))
    assert any(found.startswith(what) for found in findings(tree))


MESSAGES = """# Trouble

| message | cause |
|---|---|
| `adapter VM-01: cannot "start" at 0x10: try again later` | `another column` |

| symptom | cause |
|---|---|
| `no message` | |
"""


def test_a_quoted_message(tree: Path) -> None:
    write(tree, "src/top/top.cc", '#include "middle/middle.h"\n\nlog::warn("adapter {}: cannot \\"start\\" at {:#x}: "\n'
                                  '          "try again later{}",\n          name);\n')
    write(tree, TROUBLE, MESSAGES)
    assert not [line for line in findings(tree) if "message" in line]
    write(tree, TROUBLE, MESSAGES.replace("try again", "try never"))
    assert [line for line in findings(tree) if "message" in line] == [
        f'{TROUBLE}:5: no literal in src/ is the message "adapter VM-01: cannot "start" at 0x10: try never later"; '
        "quote one as the product writes it"]


def test_a_literal_of_a_test_is_no_message_of_the_product(tree: Path) -> None:
    write(tree, "src/top/top_test.cc", 'const char* said = "only a test says this";\n')
    write(tree, TROUBLE, "# Trouble\n\n| message |\n|---|\n| `only a test says this` |\n")
    [found] = findings(tree)
    assert found.startswith(f'{TROUBLE}:5: no literal in src/ is the message "only a test says this"')


@pytest.mark.skipif("version 14." not in CLANG_FORMAT, reason=f"formatting is checked with clang-format 14, not {CLANG_FORMAT}")
def test_formatting(tree: Path) -> None:
    write(tree, "src/top/top.cc", "// Well said.\nint   f( ) ;\nint  g( );\n")
    assert check(tree).stdout.splitlines()[0] == "src/top/top.cc:2: is not formatted; run make format"
    assert check(tree, "--format").returncode == 0
    assert check(tree).returncode == 0
    assert (tree / "src/top/top.cc").read_text() == "// Well said.\nint f();\nint g();\n"


def test_without_clang_format_nothing_passes(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    programs = tmp_path_factory.mktemp("programs")
    (programs / "python3").symlink_to("/usr/bin/python3")
    done = check(tree, path=str(programs))
    assert done.returncode == 1
    assert done.stderr == "check: there is no clang-format: run tools/setup\n"


def test_another_clang_format_is_not_asked_and_that_is_said(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    programs = tmp_path_factory.mktemp("programs")
    (programs / "clang-format").write_text("#!/bin/sh\necho 'clang-format version 99.1.0'\n")
    (programs / "clang-format").chmod(0o755)
    write(tree, "src/top/top.cc", "int   f( ) ;\n")
    done = check(tree, path=f"{programs}:/bin" if not Path("/bin/clang-format").exists() else str(programs))
    assert done.returncode == 0
    assert done.stdout.startswith("check: formatting is not checked: there is no clang-format ")
    assert check(tree, "--format", path=str(programs)).returncode == 1


@pytest.mark.parametrize(("cited", "what"), [
    ("docs/gone" + MD, "there is no document docs/gone" + MD),
    ("gone" + MD, "there is no document gone" + MD),
    ("docs/device" + MD + " 4.3", "docs/device.md has no section 4.3"),
    ("device" + MD + " sections 4.2 to\n{}5.1", "docs/device.md has no section 5.1"),
    (REFERENCE + "4.2, 9.9", "docs/device.md has no section 9.9"),
    (REFERENCE + "section\n{}7", "docs/device.md has no section 7"),
    (REFERENCE + "4.2, appendix B", "docs/device.md has no section appendix B"),
    ("architecture" + MD + " section 3", "docs/architecture.md has no section 3"),
    (ADR + "8", f"there is no {ADR}8"),
    (ADR.replace("R ", "Rs ") + "7 and 12", f"there is no {ADR}12"),
])
def test_a_citation_of_what_is_not_there(tree: Path, cited: str, what: str) -> None:
    write(tree, "src/base/base.h", f"// Why so: see {cited.format('// ')}.\n")
    [found] = findings(tree)
    assert found.startswith(f"src/base/base.h:1: {what}; cite ")


@pytest.mark.parametrize(("name", "leader"), [("tools/tool", "# "), ("tests/CMakeLists.txt", "# "), ("tests/test.py", "# "),
                                              ("docs/testing.md", ""), ("Makefile", "# ")])
def test_who_may_cite_nothing_wrong(tree: Path, name: str, leader: str) -> None:
    write(tree, name, f"{leader}Why so: see {REFERENCE}4.2,\n{leader}4.3.\n")
    assert findings(tree) == [f"{name}:1: docs/device.md has no section 4.3; cite a section that it has"]


def test_a_citation_of_the_reference_when_there_is_none(tree: Path) -> None:
    write(tree, "docs/architecture.md", ARCHITECTURE.replace("(device.md#42-rings)", ""))
    (tree / "docs/device.md").unlink()
    write(tree, "src/base/base.h", f"// See {REFERENCE}4.2.\n")
    assert findings(tree) == ["src/base/base.h:1: there is no document docs/device.md; write it, or cite another"]


@pytest.mark.parametrize(("link", "what"), [
    ("[gone](gone.svg)", "the link to gone.svg leads nowhere"),
    ("![gone](adr/gone.svg)", "the link to adr/gone.svg leads nowhere"),
    ('<img src="gone.svg">', "the link to gone.svg leads nowhere"),
    ("[far](../src/base/gone.h)", "the link to ../src/base/gone.h leads nowhere"),
    ("[there](device.md#43-more)", "docs/device.md has no heading #43-more"),
    ("[here](#nowhere)", "docs/testing.md has no heading #nowhere"),
    ("as §4 says", "docs/testing.md has no section 4"),
])
def test_a_link_to_what_is_not_there(tree: Path, link: str, what: str) -> None:
    write(tree, "docs/testing.md", f"# Other\n\nSee {link}.\n")
    [found] = findings(tree)
    assert found.startswith(f"docs/testing.md:3: {what}; ")


@pytest.mark.parametrize(("text", "what"), [
    ("`base/gone.h`", "there is no file base/gone.h"),
    ("`base/{base,gone}.h`", "there is no file base/gone.h"),
    ("`gone_*.cc`", "there is no file gone_*.cc"),
    ("`tests/gone.py` and more", "there is no file tests/gone.py"),
    ("`src/gone/`", "there is no folder src/gone/"),
])
def test_a_file_named_in_a_document_that_is_not_there(tree: Path, text: str, what: str) -> None:
    write(tree, "docs/testing.md", f"Look at {text}.\n")
    assert findings(tree) == [f"docs/testing.md:1: {what}; name one that is there"]


def test_a_file_named_in_a_comment_that_is_not_there(tree: Path) -> None:
    write(tree, "src/top/top.cc", "int f();  // see middle/gone.h and middle/middle.h, not <gone.h>\n")
    assert findings(tree) == ["src/top/top.cc:1: there is no file middle/gone.h; name one that is there"]


@pytest.mark.parametrize(("text", "what"), [
    ("packaging/gone.service", "there is no file packaging/gone.service"),
    ("as tools/gone does", "there is no file tools/gone"),
    ("`src/base/gone.h`", "there is no file src/base/gone.h"),
    ("in src/gone/ and src/base/", "there is no folder src/gone/"),
])
def test_a_path_in_a_document_that_is_not_there(tree: Path, text: str, what: str) -> None:
    write(tree, "docs/testing.md", f"Look at {text}, tools/tool, src/{{base,middle}}/*.h.\n")
    assert findings(tree) == [f"docs/testing.md:1: {what}; name one that is there"]


WORDS = "word " * 21  # 105 columns, less the space at the end


@pytest.mark.parametrize(("name", "text"), [
    ("docs/testing.md", f"# Other\n\n{WORDS}\n"),
    ("README.md", f"# It\n\n* {WORDS.removeprefix('word')[3:]}word\n"),
    ("docs/testing.md", f"```\n{WORDS}\n```\n{WORDS}\n"),
])
def test_a_line_that_is_too_long(tree: Path, name: str, text: str) -> None:
    write(tree, name, text)
    [found] = findings(tree)
    assert found.startswith(f"{name}:{text.count(chr(10))}: 10") and found.endswith(" columns; wrap it at 100")


def test_a_comment_for_administrators_that_is_too_long(tree: Path) -> None:
    write(tree, "packaging/it.service", f"# {WORDS}\n  # {WORDS}{WORDS}\nExecStart={WORDS}{WORDS}\n")
    assert findings(tree) == ["packaging/it.service:2: a comment of 214 columns; wrap it at 120"]


@pytest.mark.parametrize("text", [
    f"| {WORDS} |", f"## {WORDS}", f"```\n{WORDS}\n```", f"   ```\n   {WORDS}\n   ```", f"* [there](https://{'x' * 100})",
    WORDS[:100],
])
def test_a_line_that_may_be_long(tree: Path, text: str) -> None:
    write(tree, "docs/testing.md", f"{text}\n")
    assert findings(tree) == []


@pytest.mark.parametrize("words", ["anew", "As said", "what is\nnot", "so many", "is none", "for who", "found no room", "VM stands",
                                   "guests stood"])
def test_words_that_were_decided_against(tree: Path, words: str) -> None:
    write(tree, "docs/testing.md", f"One.\nThey say {words} here.\n")
    [found] = findings(tree)
    assert found.startswith(f'docs/testing.md:2: "{words}" is not how we write; '.replace("\n", " "))


@pytest.mark.parametrize("name", ["docs/man/it.1", "packaging/it.service"])
def test_where_else_words_are_looked_for(tree: Path, name: str) -> None:
    write(tree, name, "# It is made anew.\n")
    assert findings(tree) == [f'{name}:1: "anew" is not how we write; write "again"']


@pytest.mark.parametrize(("name", "text", "line"), [
    ("src/top/top.cc", "int f();\nint g();  // made anew\n", 2),
    ("src/top/top.cc", "// They say as\n// said here.\nint f();\n", 1),
    ("src/top/top.cc", "int f();  // They say as\n          // said here.\n", 1),
    ("src/top/top.cc", 'char f = \'"\';  // made anew, "so"\n', 1),
    ("src/top/CMakeLists.txt", 'set(A "#")  # made anew\n', 1),
    ("tools/tool", "#!/bin/bash\necho \"#\"  # made anew\n", 2),
    ("tools/tool.py", "f = '#'  # made anew\n", 1),
    ("tools/tool.py", 'def f() -> None:\n    """They say as\n    said here."""\n', 2),
    ("tools/tool", '#!/usr/bin/python3\n"""Made anew."""\n', 2),
])
def test_words_in_comments(tree: Path, name: str, text: str, line: int) -> None:
    write(tree, name, text)
    [found] = findings(tree)
    assert found.startswith(f"{name}:{line}: ") and "is not how we write" in found


@pytest.mark.parametrize(("name", "text"), [
    ("src/top/top.cc", 'const char* f = "anew // anew";  // `anew`, made_anew()\n'),
    ("src/top/top.cc", "int f();  // so\nint g();  // many\n"),
    ("src/top/top.cc", "// There is none. As\n\n// said before.\n"),
    ("tools/tool.py", 'F = "made anew"  # text\nG = """\nanew"""\n'),
    ("tools/tool", "#!/bin/sh\necho 'anew # anew' ${a#anew}\n"),
])
def test_words_that_are_no_comment(tree: Path, name: str, text: str) -> None:
    write(tree, name, text)
    assert findings(tree) == []


def test_words_that_may_stand(tree: Path) -> None:
    write(tree, "docs/testing.md", "There is none of it: `as said`, the one who asked, which is none of theirs.\n\n```\nanew\n```\n")
    assert findings(tree) == []


@pytest.mark.parametrize(("message", "what"), [
    ('fail("Cannot open {}")', "begins with a capital letter"),
    ('refuse(ErrorKind::kNotFound,\n    fmt::format("no {}: "\n    "add it."))', "ends with a full stop"),
    ('fail(EINVAL, "there is no VM: see the list of VMs")', "does not say how to list them"),
])
def test_a_message_in_another_style(tree: Path, message: str, what: str) -> None:
    write(tree, "src/middle/middle.cc", f'#include "middle/middle.h"\n\nauto x = {message};\n')
    assert any(what in line and line.startswith("src/middle/middle.cc:") for line in findings(tree))


def test_messages_in_the_usual_style(tree: Path) -> None:
    for message in ('fail("VM {} is on: power it off first")', 'fail("wait ...")', 'fail(sentence)'):
        write(tree, "src/middle/middle.cc", f'#include "middle/middle.h"\n\nauto x = {message};\n')
        assert not any("the message" in line for line in findings(tree))


# --- Hardware versions. ---

VERSIONS = "src/vocabulary/hardware_version.h"
LISTED = "".join(f"// VmHardwareVersion{{{number}, k13}}\n" for number in (13, 14, 17))
STATED_IN = ("README.md", "docs/device.md", "docs/man/pvrdmactl.1", "docs/man/pvrdmad.toml.5", "packaging/pvrdmad.toml")


@pytest.fixture
def versions(tree: Path) -> Path:
    """A tree with a list of hardware versions, which every document that must have it repeats."""
    row = "| `src/base/` |"
    write(tree, "docs/architecture.md", ARCHITECTURE.replace(row, f"| `src/vocabulary/` | words | base |\n{row}"))
    write(tree, VERSIONS, LISTED)
    for name in STATED_IN:
        write(tree, name, CLEAN.get(name, "") + "VMs of hardware versions 13 to 14 and 17.\n")
    return tree


@pytest.mark.parametrize("text", [
    "hardware versions\n13, 14 or\n17.", "hardware version 13, 14, 17.", "VMs of hardware version 13 and 14 and on 17.",
    "The hardware version; device versions 17 to 20.", "hardware version 14 or later", "hardware versions 13 and 14",
    "| VM hardware version | x |\n| --- | --- |\n| 13, 14 | 15 |\n| 17 | 2 |",
])
def test_hardware_versions_as_listed(versions: Path, text: str) -> None:
    write(versions, "docs/testing.md", f"{text}\n")
    assert findings(versions) == []


@pytest.mark.parametrize(("name", "text", "line"), [
    ("docs/testing.md", "One.\nhardware versions 13,\n14 and 18", 2),
    ("docs/testing.md", "One.\n`hardware_version` is one of 13 to 17", 2),
    ("docs/testing.md", "One.\n| VM hardware version |\n| --- |\n| 13 |\n| 17 |\n", 2),
    ("docs/man/it.5", ".It Cm hardware_version\n.Cm 13 , 14\nor\n.Cm 18 .\n", 2),
    ("packaging/it.toml", "# The hardware version: 13, 14 or 18.\n", 1),
])
def test_hardware_versions_of_another_list(versions: Path, name: str, text: str, line: int) -> None:
    write(versions, name, f"{text}\n")
    [found] = findings(versions)
    assert found.startswith(f"{name}:{line}: hardware versions 13") and found.endswith("; write 13, 14, 17")


@pytest.mark.parametrize("name", STATED_IN)
def test_hardware_versions_that_are_missing(versions: Path, name: str) -> None:
    write(versions, name, CLEAN.get(name, "# Nothing.\n"))
    [found] = findings(versions)
    assert found.startswith(f"{name}:1: the hardware versions are missing; write ")


# --- Metrics. ---

METRIC_ROWS = """constexpr MetricInfo kMetrics[] = {
    {"pvrdma_a_total", kCounter, "", "adapter,path", "Things that "
     "came"},
    {"pvrdma_b_bytes", kGauge, "bytes", "", "Memory"},
};
"""
METRIC_PAGE = """# Metrics

| `pvrdma_a_total` | counter | `adapter`, `path` | Things that came |
| `pvrdma_b_bytes` | gauge |  | Memory |
"""


def write_metrics(tree: Path, page: str = METRIC_PAGE) -> None:
    """A table of metrics, and its page."""
    write(tree, "src/api/metric_table.cc", METRIC_ROWS)
    write(tree, "docs/architecture.md", ARCHITECTURE.replace("| `src/top/`", "| `src/api/` | HTTP | base |\n| `src/top/`"))
    write(tree, "docs/metrics.md", page)


def test_metrics_that_the_page_has(tree: Path) -> None:
    write_metrics(tree)
    write(tree, "docs/api.md", "It has `pvrdma_a_total`.\n")
    assert findings(tree) == []


@pytest.mark.parametrize(("old", "new", "what"), [
    ("| `pvrdma_b_bytes` | gauge |  | Memory |\n", "", "1: pvrdma_b_bytes has no row; write | `pvrdma_b_bytes` | gauge |  | Memory |"),
    ("counter", "gauge", "3: pvrdma_a_total differs from "),
    ("`path`", "`peer`", "3: pvrdma_a_total differs from "),
    ("came", "went", "3: pvrdma_a_total differs from "),
    ("# Metrics", "# Metrics\n\n| `pvrdma_c_total` | counter |  | Gone |", "3: there is no metric pvrdma_c_total; "),
    ("| `pvrdma_b", "| `pvrdma_b_bytes` | gauge |  | Memory |\n| `pvrdma_b", "5: pvrdma_b_bytes has two rows; "),
])
def test_a_page_that_differs_from_the_metrics(tree: Path, old: str, new: str, what: str) -> None:
    write_metrics(tree, METRIC_PAGE.replace(old, new, 1))
    assert any(line.startswith(f"docs/metrics.md:{what}") for line in findings(tree))


def test_a_metric_that_does_not_exist(tree: Path) -> None:
    write_metrics(tree)
    write(tree, "docs/man/it.8", "See\npvrdma_a_bytes_total and pvrdma_b_bytes.\n")
    assert any(line.startswith("docs/man/it.8:2: there is no metric pvrdma_a_bytes_total; ") for line in findings(tree))


ALERTS = """groups:
  - name: a
    rules:
      - alert: One
        expr: rate(pvrdma_a_total{path="tcp"}[5m]) > 0
        annotations:
          summary: "{{ $labels.instance }} {{ $labels.adapter }}"
      - alert: Two
        expr: >-
          pvrdma_b_bytes
          > 5
        for: 5m
"""
DASHBOARD = """{"panels": [{"targets": [{"expr": "sum by (path) (pvrdma_a_total{adapter=~\\"$vm\\"})", "legendFormat": "{{path}}"}]}],
 "templating": {"list": [{"query": "label_values(pvrdma_a_total, adapter)"}]}}
"""


@pytest.mark.parametrize(("old", "new", "what"), [
    ("", "", ""),
    ("pvrdma_b_bytes", "pvrdma_c_bytes", "pvrdma-alerts.yml:8: there is no metric pvrdma_c_bytes; "),
    ('{path="tcp"}', '{peer="tcp"}', "pvrdma-alerts.yml:4: pvrdma_a_total has no label peer; "),
    ("$labels.adapter", "$labels.peer", "pvrdma-alerts.yml:4: no metric of the query has the label peer; "),
    ("(pvrdma_a_total{adapter", "(pvrdma_a{adapter", "grafana-dashboard.json:1: there is no metric pvrdma_a; "),
    ("adapter=~", "vm=~", "grafana-dashboard.json:1: pvrdma_a_total has no label vm; "),
    ("by (path)", "by (paths)", "grafana-dashboard.json:1: no metric of the query has the label paths; "),
    ("{{path}}", "{{peer}}", "grafana-dashboard.json:1: no metric of the query has the label peer; "),
    ("total, adapter)", "total, vm)", "grafana-dashboard.json:2: no metric of the query has the label vm; "),
])
def test_queries_name_metrics_and_labels_that_exist(tree: Path, old: str, new: str, what: str) -> None:
    write_metrics(tree)
    write(tree, "packaging/monitoring/pvrdma-alerts.yml", ALERTS.replace(old, new, 1) if old else ALERTS)
    write(tree, "packaging/monitoring/grafana-dashboard.json", DASHBOARD.replace(old, new, 1) if old else DASHBOARD)
    found = findings(tree)
    assert len(found) == bool(what) and all(line.startswith(f"packaging/monitoring/{what}") for line in found), found


WEB = {
    "ui/own.css": ".own { color: var(--known); }\n",
    "ui/view.js": "html`<p class=\"own ${flag ? 'listed' : ''} alert-${kind}\">${text}</p>`;\n",
    "third_party/web/clarity.css": "body{--known:red}\n",
    "third_party/web/classes.txt": "# classes\nlisted\n",
}


@pytest.mark.parametrize(("name", "text", "found"), [
    ("ui/view.js", "html`<p class=\"own other\">`;\n", "ui/view.js:1: no style sheet has the class other"),
    ("ui/view.js", "html`<p class=${a === 'x' ? 'other' : ''}>`;\n", "ui/view.js:1: no style sheet has the class other"),
    ("ui/view.js", "\nelement.innerHTML = text;\n", "ui/view.js:2: innerHTML makes HTML"),
    ("ui/view.js", "html`<p style=\"x\">`;\n", "makes HTML or style of text"),
    ("ui/own.css", ".own { color: var(--gone); }\n", "ui/own.css:1: third_party/web/clarity.css has no --gone"),
])
def test_the_page_uses_what_its_style_sheets_have(tree: Path, name: str, text: str, found: str) -> None:
    for path, clean in WEB.items():
        write(tree, path, clean)
    assert findings(tree) == []
    write(tree, name, text)
    assert len(findings(tree)) == 1 and found in findings(tree)[0], findings(tree)
