"""States of the page that a fleet in order does not have: what the daemon tells otherwise, and what is done in the view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fleet.fleet import PORTGROUP, SWITCH
from test_migrate import FAILED, RUNS
from web.browser import Browser

_LONG = "a-virtual-machine-whose-name-is-about-as-long-as-names-may-be-01"
_AWAY = "etcd at http://10.77.0.254:2379 does not answer: connection refused."
_REFUSAL = "VM-02 cannot be powered on: its adapter is on DPortGroup-PVRDMA of DSwitch, and esx-02 is not a member: pvrdmactl dvs add-host DSwitch esx-02"
_FAULT = {"id": 1, "adapter": "VM-01", "drop": 0.01, "duplicate": 0, "delay": 0, "reorder": 0.5, "corrupt": 0, "late_ms": 20, "seed": 123456789,
          "counts": {"messages": 12000, "dropped": 118, "duplicated": 0, "delayed": 0, "reordered": 6021, "corrupted": 0}}
_CAPTURE = {"id": 1, "adapter": "VM-01", "filter": "qp 17 and (op write or error)", "snaplen": 96, "count": 0, "duration": 600, "started_s": 1767322800,
            "sent_bytes": 5 << 20, "dropped": 12}


@dataclass
class State:
    """`tells`: by path, what the daemon answers instead, or a function that changes its answer. `text`: what the page says then."""

    name: str
    view: str
    text: str = ""
    tells: dict[str, Any] = field(default_factory=dict)
    act: Callable[[Browser], object] = lambda _: None
    undo: Callable[[Browser], object] = lambda _: None

    def enter(self, browser: Browser) -> None:
        """Shows the state; its answers must be shown already."""
        browser.visit(self.view)
        self.act(browser)
        browser.wait(self.name, lambda: self.text in browser.text("main"))

    def shown(self, path: str, answer: Any) -> Any:
        """The answer of a path in this state."""
        told = self.tells.get(path, answer)
        if callable(told):
            told(answer)
            return answer
        return told


def _vm(vm_name: str, **members: Any) -> dict[str, Any]:
    return {"/v1/vms": lambda answer: next(vm for vm in answer if vm["name"] == vm_name).update(members)}


def _short(answer: Any) -> None:
    budgets = answer["adapters"][0]["budgets"]
    budgets["cqs"] |= {"use": 3900, "limit": 4096}
    budgets["commands_per_s"] |= {"use": 19900, "refused": 1203}


def _opener(button: str) -> Callable[[Browser], object]:
    return lambda browser: browser.click(button)


def _search(text: str) -> Callable[[Browser], object]:
    return lambda browser: browser.run(
        "const field = document.getElementById('search'); field.value = arguments[0]; field.dispatchEvent(new Event('input'))", text)


def _refuse(browser: Browser) -> None:
    browser.click("New Distributed Switch")
    browser.type("name", SWITCH)
    browser.click("Next", "dialog")
    browser.wait("the refusal", lambda: browser.refusal)


def _remove_hosts(browser: Browser) -> None:
    browser.click("Add and Manage Hosts")
    browser.run("document.getElementById('field-task-remove').click()")
    browser.next()
    browser.tick("esx-02:chosen", True)
    browser.click("Next", "dialog")
    browser.wait("the step, or a refusal while a VM of the host is on", lambda: browser.refusal or browser.step == "Ready to complete")


def _measure(browser: Browser) -> None:
    browser.click("Measure")
    browser.ok("Measure")


def _refuse_at_a_field(browser: Browser) -> None:
    browser.click("Edit")
    browser.tick("allow_all", False)
    browser.type("allowed", "1.2.3.4/99")
    browser.click("OK", "dialog")
    browser.wait("the refusal", lambda: browser.refusal)


def _lose_hosts(browser: Browser) -> None:
    browser.click("Edit")
    browser.tick("enabled", False)


def _filter(text: str) -> Callable[[Browser], object]:
    return lambda browser: browser.run(
        "const field = document.querySelector('main input[type=search]'); field.value = arguments[0]; field.dispatchEvent(new Event('input'))", text)


def _close(browser: Browser) -> None:
    browser.run("document.querySelector('dialog').close()")


_DEAD = {"/v1/hosts": lambda answer: answer[1].update(alive=False)}
_NATIVE = {"/v1/dvs": lambda answer: answer[0]["portgroups"][0].update(native_endpoints=True, native_peers=["10.77.5.0/24", "fd00::/64"]),
           "/v1/adapters": lambda answer: answer[0].update(native_endpoints="on")}

_TROUBLED = {"/v1/cluster": lambda answer: answer["tcp"].update(listening=False, trouble="the address 10.77.0.1 is not this host's") or
             answer["tcp"]["peers"][0].update(lanes_up=0, trouble="connection refused") or answer["store"].update(alarms="NOSPACE")}
_DOWN = {"/v1/hosts": lambda answer: answer[0]["rdma_devices"][0].update(active=False, vmknic="") or answer[0].update(firewall=False)}
_NOTHING: dict[str, Any] = {"/v1/vms": [], "/v1/dvs": [], "/v1/adapters": [], "/v1/paths/summary": []}
_BARE = {"/v1/version": lambda answer: answer.update(features=[])}
_QP = {"adapter": "VM-01", "type": "RC", "state": "RTS", "local_gid": "fe80::5054:ff:fe3f:e119", "remote_gid": "fe80::5054:ff:fe3f:dc65", "remote_qpn": 4, "peer_host": "esx-02",
       "path": "none", "path_reason": "host esx-02 is not alive, and no other host has the VM with this GID", "tx_messages": 8, "tx_bytes": 9, "rx_messages": 7, "rx_bytes": 9, "retransmits": 2}
_MANY = {"/v1/qps?adapter=VM-01&path=&after=0&limit=1000": [_QP | {"qpn": number} for number in range(1, 1001)]}
_CUT_OFF = {"/v1/paths/summary": [{"adapter": "VM-01", "path": "none", "reason": _QP["path_reason"], "peer_host": "esx-02", "connections": 12}]}

STATES = [
    State("store_away", "#/networking", "The store is away", {"/v1/cluster": lambda answer: answer["store"].update(connected=False, trouble=_AWAY)}),
    State("read_only", "#/vms/VM-01", "read-only token", {"/v1/version": lambda answer: answer.update(role="read-only")}),
    *(State(f"host_dead_{name}", view, "not alive", _DEAD)
      for name, view in (("home", "#/home"), ("monitor", "#/hosts/esx-02/monitor/budgets"), ("summary", "#/hosts/esx-02/summary"))),
    *(State(f"power_on_refusal_{name}", view, "cannot be powered on", _vm("VM-02", power="off", power_on_refusal=_REFUSAL))
      for name, view in (("home", "#/home"), ("summary", "#/vms/VM-02/summary"))),
    *(State(f"vm_off_{button}", "#/vms/VM-01", act=_opener(button), undo=_close, tells=_vm("VM-01", power="off"))
      for button in ("Edit Settings", "Upgrade VM Compatibility", "Remove")),
    *(State(name, view, act=_opener(button), undo=_close, tells=tells) for name, view, button, tells in (
        ("remove_switch", f"#/networking/{SWITCH}", "Remove", {}),
        ("remove_port_group", f"#/networking/{SWITCH}/configure/port-groups", f"Remove {PORTGROUP}", {}),
        ("remove_vmkernel_adapter", "#/hosts/esx-01/configure/vmkernel-adapters", "Remove vmk2", {}),
        ("remove_host", "#/hosts/esx-02", "Remove", _DEAD),
        ("remove_fault", "#/faults", "Remove fault 1", {"/v1/faults": [_FAULT]}),
        ("end_capture", "#/captures", "End capture 1", {"/v1/captures": [_CAPTURE]}),
        ("cancel_motion", "#/motions", "Cancel motion", {"/v1/motions": [RUNS]}))),
    State("remove_hosts", f"#/networking/{SWITCH}/configure/hosts", act=_remove_hosts, undo=_close),
    State("on_its_way", "#/vms/VM-02/summary", "on its way", _vm("VM-02", motion={"id": "m2", "to": "esx-01"})),
    *(State(f"long_name_{name}", view, "a-virtual-machine", _vm("VM-02", name=_LONG))
      for name, view in (("vms", "#/vms"), ("summary", f"#/vms/{_LONG}"), ("topology", "#/topology"))),
    State("native_on", "#/hosts/esx-01/monitor/native", "has no connection to a native endpoint", _NATIVE | {"/v1/qps?adapter=VM-01&path=roce": []}),
    State("native_port_group", f"#/networking/{SWITCH}/configure/port-groups", "fd00::/64", _NATIVE),
    State("budgets_short", "#/hosts/esx-01/monitor/budgets", "Nearly used up", {"/v1/budgets": _short}),
    State("faults", "#/faults", "Remove fault 1", {"/v1/faults": [_FAULT]}),
    State("faults_bar", "#/vms", "on purpose", {"/v1/faults": [_FAULT]}),
    State("capture_runs", "#/captures", "End capture 1", {"/v1/captures": [_CAPTURE]}),
    State("motion_failed", "#/motions", "the other host refused", {"/v1/motions": [FAILED, RUNS]}),
    State("motion_stands", "#/motions", "virsh resume", {"/v1/motions": [RUNS | {"phase": "stands"}]}),
    State("measured", "#/hosts/esx-01/monitor/hca", "measured at", act=_measure),
    State("refused", "#/networking", act=_refuse, undo=_close),
    State("topology_table", "#/topology", "From", act=lambda browser: browser.click("Table"), undo=lambda browser: browser.click("Drawing")),
    State("event_selected", "#/events", act=lambda browser: browser.run("document.querySelector('main tbody tr').click()")),
    State("help", "#/vms", "Keys", act=lambda browser: browser.click("?"), undo=lambda browser: browser.click("?")),
    State("search", "#/vms", act=_search("vm"), undo=_search("")),
    State("search_nothing", "#/vms", act=_search("no such thing"), undo=_search("")),
    State("columns", "#/connections/VM-01", act=lambda browser: browser.run("document.querySelector('main .chooser summary').click()")),
    State("troubled_neighbours", "#/hosts/esx-01/monitor/neighbours", "does not listen", _TROUBLED),
    State("troubled_home", "#/home", "not this host's", _TROUBLED),
    *(State(f"down_{name}", f"#/hosts/esx-01/{view}", text, _DOWN) for name, view, text in (
        ("rdma_adapter", "configure/rdma-adapters", "no VMkernel adapter is bound"), ("physical_adapter", "configure/physical-adapters", "Down"), ("firewall", "configure/firewall", "no effect"))),
    State("not_served", "#/vms/VM-01/summary", "socket", _vm("VM-01", not_served="the socket /run/pvrdma/VM-01.sock is in use by another process")),
    State("gid_lost", "#/vms/VM-01/summary", "lost to",
          {"/v1/adapters": lambda answer: answer[0].update(gids=[{"index": 0, "gid": "::ffff:192.168.11.51", "roce": "RoCE v2", "lost_to": "VM-02"}], trouble="its queue pairs are in error")}),
    *(State(f"nothing_{name}", view, text, _NOTHING) for name, view, text in (
        ("home", "#/home", "no switch"), ("vms", "#/vms", "No VM yet"), ("networking", "#/networking", "No distributed switch yet"), ("connections", "#/connections", "No QP"),
        ("topology", "#/topology", "Topology"), ("switches", "#/hosts/esx-01/configure/virtual-switches", "not a member"), ("budgets", "#/hosts/esx-01/monitor/native", "No port group"))),
    *(State(f"bare_{name}", view, text, _BARE) for name, view, text in (
        ("faults", "#/faults", "injects no faults"), ("events", "#/events", "older than its page"), ("other_host", "#/hosts/esx-02/monitor/budgets", "certificates"))),
    State("cut_off", "#/connections", "none", _CUT_OFF),
    State("cut_off_topology", "#/topology", act=lambda browser: browser.run("document.querySelector('svg a.topology-box').focus()"), tells=_CUT_OFF,
          undo=lambda browser: browser.run("document.activeElement.blur()")),
    State("many_qps", "#/connections/VM-01", "1 to 1000, by QPN", act=lambda browser: browser.run("document.querySelector('main tbody tr[role=row]').click()"), tells=_MANY),
    State("filtered_away", "#/hosts", "No row matches", act=_filter("no such thing"), undo=_filter("")),
    State("order_held", "#/hosts", "order held", act=lambda browser: browser.run("document.querySelector('main .sort').click(); document.querySelector('main [role=grid]').focus()"),
          undo=lambda browser: browser.run("document.activeElement.blur()")),
    *(State(name, "#/hosts/esx-01/configure/firewall", act=act, undo=_close) for name, act in (("refused_at_a_field", _refuse_at_a_field), ("firewall_loses_hosts", _lose_hosts))),
    State("remove_all_faults", "#/faults", act=_opener("Remove all"), undo=_close, tells={"/v1/faults": [_FAULT]}),
    State("no_view", "#/nothing", "no view"),
    State("no_vm", "#/vms/VM-99", "no VM"),
]
