"""pvrdmactl against a simulated API: words, exit codes, the esxcli name.

Run by ctest (label cli), or: PVRDMACTL=... /usr/bin/python3 -m pytest tests/cli/test_ctl.py
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from fake_api import GUARD_S, PVRDMACTL, ROOT, Api, run
@pytest.fixture
def esxcli(tmp_path: Path) -> str:
    link = tmp_path / "esxcli"
    link.symlink_to(PVRDMACTL)
    return str(link)


VERBATIM = {
    "rdma device list": "GET /v1/hosts/self",
    "rdma device protocol list": "GET /v1/hosts/self",
    "rdma device vmknic list": "GET /v1/hosts/self",
    "rdma device stats get -d vmrdma0": "GET /v1/hosts/self/rdma/vmrdma0/stats",
    "network nic list": "GET /v1/hosts/self",
    "network nic get -n vmnic0": "GET /v1/hosts/self",
    "network ip interface ipv4 get": "GET /v1/hosts/self",
    "network ip interface ipv4 set -i vmk2 -I 10.0.0.1 -N 255.255.255.0 -t static":
        'PATCH /v1/hosts/self/vmks/vmk2 {"address":"10.0.0.1"}',
    "network firewall get": "GET /v1/hosts/self",
    "network firewall set --enabled false": 'PATCH /v1/hosts/self/firewall {"enabled":false}',
    "network firewall refresh": "GET /v1/hosts/self/rulesets",
    "system version get": "GET /v1/version",
    "system settings advanced set -o /Net/PVRDMAVmknic -s vmk2":
        'PUT /v1/hosts/self/advanced {"path":"/Net/PVRDMAVmknic","value":"vmk2"}',
    "system settings advanced list -o /Net/PVRDMAVmknic": "GET /v1/hosts/self/advanced",
    "network firewall ruleset set -e true -r pvrdma": 'PATCH /v1/hosts/self/rulesets/pvrdma {"enabled":true}',
    "network firewall ruleset list": "GET /v1/hosts/self/rulesets",
    "network firewall ruleset rule list -r pvrdma": "GET /v1/hosts/self/rulesets/pvrdma/rules",
    "network firewall ruleset allowedip add -r pvrdma -i 10.0.0.0/24":
        'POST /v1/hosts/self/rulesets/pvrdma/allowed {"network":"10.0.0.0/24"}',
    "network firewall ruleset allowedip remove -r pvrdma -i 10.0.0.0/24":
        "DELETE /v1/hosts/self/rulesets/pvrdma/allowed?network=10.0.0.0%2F24",
    "network firewall ruleset allowedip list -r pvrdma": "GET /v1/hosts/self/rulesets",
}
ANSWERS: dict[str, object] = {
    "/v1/version": {"version": "1.0"},
    "/v1/hosts/self": {"vmnics": [{"name": "vmnic0", "description": "", "pci_address": "", "driver": "", "mac": "", "link_up": True,
                                   "mtu": 1500, "speed_mbps": 0, "full_duplex": True}],
                       "vmks": [], "rdma_devices": [], "firewall": True},
    "/v1/hosts/self/rdma/vmrdma0/stats": {"device": "vmrdma0", "stats": {}},
    "/v1/hosts/self/advanced": [{"path": "/Net/PVRDMAVmknic", "type": "string", "value": "vmk2", "default": "",
                                 "description": "d"}],
    "/v1/hosts/self/rulesets": [{"name": "pvrdma", "enabled": True, "allow_all": True, "allowed": []}],
    "/v1/hosts/self/rulesets/pvrdma/rules": [],
}


@pytest.mark.parametrize("line", VERBATIM)
def test_esxclis_own_commands_work_by_both_names(api: Api, esxcli: str, line: str) -> None:
    api.answer = ANSWERS.get(VERBATIM[line].split()[1], {})
    for program in (PVRDMACTL, esxcli):
        done = api.ctl(line, program)
        assert (done.returncode, done.stderr) == (0, "")
        assert api.asked == [VERBATIM[line]]
        is_silent = not VERBATIM[line].startswith("GET") or "stats" in line or "refresh" in line
        assert (done.stdout == "") == is_silent


@pytest.mark.parametrize(("form", "printed"), [
    ("csv", "Enabled,Name,\ntrue,pvrdma,\n"),
    ("keyvalue", "Ruleset.Enabled.boolean=true\nRuleset.Name.string=pvrdma\n"),
    ("json", '[\n  {\n    "Enabled": true,\n    "Name": "pvrdma"\n  }\n]\n'),
])
def test_esxclis_formatter_comes_before_or_after_the_words(api: Api, esxcli: str, form: str, printed: str) -> None:
    api.answer = ANSWERS["/v1/hosts/self/rulesets"]
    for line in (f"--formatter={form} network firewall ruleset list", f"network firewall ruleset list --formatter {form}"):
        assert api.ctl(line, esxcli).stdout == printed


def test_a_refusal_is_the_daemons_sentence_and_exit_code_1(api: Api) -> None:
    api.status, api.answer = 409, {"error": "VM VM-01 is on: power it off"}
    done = api.ctl("vm delete VM-01")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "pvrdmactl: VM VM-01 is on: power it off\n")


def test_an_answer_it_does_not_understand_is_exit_code_1(api: Api) -> None:
    api.answer = {"frob": 1}
    done = api.ctl("rdma device list")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("pvrdmactl: the daemon's answer is not what this pvrdmactl expects: ")


def test_json_is_what_the_api_said(api: Api) -> None:
    api.answer = [{"path": "local", "anything": ["else", 1]}]
    assert json.loads(api.ctl("--json path list").stdout) == api.answer
    api.answer = {}
    assert api.ctl("dvs delete d --json").stdout == "{}\n"


def test_what_the_qemu_arguments_mean_to_a_shell(api: Api) -> None:
    arguments = ["-device", '{"driver":"x","socket":{"path":"/run/a b"}}', "", "it's", "$HOME", "`id`", "a\nb", "*"]
    api.answer = {"arguments": arguments}
    line = api.ctl("vm qemu-args VM-01").stdout
    printed = run("bash", "-c", f"printf '%s\\0' {line}").stdout
    assert printed.split("\0")[:-1] == arguments


def test_output_nobody_can_take_is_exit_code_1() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([PVRDMACTL, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=GUARD_S,
                              check=False)
    assert (done.returncode, done.stderr) == (
        1, "pvrdmactl: cannot write to standard output: No space left on device\n")


@pytest.mark.parametrize(("line", "sentence"), [
    ("frob", 'there is no command "pvrdmactl frob": see pvrdmactl --help'),
    ("rdma frob list", 'there is no command "pvrdmactl rdma frob": see pvrdmactl rdma --help'),
    ("adapter get", "pvrdmactl adapter get needs NAME: see pvrdmactl adapter get --help"),
    ("adapter get a/../b", 'NAME: "a/../b" is not a name: it takes 1 to 64 letters, digits, \'.\', \'_\' and \'-\': see '
                           "pvrdmactl adapter get --help"),
    ("vm migrate VM-01", "pvrdmactl vm migrate needs --to or --cancel: see pvrdmactl vm migrate --help"),
    ("vm migrate VM-01 --to h --cancel", "give only one of --to or --cancel: see pvrdmactl vm migrate --help"),
    ("vm migrate VM-01 --cancel --check", "--check needs --to too: see pvrdmactl vm migrate --help"),
    ("vm qemu-args VM-01 --incoming --restore", "give only one of --incoming or --restore: see pvrdmactl vm qemu-args --help"),
    ("vm get v --formatter csv", "pvrdmactl vm get prints no list of fields, so it has no csv: give --formatter json: see "
                                 "pvrdmactl vm get --help"),
    ("vm list --json --formatter json", "give only one of --json or --formatter: see pvrdmactl vm list --help"),
    ("dvs roce-rules d h --bridge a/b", '--bridge: "a/b" is not a name: it takes 1 to 64 letters, digits, \'.\', \'_\' and '
                                        "'-': see pvrdmactl dvs roce-rules --help"),
    ("dvs roce-rules d h --bridge abcdefghijklmnop", '--bridge: "abcdefghijklmnop" is not a network device: it takes 1 to 15 '
                                                     "letters, digits, '.', '_' and '-': see pvrdmactl dvs roce-rules --help"),
    ("version --server http://h:1", 'the server "http://h:1" must be https://HOST:PORT, an IPv6 address in brackets: '
                                    "see pvrdmactl --help"),
    ("version --server https://h:1", "the server https://h:1 asks for a token: give --token-file or set "
                                     "PVRDMA_TOKEN_FILE: see pvrdmactl --help"),
])
def test_a_mistake_is_a_sentence_and_exit_code_2(line: str, sentence: str) -> None:
    done = run(PVRDMACTL, *line.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"pvrdmactl: {sentence}\n")


@pytest.mark.parametrize("words", ["", "adapter", "rdma device", "network firewall ruleset"])
def test_missing_words_are_listed(esxcli: str, words: str) -> None:
    done = run(PVRDMACTL, *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert "\nAvailable Commands:\n" in done.stderr
    wanted = run(PVRDMACTL, *words.split(), "--help")
    assert (wanted.returncode, wanted.stdout) == (0, done.stderr)
    assert run(esxcli, *words.split(), "--help").stdout.startswith(f"Usage: {' '.join(['esxcli', '[options]', *words.split()])}")


# --- The manual. ---

PAGE = ROOT / "docs" / "man" / "pvrdmactl.1"


def manual(page: Path) -> list[str]:
    """What tools/manual says about the page."""
    done = run(str(ROOT / "tools" / "manual"), "--check", "--page", str(page), env={"PVRDMACTL": PVRDMACTL})
    assert (done.returncode, done.stderr) == (1 if done.stdout else 0, "")
    return [line.removeprefix(f"{page}: ") for line in done.stdout.splitlines()]


def test_the_manual_says_what_the_help_says() -> None:
    """Both are made from one table, and the page has each command and option of it, and no other."""
    assert manual(PAGE) == []


@pytest.mark.parametrize(("old", "new", "sentence"), [
    ("\nList the VMs.\n", "\nList VMs.\n", 'the part "vm list" is not what pvrdmactl says: run tools/manual'),
    (".It Fl -json\n", "", 'the part "--json" is not what pvrdmactl says: run tools/manual'),
    ('.\\" generated: vm list\n', '.\\" generated: vm frob\n',
     'the part "vm list" is missing: add the lines \'.\\" generated: vm list\' and \'.\\" end\''),
    ('.\\" generated: vm list\n', '.\\" generated: vm list\n.\\" end\n.\\" generated: vm list\n',
     'the part "vm list" is there 2 times: keep one'),
])
def test_a_manual_that_says_something_else(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    page = tmp_path / "page.1"
    text = PAGE.read_text(encoding="utf-8")
    assert old in text
    page.write_text(text.replace(old, new), encoding="utf-8")
    assert manual(page)[0] == sentence


def test_the_helps_options_are_those_of_the_manual() -> None:
    """For a command with many options; the others are made in the same way."""
    part = PAGE.read_text(encoding="utf-8").split('.\\" generated: vm create\n')[1].split('.\\" end\n')[0]
    in_page = re.findall(r"^\.It Fl .*?-([a-z-]{2,})", part, re.MULTILINE)
    in_help = run(PVRDMACTL, "vm", "create", "--help").stdout.split("\nCmd options:\n")[1].split("\nOptions:\n")[0]
    assert re.findall(r"^  (?:-.\|)?--([a-z-]+)", in_help, re.MULTILINE) == in_page
    assert "manual" not in run(PVRDMACTL, "--help").stdout.split()
