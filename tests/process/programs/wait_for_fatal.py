"""Waits for an asynchronous event, then says what it was and how commands fail afterwards.

With "posting" it posts receives to a queue pair and to a shared receive queue until the stand-in ends, and some after the event.
"""

import os
import select
import sys

import pyverbs.device as device
import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR

ENTRIES = 1024


class Queues:
    """Both queues, which take receives at once."""

    def __init__(self) -> None:
        self._pd = PD(context)
        self._cq = CQ(context, ENTRIES)
        self._srq = SRQ(self._pd, SrqInitAttr(SrqAttr(max_wr=ENTRIES, max_sge=1)))
        wanted = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self._cq, rcq=self._cq, cap=QPCap(max_recv_wr=ENTRIES))
        self._qp = QP(self._pd, wanted, QPAttr(port_num=1))
        self.posted = 0

    def post(self) -> None:
        """One receive to each, into no memory: nobody sends."""
        self._qp.post_recv(RecvWR(num_sge=1, sg=[SGE(0, 0, 0)]))
        self._srq.post_recv(RecvWR(num_sge=1, sg=[SGE(0, 0, 0)]))
        self.posted += 1


def sockets() -> list[int]:
    """Channels of events, and the connection to the stand-in: readable when it has ended."""
    return [int(number) for number in os.listdir("/proc/self/fd")
            if os.path.islink(path := f"/proc/self/fd/{number}") and os.readlink(path).startswith("socket:")]


context = device.Context(name="vmw_pvrdma0")
queues = Queues() if sys.argv[1:] == ["posting"] else None
print("waiting", flush=True)
while queues and not select.select(sockets(), [], [], 0.001)[0]:
    if queues.posted < ENTRIES // 2:
        queues.post()
print("event", context.get_async_event().event_type)
if queues:
    for _ in range(8):
        queues.post()
    print("posts succeed")
try:
    PD(context)
except PyverbsRDMAError as error:
    print("commands fail with errno", error.error_code)
if queues:
    sys.stdout.flush()
    os._exit(0)  # pyverbs would destroy what it has, and complain
