// What a saved engine is made of (ADR 16): values that stand for its objects, as they lie in a stream.
//
// An object's save() takes it apart with a structured binding, which names every member there is, and
// describe() does the same with the value: a member added to either without a word about it does not compile.
// Thread: values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "abi/wqe.h"
#include "guestmem/ring.h"
#include "verbs/completion_queue.h"
#include "verbs/counters.h"
#include "verbs/ids.h"
#include "verbs/memory_region.h"
#include "verbs/qp_attributes.h"
#include "verbs/queue_pair.h"
#include "verbs/receive_queue.h"

namespace pvrdma::verbs {

// Which contexts there are, and which numbers come next.
struct SavedTables {
  std::vector<std::uint32_t> contexts;  // ascending
  std::uint32_t next_pd = 0;
  std::uint32_t next_cq = 0;
  std::uint32_t next_srq = 0;
  std::uint32_t next_qp = 0;
  std::vector<std::uint8_t> qpn_generations;  // by slot
};

struct SavedPd {
  PdHandle handle;
  ContextHandle context;
};

struct SavedWork {
  SendWorkState state;
  abi::FastRegFields fast_reg{};  // of a fast register; else 0
  std::vector<abi::Sge> sges;
};

struct SavedQp {
  QueuePair::Identity identity;
  CqHandle send_cq;
  CqHandle recv_cq;
  bool has_srq = false;
  SrqHandle srq;
  std::uint32_t charged_pages = 0;
  QpAttributes attributes;
  Gid local_gid;
  RoceVersion local_roce{};
  guestmem::SavedRing send_ring;
  guestmem::SavedRing receive_ring;  // nothing with an SRQ
  SendState send;                    // its times as time left
  std::uint32_t window_head = 0;
  std::vector<SavedWork> works;  // from the window's head on
  ReceiveState receive;          // its receive: 0 unless one is held
  std::uint64_t tx_messages = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t rx_messages = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t retransmits = 0;
};

struct SavedGid {
  std::uint32_t index = 0;
  Gid gid;
  RoceVersion roce{};
};

// How many objects came before: none is missing.
struct SavedCounts {
  std::uint32_t pds = 0;
  std::uint32_t mrs = 0;
  std::uint32_t cqs = 0;
  std::uint32_t srqs = 0;
  std::uint32_t qps = 0;
  friend bool operator==(const SavedCounts&, const SavedCounts&) = default;
};

}  // namespace pvrdma::verbs
