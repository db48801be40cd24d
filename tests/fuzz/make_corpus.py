#!/usr/bin/python3
"""Writes the corpora of the fuzzers whose inputs are scripts or texts into tests/fuzz-corpus/.

    tests/fuzz/make_corpus.py [NAME ...]

Each seed is one starting point, and its name says which. The head of each fuzzer explains the bytes. Seeds that fuzzing has found
are in the same folders and stay as they are.
"""

from __future__ import annotations

import base64
import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from frames import Seeds, capture, cm_mad, roce_frame

CORPUS = Path(__file__).resolve().parents[1] / "fuzz-corpus"


def u16(value: int) -> bytes:
    return struct.pack("<H", value)


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def canary() -> Seeds:
    yield "letters", b"abcdef"


def changing_memory() -> Seeds:
    def send(connection: int, kind: int, size: int, place: int = 0) -> bytes:
        return bytes([0, connection, kind]) + u16(size) + u16(place)

    def receive(connection: int) -> bytes:
        return bytes([1, connection])

    def change(what: int, argument: int = 0, rest: bytes = b"") -> bytes:
        return bytes([what | argument << 3]) + rest

    def following(offset: int, value: int) -> bytes:  # writes 4 bytes at 4 * offset of the next read
        return change(2, offset, b"\x02" + u32(value))

    def entry(offset: int, address: int) -> bytes:  # as following(), but 8 bytes: an address
        return change(2, offset, b"\x03" + u64(address))

    def seed(script: bytes, steps: bytes, options: int = 0) -> bytes:
        return bytes([options]) + u16(len(script)) + script + steps

    run, poll = bytes([9]), bytes([3, 0])
    every_kind = b"".join(receive(1) + receive(2) + send(0, kind, 512) + send(2, kind, 512) for kind in range(5))
    yield "quiet", seed(b"", every_kind + run + poll)
    yield "work_follows_time", seed(b"", every_kind + bytes([10]) + u16(4000) + run)
    for name, index in {"tail_ahead": 9, "tail_huge": 0xffff_ffff, "tail_back": 0, "tail_full": 8, "tail_wrapped": 15}.items():
        for ring in range(3):
            yield f"{name}_ring{ring}", seed(change(5, 2 * ring, u32(index)) * 4, every_kind + run)
            yield f"{name}_after_ring{ring}", seed(change(1, 1) + change(5, 2 * ring + 1, u32(index)), every_kind + run)
    for field in range(0, 24):
        yield f"element_field{field}", seed(entry(field, 0xffff_ffff_ffff_fff0) * 12, every_kind + run)
    yield "element_num_sge", seed(change(0) * 2 + change(6, 0, bytes([0, 16, 2]) + u32(0x1000_0000)) * 6, every_kind)
    for pages in range(4):
        for what, value in {"page": 0x1_0000_0000, "odd": 0x1_0000_0001, "nowhere": 0xffff_ffff_f000}.items():
            yield f"directory_{what}_{pages}", seed(entry(0, value) * 3, bytes([5, pages]) * 4)
    yield "directory_is_replaced", seed(b"".join(entry(at, 0x1_0000_0000) for at in range(6)), bytes([5, 3]) * 3)
    yield "queues_directory", seed(entry(0, 0x1_0000_0000) * 8, bytes([6]) * 4)
    for command in (0, 3, 5, 7, 9, 13, 255):  # in the slot, after the driver has written it
        yield f"command_becomes_{command}", seed(following(2, command) * 8, bytes([5, 1, 6, 7, 0, 0, 7, 1, 1, 7, 2, 2]))
    yield "command_fields", seed(b"".join(following(field, 0xffff_ffff) for field in range(3, 20)), bytes([5, 1, 6, 5, 2, 6] * 4))
    yield "flips", seed(change(3, 1, b"\x01") * 40, every_kind + run + poll)
    yield "anywhere", seed(b"".join(change(4, 0, u32(4096 * page) + b"\x03" + u64(page)) for page in range(40)), every_kind + run)
    to_error = bytes([7, 0, 0, 7, 2, 1])
    yield "to_error_meanwhile", seed(change(5, 0, u32(8)) * 4, every_kind + to_error + run + poll)

    # Mapped doorbells: A's process has page 1.
    mapped = 1

    def word(page: int, which: int, value: int) -> bytes:
        return bytes([11, page, which]) + u32(value)

    def word_meanwhile(page: int, which: int, value: int) -> bytes:
        return change(7, page - 1, bytes([which]) + u32(value))

    context, later = bytes([12]), bytes([10]) + u16(1)
    doorbells = {"send": (0, 1 << 30), "receive": (0, 1 << 31), "both": (0, 3 << 30), "arm": (1, 1 << 30), "arm_solicited": (1, 1 << 29),
                 "poll": (1, 1 << 31), "srq": (2, 1 << 30), "none": (3, 1 << 31), "no_action": (0, 2)}
    yield "mapped_quiet", seed(b"", every_kind + run + poll, mapped)
    yield "mapped_work_follows_time", seed(b"", every_kind + bytes([10]) + u16(4000) + run, mapped)
    yield "mapped_to_error", seed(b"", every_kind + to_error + run + poll + later, mapped)
    yield "mapped_sleepers", seed(b"", (every_kind + bytes([4, 0, 4, 1, 4, 2]) + poll + run + later) * 2, mapped)
    yield "mapped_contexts", seed(word_meanwhile(2, 0, 1 << 30) * 8, (word(2, 0, 1 << 30) + context + word(2, 1, 1 << 30) + run) * 3, mapped)
    for name, (which, action) in doorbells.items():
        for handle in (0, 2, 3, 0xff_ffff):  # unused, of two objects, unused
            yield f"mapped_{name}_{handle}", seed(word_meanwhile(1, which, action | handle) * 12, every_kind + word(1, which, action | handle) + run + later + every_kind + run, mapped)
        yield f"mapped_{name}_elsewhere", seed(word_meanwhile(3, which, action | 2) * 12, every_kind + b"".join(word(page, which, action | 2) for page in (0, 2, 255)) + run, mapped)
    for name, index in {"tail_ahead": 9, "tail_huge": 0xffff_ffff, "tail_back": 0, "tail_full": 8, "tail_wrapped": 15}.items():
        for ring in range(3):
            yield f"mapped_{name}_ring{ring}", seed((change(5, 2 * ring, u32(index)) + word_meanwhile(1, 0, 1 << 30 | 2)) * 4, every_kind + run + later, mapped)


def hca_bulk() -> Seeds:
    def offer(ident: int, pair: int, kind: int = 0, connection: int = 0) -> bytes:
        return bytes([0, ident, pair + 4 * connection, kind])

    def lent(pair: int, connection: int, size: int, runs: int = 3, lie: int = 0) -> bytes:
        return bytes([1, pair, connection]) + u16(size - 1) + bytes([runs - 1, lie])

    def small(pair: int, connection: int) -> bytes:
        return bytes([2, pair, connection, 99])

    def stopped(ident: int) -> bytes:
        return bytes([3, ident])

    def stop(pair: int) -> bytes:
        return bytes([4, pair])

    def wait(microseconds: int) -> bytes:
        return bytes([7]) + u16(microseconds)

    memory_goes = bytes([5])
    # The first offer comes before the VM's memory is registered.
    ready = offer(1, 0) + wait(100) + offer(2, 0) + offer(3, 1) + offer(20, 0, connection=1) + offer(21, 1, connection=1) + wait(100)
    yield "fetched", ready + lent(0, 0, 9000) + lent(1, 1, 16000) + wait(500) + small(0, 0)
    yield "small_behind_a_loan", ready + lent(0, 0, 9000) + small(0, 0) + small(0, 0) + small(0, 1) + wait(500)
    for lie in (1, 2, 3):
        yield f"wrong_key_{lie}", ready + lent(0, 0, 9000, 4, lie) + lent(1, 0, 9000) + wait(500) + lent(1, 1, 9000)
    yield "no_such_qp", ready + offer(4, 2, 2) + lent(2, 0, 9000) + wait(999) * 3
    yield "nobodys", offer(1, 0, 1) + wait(100) + offer(2, 0, 1) + lent(0, 0, 9000) + wait(500)
    yield "stop_while_fetched", ready + lent(0, 0, 16000, 8) + wait(60) + stop(0) + wait(500) + stopped(2) + lent(0, 0, 9000)
    yield "memory_goes", ready + lent(0, 0, 16000) + wait(60) + memory_goes + wait(500) + stopped(2) + offer(5, 0) + wait(100)
    ahead = ready + lent(0, 0, 9000) * 3 + lent(0, 1, 9000) * 2
    yield "ahead", ahead + wait(500) + small(0, 0)
    yield "stop_ahead", ahead + wait(60) + stop(0) + wait(500)
    yield "wrong_key_ahead", ready + lent(0, 0, 9000) + lent(0, 0, 9000, 4, 1) + lent(0, 0, 9000) + wait(500) + lent(0, 1, 9000)
    yield "refused", bytes([6, 1]) + ready + lent(0, 0, 9000) + bytes([6, 2]) + lent(0, 0, 9000) + wait(500)
    yield "offered_again", ready + lent(0, 0, 16000) + wait(60) + offer(9, 0) + offer(9, 1) + offer(8, 0, connection=3) + lent(0, 0, 9000) + wait(500)
    yield "no_room", ready + b"".join(lent(0, i, 9000) for i in range(60)) + wait(500) * 8
    yield "no_offer", lent(0, 0, 9000) + small(0, 0) + stopped(7) + lent(0, 1, 16000)
    yield "many_offers", ready + b"".join(offer(10 + i, i) for i in range(80)) + lent(3, 0, 9000) + wait(500)
    def returned(ident: int, count: int) -> bytes:
        return bytes([8, ident, count])

    def lend_answer(pair: int, connection: int, size: int) -> bytes:
        return bytes([9, pair, connection]) + u16(size - 1)

    stand = ready + returned(2, 0) + returned(3, 0) + wait(200)
    yield "answers_lent", stand + lend_answer(0, 0, 9000) * 3 + lend_answer(1, 0, 9000) + returned(2, 2) + returned(3, 1) + returned(2, 3) + wait(200)
    yield "answers_lent_too_many", stand + lend_answer(0, 0, 9000) * 20 + returned(2, 16) + wait(200) + lend_answer(0, 0, 9000)
    yield "returned_too_many", stand + lend_answer(0, 0, 9000) * 2 + returned(2, 3) + wait(100) + stopped(2)
    yield "answers_lent_and_stopped", stand + lend_answer(0, 0, 9000) + stop(0) + lend_answer(0, 0, 9000) + wait(100) + stopped(2)
    yield "answers_lent_at_the_end", stand + lend_answer(0, 0, 9000) * 4 + stopped(2) + wait(200) + lend_answer(1, 0, 16000)
    yield "answers_lent_and_memory_goes", stand + lend_answer(0, 0, 9000) + memory_goes + returned(2, 1) + wait(200)
    yield "answers_to_nobody", ready + lend_answer(0, 0, 9000) + returned(77, 1)


def hca_lender() -> Seeds:
    def answered(pair: int, connection: int, size: int, runs: int = 3, lie: int = 0) -> bytes:
        return bytes([0, pair, connection]) + u16(size - 1) + bytes([runs - 1, lie])

    def stopped(ident: int) -> bytes:
        return bytes([1, ident])

    def answer(ident: int) -> bytes:
        return bytes([2, ident])

    def offers(what: int) -> bytes:
        return bytes([3, what])

    def ask(pair: int, connection: int, size: int = 9000) -> bytes:
        return bytes([4, pair, connection]) + u16(size - 1)

    def lend(pair: int, connection: int, size: int = 9000) -> bytes:
        return bytes([5, pair, connection]) + u16(size - 1)

    def stop(pair: int) -> bytes:
        return bytes([6, pair])

    def verdict(what: int) -> bytes:
        return bytes([8, what])

    def wait(microseconds: int) -> bytes:
        return bytes([9]) + u16(microseconds)

    memory_goes = bytes([7])
    ready = ask(0, 0) + wait(500) + ask(1, 0) + ask(0, 1) + wait(500) + ask(0, 0) + wait(500)
    yield "fetched", ready + answered(0, 0, 9000) + answered(1, 0, 16000) + answered(0, 1, 100) + wait(900)
    yield "too_large", ready + answered(0, 0, 16384 + 90) + wait(900) + answered(0, 0, 9000) + wait(500)
    yield "many", ready + answered(0, 0, 9000, 8) * 16 + wait(999) * 3
    yield "too_many", ready + answered(0, 0, 9000, 8) * 18 + wait(999) * 3 + ask(0, 0)
    for lie in (1, 2, 3):
        yield f"wrong_key_{lie}", ready + answered(0, 0, 9000, 4, lie) + answered(0, 1, 9000) + wait(900) + answered(0, 0, 9000)
    yield "stop_while_fetched", ready + answered(0, 0, 16000, 8) * 3 + wait(60) + stop(0) + wait(900) + ask(0, 0) + wait(900)
    yield "stopped_while_fetched", ready + answered(0, 0, 16000, 8) * 2 + wait(60) + stopped(1) + wait(900)
    yield "memory_goes", ready + answered(0, 0, 16000) + wait(60) + memory_goes + wait(900) + ask(0, 0) + wait(900)
    yield "refused", ready + verdict(1) + answered(0, 0, 9000) * 3 + verdict(2) + answered(0, 0, 9000) + wait(900)
    yield "nobody_asked", answered(0, 0, 9000) + stopped(3) + answer(1) + ask(0, 0) + answer(1) + wait(500)
    for what in (1, 2, 3):
        yield f"offers_{what}", offers(what) + ask(0, 0) + wait(900) + answer(1) + answered(0, 0, 9000) + wait(900)
    yield "lent", ready + lend(0, 0) * 4 + stopped(1) + wait(900) + lend(0, 0)


def lying_peer() -> Seeds:
    def victim(kind: int, size: int) -> bytes:
        return bytes([0, kind]) + u16(size)

    def peer(kind: int, size: int) -> bytes:
        return bytes([1, kind]) + u16(size)

    def move(rounds: int = 7) -> bytes:
        return bytes([4, rounds])

    def seed(script: bytes, steps: bytes, start: int = 0) -> bytes:
        return bytes([start]) + u16(len(script)) + script + steps

    receives = bytes([2, 3]) * 4
    both = receives + b"".join(victim(kind, 300) + peer(kind, 300) for kind in range(5)) + move() + move()
    large = receives + peer(1, 30000) + victim(2, 900) + peer(2, 900) + victim(1, 30000) + move() + move()
    later = bytes([5]) + u16(300) + move()
    yield "truth", seed(b"", both)
    yield "truth_large", seed(b"", large)
    for start in range(8):
        yield f"start{start}", seed(b"", both + both, start)
        yield f"start{start}_lost", seed(bytes([0, 1, 0, 1]), both + later + later, start)
    names = ["none", "drop", "repeat", None, None, None, "hold", "release", "break"]
    for lie, name in enumerate(names):
        if name is not None:
            yield name, seed(bytes([lie]) * 8, both + later)
            yield name + "_wrap", seed(bytes([lie]) * 8, both + later, 6)
    yield "hold_and_release", seed(bytes([6, 6, 6, 7]), both + later)
    for field in range(14):
        for name, value in {"near": b"\x01" * 8, "back": b"\xff" * 8, "huge": b"\x00" + b"\xff" * 8, "small": b"\x00" * 9}.items():
            yield f"request_{name}_field{field}", seed((bytes([3, field]) + value) * 4, receives + peer(1, 300) + peer(0, 99) + peer(4, 8) + move() + later)
    for field in range(9):
        for name, value in {"one": b"\x01" * 6, "six": b"\x06" * 6, "huge": b"\xff" * 8}.items():
            yield f"response_{name}_field{field}", seed((bytes([3, field]) + value) * 4, receives + victim(2, 900) + victim(4, 8) + victim(1, 300) + move() + later)
    yield "split", seed((bytes([5]) + u16(100)) * 8, both + later)
    yield "split_large", seed((bytes([5]) + u16(9000)) * 3, large)
    yield "split_lost", seed(bytes([5]) + u16(100) + bytes([1, 8]), both + later)
    for place in range(6):
        yield f"writes_to_place{place}", seed(bytes([3, 5, place]) + u16(0) + bytes([3, 5, place]) + u16(0xfff0), receives + peer(1, 300) + peer(1, 300) + move())
        yield f"reads_place{place}", seed(bytes([4, 8, 2, 5, place]) + u16(16), receives + peer(1, 300) + move())
        yield f"atomic_on_place{place}", seed(bytes([4, 8, 4, 5, place]) + u16(0), receives + peer(4, 8) + move())
        yield f"invalidates_place{place}", seed(bytes([3, 9, 2, place]), receives + peer(0, 8) + move())
    yield "garbled", seed(b"".join(bytes([9, at, 0x80]) for at in range(0, 60, 4)), both * 4)
    yield "sequence", seed(bytes([10, 1, 10, 255]), both + later)
    yield "invented", seed(bytes([11]) + bytes(range(60)) * 3, receives + bytes([6, 0, 6, 1]) * 8 + move() + later)
    yield "cuts", seed(b"", receives + peer(1, 3000) + bytes([7, 0]) + victim(1, 3000) + bytes([7, 1]) + move() + later + both)
    yield "silence", seed(b"", both + (bytes([5]) + u16(4000)) * 2 + both)


def config() -> Seeds:
    adapter = '[[adapter]]\nname = "VM-01"\nsocket = "/run/pvrdma/vm-01.sock"\nmac = "52:54:00:12:34:51"\nhardware_version = 14\n'
    host = '[host]\nname = "esx-01"\nvmnics = ["lo"]\n'
    yield "adapter", adapter.encode()
    yield "all_of_an_adapter", (adapter + 'roce = "v2"\nprofile = "esxi"\ndoorbells = "mapped"\n').encode()
    yield "daemon", ('[daemon]\napi_socket = "/run/a.sock"\nlog_level = "debug"\nspin_us = "forever"\n' + adapter).encode()
    yield "sqlite", (host + '[store]\ntype = "sqlite"\npath = "/var/lib/pvrdma/store.db"\n').encode()
    yield "etcd", (host + '[store]\ntype = "etcd"\nendpoints = ["http://10.0.0.1:2379", "https://[fd00::1]:2379"]\nprefix = "/p/"\nlease_s = 10\n').encode()
    yield "tcp", (host + '[tcp]\nlanes = 4\ncongestion_control = "cubic"\n').encode()
    yield "api", (adapter + '[api]\nlisten = "[::1]:8443"\ncertificate = "/nonexistent"\nkey = "/nonexistent"\ntoken_file = "/nonexistent"\n').encode()
    yield "wrong_value_of_a_list", (adapter + 'addresses = ["10.0.0.5", "x"]\n').encode()
    yield "roce", (adapter + '[[roce]]\nlink = "stream:/run/hub.sock"\npeers = ["192.168.0.0/16", "fd00::/8"]\n').encode()
    yield "roce_of_switches", (host + '[[roce]]\nlink = "tap:pvroce0"\nswitch = "DSwitch"\nvlan = 105\n[[roce]]\nlink = "xdp:veth7"\nswitch = "DSwitch"\n').encode()
    yield "flag_of_a_link", (adapter + "\0tap:pvroce0").encode()
    yield "flags", (adapter + "\0name=VM-02,socket=/b.sock,mac=52:54:00:12:34:52,hw=17,roce=v1\0name=VM-03,socket=/c.sock,mac=52:54:00:12:34:53,hw=18,profile=esxi,doorbells=mapped").encode()
    yield "unknown_key_of_other_bytes", ('[daemon]\n"größe" = 1\n' + adapter).encode()
    yield "unknown_key_that_is_long", ("[daemon]\n" + "a" * 100 + " = 1\n" + adapter).encode()
    yield "unknown_flag_of_other_bytes", b"\0\xbb=1"
    yield "toml_shapes", b'daemon = 1\n[adapter]\n[[host]]\n[a.b.c]\nd = [1, {x = 1979-05-27T07:32:00Z}]\n'
    yield "numbers", (adapter.replace("14", "0x0e") + "[daemon]\nspin_us = 1e3\n").encode()
    yield "no_toml", b'[daemon\nx = "\\ud800"\n'


def etcd_codec() -> Seeds:
    def b64(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    def seed(answer: object) -> bytes:
        return b"\x03/p/" + json.dumps(answer).encode()

    header = {"cluster_id": "18446744073709551615", "revision": "5"}
    pair = {"key": b64("/p/a"), "value": b64("1"), "mod_revision": "4"}
    yield "range", seed({"header": header, "kvs": [pair, {"key": b64("/p/b")}], "more": True, "count": "7"})
    yield "txn", seed({"header": header, "succeeded": True})
    yield "grant", seed({"header": header, "ID": "77", "TTL": "5"})
    yield "keep_alive", seed({"result": {"header": header, "ID": "77", "TTL": "5"}})
    yield "token", seed({"header": header, "token": "abc.1"})
    yield "watch", seed({"result": {"header": header, "events": [{"kv": pair}, {"type": "DELETE", "kv": {"key": b64("/p/c"), "mod_revision": "6"}}]}})
    yield "watch_created", seed({"result": {"header": header, "created": True}})
    yield "watch_compacted", seed({"result": {"header": header, "canceled": True, "compact_revision": "2", "cancel_reason": "compacted"}})
    yield "error", seed({"error": "gone", "message": "gone", "code": 5})
    yield "error_of_a_stream", seed({"error": {"grpc_code": 16, "http_code": 401, "message": "who?"}})
    yield "revision_too_large", seed({"header": {"revision": "9223372036854775807"}, "kvs": [pair]})
    yield "key_without_prefix", seed({"header": header, "kvs": [{"key": b64("/q/a")}]})
    yield "deep", b"\x00" + b'{"header":' + b"[" * 64
    yield "bytes", b"\x00\xff\xfe{\x00\"\xc3\x28\"}"


def api() -> Seeds:
    def request(method: str, path: str, body: object = None, *headers: str) -> bytes:
        text = "" if body is None else json.dumps(body)
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(text)}"]
        return ("\r\n".join(lines) + "\r\n\r\n" + text).encode()

    dvs = request("POST", "/v1/dvs", {"name": "dvs", "version": "8.0.0", "uplinks": ["uplink1", "uplink2"]})
    group = request("PUT", "/v1/dvs/dvs/portgroups/pg", {"vlan": 5})
    member = request("PUT", "/v1/dvs/dvs/hosts/esx-01", {})
    vm = request("POST", "/v1/vms", {"name": "vm-a", "host": "self", "hardware_version": 14, "memory_mib": 1024})
    adapter = request("PUT", "/v1/vms/vm-a/adapter", {"dvs": "dvs", "portgroup": "pg", "mac": "52:54:00:00:00:0a", "protocol": "v2", "doorbells": "mapped"})
    for path in ("cluster", "hosts", "hosts/self", "hosts/self/advanced", "hosts/self/rulesets", "hosts/self/rulesets/pvrdma/rules",
                 "dvs", "vms", "adapters", "adapters/VM-01", "qps", "paths", "stats", "version", "hosts/self/rdma/vmrdma0/stats"):
        yield "get_" + path.replace("/", "_"), request("GET", "/v1/" + path)
    yield "get_metrics", request("GET", "/metrics") + request("GET", "/openapi.json") + request("HEAD", "/v1/version")
    yield "switch", dvs + group + member + request("PUT", "/v1/dvs/dvs/hosts/esx-01/uplinks/uplink1", {"vmnic": "vmnic0"}) + request("DELETE", "/v1/dvs/dvs/portgroups/pg") + request("DELETE", "/v1/dvs/dvs")
    yield "vm", dvs + group + member + vm + adapter + request("GET", "/v1/vms/vm-a/qemu-args") + request("GET", "/v1/vms/vm-a/libvirt-xml") + request("DELETE", "/v1/vms/vm-a")
    yield "vm_changes", vm + request("PATCH", "/v1/vms/vm-a", {"memory_mib": 2048, "memory_reserved_mib": 2048}) + request("POST", "/v1/vms/vm-a/upgrade", {"hardware_version": 18}) + request("GET", "/v1/vms")
    yield "host", request("POST", "/v1/hosts/self/vmks", {"name": "vmk2", "address": "10.0.0.1"}) + request("PUT", "/v1/hosts/self/advanced?path=/Net/PVRDMAVmknic", {"path": "/Net/PVRDMAVmknic", "value": "vmk2"}) + request("DELETE", "/v1/hosts/self/vmks/vmk2")
    yield "ruleset", request("PATCH", "/v1/hosts/self/rulesets/pvrdma", {"enabled": True, "allow_all": False}) + request("POST", "/v1/hosts/self/rulesets/pvrdma/allowed", {"address": "10.0.0.0/24", "network": "10.0.0.0/24"}) + request("DELETE", "/v1/hosts/self/rulesets/pvrdma/allowed?network=10.0.0.0/24")
    yield "link", request("PUT", "/v1/adapters/VM-01/link", {"up": False})
    yield "capture", request("POST", "/v1/adapters/VM-01/capture", {"filter": "op write", "snaplen": 96, "count": 3, "duration": 1})
    yield "wrong_bodies", request("POST", "/v1/vms", [1, 2]) + request("POST", "/v1/dvs", {"name": 3}) + request("POST", "/v1/vms", {"name": "x" * 300})
    yield "chunked", b"POST /v1/vms HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"na\r\n5\r\nme\":1\r\n0\r\n\r\n"
    yield "lengths", b"POST /v1/vms HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n{}" + b"PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"
    yield "expects", b"POST /v1/vms HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}"
    yield "ranges", request("GET", "/v1/hosts", None, "Range: bytes=0-1,2-3,-1")
    yield "paths", request("GET", "/v1/hosts/%00%ff/../x//y?a=%zz&&b") + request("GET", "*") + request("GET", "/" + "a/" * 600)
    yield "multipart", b"POST /v1/vms HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 20\r\n\r\n--x\r\n\r\n\r\n--x--\r\n....."
    yield "no_http", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)


def device_descriptors() -> Seeds:
    kinds = ["ram", "sealed", "short", "read_only", "path_of_memory", "event", "full_event", "semaphore", "pipe_in", "pipe_out", "socket",
             "null", "zero", "folder", "path", "epoll", "timer", "inotify", "doorbells"]
    event = kinds.index("event")
    changes = ["blocking", "non_blocking", "append", "async", "shrink", "shrink_to_page", "grow", "seal", "fill", "drain", "punch"]
    version, command, leave = bytes([3]), bytes([5]), bytes([6])

    def attach(memory: int = 0, first: int = event) -> bytes:
        return bytes([4, memory, first, first, first])

    def change(kind: int, what: str) -> bytes:
        return bytes([2, kind, changes.index(what)])

    def message(number: int, fds: list[int], rest: bytes = b"") -> bytes:
        return bytes([0, number, len(fds), *fds]) + rest

    yield "proper", attach() + command * 3 + leave + attach() + command
    for kind, name in enumerate(kinds):
        yield f"interrupt_{name}", attach(0, kind) + command * 2 + change(kind, "fill") + change(kind, "blocking") + command * 2
        yield f"memory_{name}", attach(kind) + command * 2
        yield f"before_version_{name}", message(0, [kind]) + bytes([1, 1, kind, 4, 1, 2, 3, 4])
        yield f"with_every_message_{name}", version + b"".join(message(number, [kind] * 2, bytes([3, 1, 1, 1, 1, 1, 1, 1])) for number in range(12))
    for what in changes:
        yield f"memory_{what}", attach() + command + change(0, what) + command * 3
        yield f"event_{what}", attach() + command + change(event, what) + command * 3
        yield f"event_{what}_blocking", attach() + change(event, "fill") + change(event, "blocking") + change(event, what) + change(event, "blocking") + command * 2
    yield "too_many", version + message(1, [event] * 10) + attach()
    yield "two_events_for_one", attach() + message(6, [event, event], bytes([36, 2, 0, 1])) + command
    yield "event_taken_away", attach() + message(6, [], bytes([36, 2, 0, 1])) + command
    def store(word: int, value: int) -> bytes:
        return bytes([8, word]) + u32(value)

    process, doorbells = bytes([7]), kinds.index("doorbells")
    yield "doorbells_stored", attach() + process + b"".join(store(word, value) for word in (0, 1, 2, 255) for value in (1 << 30, 1 << 31, 0xffff_ffff)) + command
    yield "doorbells_punched", attach() + process + (store(0, 1 << 30) + change(doorbells, "punch") + command) * 3
    yield "doorbells_changed", attach() + process + b"".join(change(doorbells, what) + store(1, 1 << 30) for what in changes) + leave + attach() + process + store(0, 1)
    yield "doorbells_as_memory", attach(doorbells) + process + store(0, 1 << 30) + command
    yield "unmapped", attach() + message(2, [], bytes([0, 0, 64])) + command

    # Migration: there is only one adapter. It loads the state that it had before a reset.
    stop, running, stop_copy, resuming = 1, 2, 3, 4

    def to(*states: int) -> bytes:
        return b"".join(bytes([9, state]) for state in states)

    def write(first: int = 0, size: int = 0xffff, flip: int = 0) -> bytes:
        return bytes([11]) + u16(first) + u16(size) + bytes([flip])

    def log(what: int, page: int = 0, pages: int = 64, size: int = 0) -> bytes:
        return bytes([12, what, page, pages, size])

    read, reset = bytes([10]) + u16(0xffff), message(9, [], b"\0")
    saved = attach() + process + to(stop_copy) + read + reset
    for name, state in {"error": 0, "stop": stop, "running": running, "stop_copy": stop_copy, "resuming": resuming, "none": 5, "pre_copy": 6}.items():
        yield f"state_{name}", attach() + to(state) + command + to(running) + command + to(state)
        yield f"state_{name}_of_a_fresh_one", version + to(state, stop, state, running, state) + read + write() + reset + attach() + command
    yield "moves", saved + to(resuming) + write() + to(stop, running) + command + store(0, 1 << 30) + command
    yield "moves_in_pieces", saved + to(resuming) + b"".join(write(at, 300) for at in range(0, 3000, 300)) + to(running) + command
    yield "moves_twice", (saved + to(resuming) + write() + to(running) + command) * 2
    for at in (1, 12, 100, 500, 900):
        yield f"moves_cut_at_{at}", saved + to(resuming) + write(0, at) + to(stop) + write() + to(running) + command
        yield f"moves_changed_at_{at}", saved + to(resuming) + write(0, at) + write(at, 0xffff, 64) + to(running) + reset + attach() + command
        yield f"moves_doubled_at_{at}", saved + to(resuming) + write() + write(at) + to(stop) + reset + attach() + command
    yield "leaves_resuming", saved + to(resuming) + write() + leave + attach() + command
    yield "logged", attach() + log(0) + command + log(2) + command * 2 + log(2, 3, 9) + log(2, 0, 64, 6) + log(1) + command
    yield "logged_over_a_move", attach() + log(0) + process + to(stop_copy) + read + log(2) + reset + to(resuming) + write() + to(running) + command + log(2)
    yield "logged_as_memory_goes", attach() + log(0) + change(0, "shrink") + command + log(2) + log(1) + log(0)


def device_command() -> Seeds:
    """The existing seeds, with mapped doorbells: a doorbell on a user's page becomes a store into that page."""
    doorbell, store, hole, run, mapped = 4, 11, 12, 6, 8

    def record(op: int, content: bytes) -> bytes:
        return bytes([op]) + u16(len(content)) + content

    def stored(seed: bytes) -> bytes:
        out, at = bytes([seed[0] | mapped]), 1
        while at + 3 <= len(seed):
            op, size = seed[at], int.from_bytes(seed[at + 1:at + 3], "little")
            content = seed[at + 3:at + 3 + size]
            page = int.from_bytes(content[:2], "little")
            if op == doorbell and 1 <= page < 1024:
                op, content = store, u16(page - 1) + content[2:]
            out += record(op, content)
            at += 3 + size
        return out + record(run, b"\1") * 2

    for path in sorted((CORPUS / "device_command_fuzz").iterdir()):
        if not path.name.startswith("mapped_"):
            yield f"mapped_{path.name}", stored(path.read_bytes())
    words = b"".join(record(store, u16(0) + u16(4 * word) + u32(action << 29 | handle)) + record(run, b"\1")
                     for word in range(4) for action in range(8) for handle in (0, 3))
    for version in range(4):
        yield f"mapped_words_v{version}", bytes([version | 4 | mapped]) + words
    yield "mapped_holes", bytes([7 | mapped]) + (words[:40] + record(hole, u16(0) + u16(1100)) + record(run, b"\1")) * 3
    yield "mapped_other_pages", bytes([7 | mapped]) + b"".join(record(store, u16(page) + u16(0) + b"\xff" * 8) for page in (1, 30, 1021, 1022, 1023)) + record(run, b"\1")


def tls_stream() -> Seeds:
    move, write, stop = bytes([0]), bytes([1]) + u16(1000), bytes([4])
    hands = move * 3

    def keys(count: int) -> bytes:
        return bytes([2, count])

    for how in range(8):
        yield f"plain_{how}", bytes([how]) + hands + write + move + bytes([8]) + u16(30000) + move + stop + move
        yield f"new_keys_{how}", bytes([how]) + hands + write + move + keys(8) + move + write + move + keys(9) + move
        yield f"flood_{how}", bytes([how]) + hands + keys(200) + write + move + keys(201) + move * 2
        yield f"renegotiates_{how}", bytes([how]) + hands + (bytes([3]) + move) * 12 + write + move
        for at in (0, 5, 40):
            yield f"changed_{how}_at{at}", bytes([how]) + hands + bytes([6]) + u16(at) + b"\x01" + write + move
            yield f"cut_{how}_at{at}", bytes([how]) + hands + bytes([7]) + u16(at) + write + move
            yield f"handshake_cut_{how}_at{at}", bytes([how]) + bytes([7]) + u16(at) + hands
            yield f"handshake_changed_{how}_at{at}", bytes([how]) + move + bytes([6]) + u16(at) + b"\xff" + hands
    for how in (8, 9):
        yield f"http_{how}", bytes([how, 5, 18]) + b"GET / HTTP/1.1\r\n\r\n" + move
        yield f"alert_{how}", bytes([how, 5, 7]) + bytes([21, 3, 3, 0, 2, 2, 40]) + move
        yield f"empty_records_{how}", bytes([how]) + bytes([5, 50]) + bytes([22, 3, 3, 0, 0]) * 10 + move
        yield f"half_a_hello_{how}", bytes([how, 5, 11]) + bytes([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]) + move


def roce_connection() -> Seeds:
    write, write_immediate, send, send_immediate, read, add, swap = range(7)

    def post(side: int, opcode: int, size: int, place: int = 0, key: int = 1) -> bytes:
        return bytes([0, side, opcode]) + u16(size) + u16(place) + bytes([key])

    def receive(side: int, size: int) -> bytes:
        return bytes([1, side]) + u16(size)

    def packet(side: int, opcode: int, ahead: int = 0, flags: int = 2, place: int = 0, dma: int = 8, size: int = 8) -> bytes:
        payload = b"" if flags & 32 else u16(size)
        return bytes([7, side, opcode, ahead & 255, flags]) + u32(place) + u32(dma) + bytes([0x1F]) + payload

    deliver, swap_two, double, time = bytes([2, 64]), bytes([5]), bytes([4]), bytes([9]) + u16(60_000)
    lose = bytes([3, 0])
    for name, opcode in [("write", write), ("write_immediate", write_immediate), ("send", send), ("send_immediate", send_immediate), ("read", read)]:
        yield name, receive(1, 5000) + post(0, opcode, 3000) + deliver * 3
        yield name + "_lost", receive(1, 5000) + post(0, opcode, 3000) + bytes([2, 2]) + lose + (deliver + time) * 6
        yield name + "_both_ways", (receive(0, 300) + receive(1, 300) + post(0, opcode, 300) + post(1, opcode, 300)) * 4 + deliver * 4
    yield "atomics", post(0, add, 8) + post(0, swap, 8, 64) + deliver * 2 + post(1, add, 8) + lose + (time + deliver) * 4
    yield "reads_behind_writes", (post(0, read, 1000) + post(0, write, 100)) * 4 + deliver + swap_two + deliver + (time + deliver) * 2
    yield "not_ready", post(0, send, 100) + deliver * 2 + receive(1, 200) + (time + deliver) * 3
    yield "no_access", post(0, write, 100, 0, 0) + deliver * 2
    yield "beyond", post(0, write, 5000, 9000) + deliver * 2
    yield "doubled_swapped", post(0, write, 3000) + double + swap_two + deliver * 4 + time + deliver
    yield "changed", b"".join(post(0, write, 300) + bytes([6]) + u16(place) + b"\x01" + deliver * 2 for place in (42, 43, 47, 50, 53, 54, 62, 66))
    yield "other_paths", post(0, write, 5000) + bytes([10, 1]) + deliver + bytes([10, 0]) + (deliver + time) * 3
    for opcode in range(26):
        yield f"packet_{opcode:02}", b"".join(packet(0, opcode, ahead) for ahead in (0, 1, -1)) + deliver
        yield f"answer_{opcode:02}", post(1, read, 1000) + post(1, write, 500) + b"".join(packet(0, opcode, -i, 1 | 32) for i in range(1, 7)) + deliver
    yield "flood_of_reads", packet(0, 12, 0, 18, 0, 1 << 31) + packet(0, 12, 0, 2, 0, 9000) * 20 + deliver * 2
    yield "marked", packet(0, 10, 0, 6) + deliver


CORPORA: dict[str, Callable[[], Seeds]] = {
    "api_fuzz": api,
    "canary_fuzz": canary,
    "capture_fuzz": capture,
    "changing_memory_fuzz": changing_memory,
    "cm_mad_fuzz": cm_mad,
    "config_fuzz": config,
    "device_command_fuzz": device_command,
    "device_descriptors_fuzz": device_descriptors,
    "etcd_codec_fuzz": etcd_codec,
    "hca_bulk_fuzz": hca_bulk,
    "hca_lender_fuzz": hca_lender,
    "lying_peer_fuzz": lying_peer,
    "roce_connection_fuzz": roce_connection,
    "roce_frame_fuzz": roce_frame,
    "tls_stream_fuzz": tls_stream,
}


def main() -> int:
    """The exit status."""
    for name in sys.argv[1:] or CORPORA:
        if name not in CORPORA:
            print(f"make_corpus: {name} has no seeds here: known are {', '.join(CORPORA)}", file=sys.stderr)
            return 2
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        seeds = dict(CORPORA[name]())
        for seed, content in seeds.items():
            (folder / seed).write_bytes(content)
        print(f"make_corpus: {len(seeds)} seeds of {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
