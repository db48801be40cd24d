"""Waits for an asynchronous event, then says what it was and how commands fail afterwards."""

import pyverbs.device as device
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError

context = device.Context(name="vmw_pvrdma0")
print("waiting", flush=True)
print("event", context.get_async_event().event_type)
try:
    PD(context)
except PyverbsRDMAError as error:
    print("commands fail with errno", error.error_code)
