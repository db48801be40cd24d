"""Programs that ask for more than there is, or destroy what they have. They get errors; nothing hangs."""

import ctypes
import os
import sys

import pyverbs.device as device
import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
FIXED, PRIVATE, ANONYMOUS = 0x10, 0x02, 0x20


def too_many_files() -> None:
    """A process has 64 open devices at most. After one is closed, another may be opened."""
    contexts = []
    while len(contexts) < 100:
        try:
            contexts.append(device.Context(name="vmw_pvrdma0"))
        except PyverbsError:
            break
    assert len(contexts) == 64, len(contexts)
    contexts.pop().close()
    contexts.append(device.Context(name="vmw_pvrdma0"))
    for context in contexts:
        context.close()


def too_many_contexts() -> None:
    """Many processes with as many devices as each may have: more contexts than the adapter has."""
    result, end = os.pipe(), os.pipe()
    children = []
    for _ in range(17):
        child = os.fork()
        if child == 0:
            contexts = []
            try:
                while len(contexts) < 64:
                    contexts.append(device.Context(name="vmw_pvrdma0"))
            except PyverbsError:
                pass
            os.close(end[1])
            os.write(result[1], f"{len(contexts)}\n".encode())
            os.close(result[1])
            os.read(end[0], 1)
            os._exit(0)
        children.append(child)
    os.close(result[1])
    with os.fdopen(result[0]) as lines:
        opened = [int(line) for line in lines]
    os.close(end[1])
    for child in children:
        os.waitpid(child, 0)
    assert len(opened) == len(children) and 64 < sum(opened) < 1024 and 64 in opened, opened
    device.Context(name="vmw_pvrdma0").close()


def mapped(name: str) -> list[tuple[int, int]]:
    """Where the program has pages of the file of that name."""
    with open("/proc/self/maps") as maps:
        lines = [line.split() for line in maps if name in line]
    return [(start, end - start) for line in lines for start, end in [(int(each, 16) for each in line[0].split("-"))]]


def maps_over_its_queues() -> None:
    """Zeros where its doorbell page and its rings were: posts and polls go nowhere, and commands work."""
    with device.Context(name="vmw_pvrdma0") as context, PD(context) as pd, CQ(context, 16) as cq:
        wanted = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_recv_wr=16))
        with QP(pd, wanted, QPAttr(port_num=1)) as qp:
            places = mapped("/memfd:pvrdma")
            assert len(places) >= 2, places
            for start, size in places:
                assert libc.mmap(start, size, 3, FIXED | PRIVATE | ANONYMOUS, -1, 0) == start
            qp.post_recv(RecvWR(num_sge=1, sg=[SGE(0, 0, 0)]))
            assert cq.poll()[0] == 0
            with CQ(context, 16) as other:
                assert other.poll()[0] == 0


globals()[sys.argv[1]]()
print("passed")
