"""What things cost, and where each figure is from. Times are in microseconds and speeds in GB/s, if a name does not say otherwise.

*measured*: docs/performance.md, section in brackets. *fitted*: chosen such that the model gives the measured figures of
siblings_bench; test_scaling_model.py compares them. *code*: a constant of the daemon. *assumed*: nobody measured it here.
"""

from __future__ import annotations

from dataclasses import dataclass

# code: src/transport/siblings/
SLOTS = 256
IN_SLOT_BYTES_MAX = 64
BESIDE_BYTES_MAX = 512  # what is longer is lent
LENT_BYTES_MAX = 1 << 20
LENT_ANSWERS_MAX = 16
ANSWER_SLOTS = 3  # free slots that a reader of requests wants for answers
MESSAGES_PER_TURN = 128  # of one ring
BYTES_PER_TURN = 512 << 10  # of one ring; also what one adapter may send (verbs/turn_share.h)
# code: src/verbs/
BYTES_PER_WORK = 1024
WQES_PER_TURN = 64
READS_MAX = 16  # of a QP that are unanswered
# How much the model does at once. A message becomes visible to the other shard with the others of its group.
GROUP = 4


@dataclass(frozen=True)
class Costs:
    """The table. `line` and `ring_end` depend on how far the shards' processors are apart."""

    # measured (several shards): 0.120 for a small operation on one shard, in batches; divided as the instructions are
    # (an 8-byte write in detail): the requester's 61 %, the responder's 39 %.
    requester: float = 0.073
    responder: float = 0.047
    # measured (prototype of the rings): a turn that finds nothing.
    idle_turn: float = 0.038
    # measured (several shards): 0.26 for an operation with a doorbell of its own, less the one in a batch and an idle turn.
    doorbell: float = 0.10
    # What a shard spends to put a message into a ring, or to take it out. fitted
    ring_end: float = 0.097
    # measured (several shards): a cache line from one processor to the other.
    line: float = 0.075
    # The copy, if the buffers of the shard's adapters fit into ... bytes. measured (several shards, from the difference between 8
    # bytes and 4 KiB or 64 KiB); what exceeds the second-level cache: measured (copies, 16 MiB by `rep movsb`).
    copy_first_level: float = 95.0  # 32 KiB
    copy_second_level: float = 42.0  # 2 MiB
    copy_memory: float = 10.0
    # How often a copied byte crosses the memory bus: read, read again before it is overwritten, written back. assumed
    copy_passes: float = 3.0
    # measured (in VMs), without KVM: a trapped doorbell, of the shard's time and of the vCPU's.
    trap_shard: float = 9.0
    trap_guest: float = 35.0
    # Of a guest's processor, for one operation. assumed
    guest_perftest: float = 0.05
    guest_mpi: float = 0.3
    guest_nvme: float = 4.0  # block layer and interrupt, on the initiator and on the target each
    guest_nvme_polled: float = 1.0  # a target and an initiator in user space
    guest_memory: float = 10.0  # GB/s at which a guest makes or reads its data

    def copy_speed(self, working_set_bytes: float) -> float:
        """Bytes in a microsecond of a shard whose adapters' buffers have that size together."""
        if working_set_bytes <= 32 << 10:
            return self.copy_first_level * 1e3
        return (self.copy_second_level if self.is_cached(working_set_bytes) else self.copy_memory) * 1e3

    @staticmethod
    def is_cached(working_set_bytes: float) -> bool:
        """Whether copies stay inside the second-level cache of the shard's processor."""
        return working_set_bytes <= 2 << 20


NEAR = Costs()
# Between processors with different last-level caches. measured (several shards): a line took 0.30.
FAR = Costs(ring_end=0.212, line=0.30)


@dataclass(frozen=True)
class Host:
    """A machine. `memory_gb_s`: assumed, 80 % of 2, 8 and 12 channels of DDR5-4800."""

    cores: int
    memory_gb_s: float

    def shards(self) -> int:
        """As the daemon has by default: a shard for eight cores, eight at most."""
        return min(8, max(1, self.cores // 8))


HOSTS = (Host(8, 61), Host(32, 246), Host(64, 369))
