"""Makes cases for the guests' programs, with the output of each after a success."""

from __future__ import annotations

import dataclasses
import re

from harness.cases import Case

# What rping prints when its peer is killed. The peer's memory may be gone before its connection is: then a request that is under
# way fails with a remote access error.
RPING_PEER_ENDED = re.compile("DISCONNECT EVENT|cq completion failed status 10$", re.MULTILINE)
_LOAD_GUARD_S = 240
# A program that is killed loses its memory before its QPs. The peer's request that is under way then fails with a remote access
# error. So the program is stopped first, and the adapter has time to answer: the peer then waits for the program's next message.
_STOP_AND_KILL = "kill -STOP $!; sleep 1; kill -KILL $!"
_RPING_IS_CONNECTED = "until rdma resource show qp | grep 'comm rping' | grep -q 'state RTS'; do sleep 0.1; kill -0 $! || exit 1; done"
# Waits up to 10 s until the command ends, because its peer ends. Kills it otherwise.
_WAIT_AND_KILL = "n=0; while kill -0 $! && [ $((n += 1)) -le 100 ]; do sleep 0.1; done; kill $! || true"
_PINGPONG_RESULT = r"^\d+ bytes in [\d.]+ seconds"


def pingpong(kind: str, arguments: str = "", gid_index: int = 0, port: int = 18515) -> Case:
    """ibv_rc_pingpong, ibv_ud_pingpong or ibv_srq_pingpong. With -c (rc and srq) the received data is compared."""
    command = f"ibv_{kind}_pingpong -d {{device}} -g {gid_index} -p {port} {arguments}".rstrip()
    return Case(f"{kind} pingpong {arguments} gid {gid_index}", server=command, client=f"{command} {{server}}",
                expect=(_PINGPONG_RESULT,), expect_server=(_PINGPONG_RESULT,), port=port)


def perftest(program: str, arguments: str, sizes: tuple[int, ...], gid_index: int = 0, port: int = 18515) -> Case:
    """A perftest pair whose result table must have a row for each of `sizes`; -R among the arguments uses rdma_cm: one connection
    for parameters, then the others to a new listener. Versions before 26.04 crash when that refuses them."""
    over_cm = "-R" in arguments.split()
    gid = "" if over_cm else f"-x {gid_index} "
    command = f"{program} {gid}-F -d {{device}} -p {port} {arguments}"
    rows = tuple(rf"^ *{size} +\d+ +[\d.]+" for size in sizes)
    return Case(f"{program} {arguments} gid {gid_index}", server=command, client=f"{command} {{server}}", expect=rows,
                port=None if over_cm else port, guard_s=120, listens_again=over_cm)


def rping(count: int, address: str = "{server}", arguments: str = "-V") -> Case:
    """rping: rdma_cm, then messages that say where to read and write. -V: both sides compare the data."""
    return Case(f"rping {count} {address}", server=f"rping -s -C {count} -a {address} {arguments}",
                client=f"rping -c -v -C {count} -a {address} {arguments}",
                expect=(rf"^ping data: rdma-ping-{count - 1}:",), expect_server=("DISCONNECT EVENT",), port=None, guard_s=180)


def ucmatose(arguments: str, address: str = "{server}") -> Case:
    """ucmatose: -c connections at once, with -C messages of -S bytes on each."""
    return Case(f"ucmatose {arguments} {address}", server=f"ucmatose -b {address} {arguments}",
                client=f"ucmatose -s {address} {arguments}", expect=("^return status 0$",),
                expect_server=("^return status 0$",), port=None, guard_s=180)


def udaddy(arguments: str, address: str = "{server}") -> Case:
    """udaddy: rdma_cm over UD."""
    return Case(f"udaddy {arguments} {address}", server=f"udaddy -b {address} {arguments}",
                client=f"udaddy -s {address} {arguments}", expect=("^return status 0$",),
                expect_server=("^return status 0$",), port=None)


def rstream(size: int, arguments: str, address: str = "{server}") -> Case:
    """rstream: sockets over RDMA. With -T v both sides compare the data."""
    row = r"^custom +\S+ +\d+ +\d+ +\S+ +[\d.]+s"
    return Case(f"rstream {size} {arguments}", server=f"rstream -S {size} {arguments}",
                client=f"rstream -s {address} -S {size} {arguments}", expect=(row,), expect_server=(row,), port=None,
                guard_s=240)


RDMA_CLIENT = Case("rdma_client", server="rdma_server", client="rdma_client -s {server}",
                   expect=("^rdma_client: end 0$",), expect_server=("^rdma_server: end 0$",), port=None)


def exactly_once(arguments: str, expect: str = "each exactly once", gid_index: int = 1) -> Case:
    """exactly_once: both ends check every work request. Its first PSNs are just before the wrap."""
    command = f"exactly_once {{device}} {gid_index} {arguments}"
    return Case(f"exactly_once {arguments} gid {gid_index}", server=command, client=f"{command} {{server}}", expect=(expect,),
                guard_s=120)


def exactly_once_load(arguments: str = "-t 20", gid_index: int = 1) -> Case:
    """exactly_once until it is told to end. Both ends then check everything up to there."""
    case = exactly_once(f"-e {{end}} {arguments}", gid_index=gid_index)
    return dataclasses.replace(case, name=f"exactly_once load {arguments} gid {gid_index}", guard_s=_LOAD_GUARD_S)


def rping_load(port: int = 7174) -> Case:
    """rping until it is told to end: then its client is killed, and the server sees the connection's end. Both compare the
    data."""
    client = _until_end(f"rping -c -a {{server}} -V -S 4000 -p {port}", _STOP_AND_KILL, _RPING_IS_CONNECTED)
    return Case("rping load", server=f"rping -s -a {{server}} -V -S 4000 -p {port}", client=client,
                expect_server=("DISCONNECT EVENT",), port=None, guard_s=_LOAD_GUARD_S)


def perftest_load(program: str, arguments: str = "--run_infinitely -D 2", port: int = 18515) -> Case:
    """A perftest pair that is told to end before the arguments let it: then the server is killed, and the client, which ends
    with an error soon after it."""
    command = f"{program} -x 0 -F -d {{device}} -p {port} {arguments}"
    return Case(f"{program} load {arguments}", server=_until_end(command), client=_until_end(f"{command} {{server}}", _WAIT_AND_KILL),
                port=port, guard_s=_LOAD_GUARD_S)


def _until_end(command: str, end: str = "kill $!", connected: str = "sleep 1") -> str:
    """A shell script that runs a command until it is told to end, and then `end`. It fails if the command ends before. `connected`
    waits until the command has connected, because a server does not see the end of a client that it has never seen."""
    return f"{command} & {connected}; until [ -e {{end}} ]; do sleep 0.1; kill -0 $! || [ -e {{end}} ] || exit 1; done; {end}"
