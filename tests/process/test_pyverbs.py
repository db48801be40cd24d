"""The tests of rdma-core's own Python bindings, as Debian installs them."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path

import pytest
from machine import Machine

INSTALLED = Path("/usr/share/doc/rdma-core/tests")
MODULES = ["device", "pd", "mr", "cq", "qp", "addr", "atomic", "cq_events", "fork"]
EXPECTED_FAILURES = {
    # The GID's network device does not exist on the host, so its index cannot be found.
    "test_query_gid_table",
    "test_query_gid_ex_bad_flow",
    # They expect the kernel's check of raw packet QPs, which the device does not have.
    "test_create_raw_qp_ex_with_illegal_caps_max_recv_wr",
    "test_create_raw_qp_ex_with_illegal_caps_max_send_wr",
}


@pytest.mark.skipif(not INSTALLED.exists(), reason="the package rdma-core is not installed with its documentation")
def test_suite(shared_machine: Machine) -> None:
    tests = shared_machine.folder / "tests"
    tests.mkdir()
    for source in INSTALLED.iterdir():
        target = tests / source.name.removesuffix(".gz")
        if source.suffix == ".gz":
            target.write_bytes(gzip.decompress(source.read_bytes()))
        else:
            shutil.copy(source, target)
    names = [f"tests.test_{module}" for module in MODULES]
    done = shared_machine.run("/usr/bin/python3", str(tests / "run_tests.py"), *names, PYTHONDONTWRITEBYTECODE="1")
    failures = set(re.findall(r"^(?:ERROR|FAIL): (\w+)", done.stdout, re.MULTILINE))
    ran = re.search(r"^Ran (\d+) tests", done.stdout, re.MULTILINE)
    skipped = re.search(r"skipped=(\d+)", done.stdout)
    assert ran and skipped and int(ran[1]) - int(skipped[1]) >= 40, done.stdout
    assert failures == EXPECTED_FAILURES, done.stdout
