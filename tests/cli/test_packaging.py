"""The files from which packages are made: what can be checked without building them (tests/packages builds them).

Run by ctest (label cli), or: /usr/bin/python3 -m pytest tests/cli/test_packaging.py
"""

from __future__ import annotations

import os
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DEBIAN = REPOSITORY / "packaging/debian"
DKMS = REPOSITORY / "packaging/dkms"
# What only the tests of this repository need.
_TESTS_ONLY = {"libgtest-dev", "libgmock-dev", "libbenchmark-dev"}


def paragraphs() -> list[dict[str, str]]:
    """debian/control, each field with its lines joined."""
    text = (DEBIAN / "control").read_text(encoding="utf-8")
    return [dict(re.findall(r"^([\w-]+): *((?:.*)(?:\n[ \t].*)*)", paragraph, re.MULTILINE)) for paragraph in text.split("\n\n")]


def names(field: str) -> set[str]:
    return {re.split(r"[\s(|]", word.strip())[0] for word in field.split(",")}


def test_a_build_needs_the_libraries_that_setup_installs() -> None:
    setup = (REPOSITORY / "tools/setup").read_text(encoding="utf-8")
    libraries = re.findall(r"^libraries=\(([^)]*)\)", setup, re.MULTILINE)[0].split()
    needed = names(paragraphs()[0]["Build-Depends"])
    assert {name for name in needed if name.endswith("-dev") and name != "systemd-dev"} == set(libraries) - _TESTS_ONLY


def test_the_installation_guide_names_each_package() -> None:
    guide = (REPOSITORY / "docs/install.md").read_text(encoding="utf-8")
    packages = {paragraph["Package"] for paragraph in paragraphs()[1:]}
    assert packages <= set(re.findall(r"^\| `(pvrdma[\w-]*)` \|", guide, re.MULTILINE))


@pytest.mark.parametrize("script", [*DEBIAN.glob("*.p*st*"), *DEBIAN.glob("*.pre*"), DKMS / "unpack-driver", DKMS / "dkms.conf", DEBIAN.parent / "libvirt/pvrdma"],
                         ids=lambda path: path.name)
def test_scripts_parse(script: Path) -> None:
    subprocess.run(["dash" if script.suffix != ".conf" else "bash", "-n", script], check=True)


@pytest.mark.parametrize("name", ["rules", "../dkms/unpack-driver", "../libvirt/pvrdma"])
def test_programs_may_be_executed(name: str) -> None:
    assert os.access(DEBIAN / name, os.X_OK)


def a_kernel_source(folder: Path, series: str) -> None:
    driver = folder / f"linux-source-{series}/drivers/infiniband/hw/vmw_pvrdma"
    driver.mkdir(parents=True)
    (driver / "pvrdma.h").write_text(f"/* {series} */\n", encoding="utf-8")
    with tarfile.open(folder / f"linux-source-{series}.tar.xz", "w:xz") as archive:
        archive.add(folder / f"linux-source-{series}", f"linux-source-{series}")


@pytest.mark.parametrize(("kernel", "series"), [("6.1.0-49-amd64", "6.1"), ("6.12.57+deb13-cloud-amd64", "6.12")])
def test_the_driver_comes_from_the_kernels_own_series(kernel: str, series: str, tmp_path: Path) -> None:
    for known in ("6.1", "6.12"):
        a_kernel_source(tmp_path, known)
    build = tmp_path / "build"
    build.mkdir()
    script = (DKMS / "unpack-driver").read_text(encoding="utf-8").replace("/usr/src/", f"{tmp_path}/")
    subprocess.run(["sh", "-c", script, "unpack-driver", kernel], cwd=build, check=True)
    assert {path.name: path.read_text() for path in build.iterdir()} == {"pvrdma.h": f"/* {series} */\n"}


def test_a_kernel_without_source_package_is_refused_by_name(tmp_path: Path) -> None:
    done = subprocess.run([DKMS / "unpack-driver", "9.99.1-amd64"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("vmw_pvrdma for 9.99.1-amd64 from: apt install linux-source-9.99\n")
