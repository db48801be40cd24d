// The values of which a saved engine consists (ADR 16): what the stream holds of each object.
//
// save() takes an object apart with a structured binding that names every member, and describe() does the
// same with the value. So a member that is added without being handled there does not compile. Thread:
// values.
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

// The contexts that exist, and the numbers that new objects get next.
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
  abi::FastRegFields fast_reg{};  // for kFastRegMr; otherwise 0
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
  guestmem::SavedRing receive_ring;  // empty if the QP uses an SRQ
  SendState send;                    // its deadlines as the time left
  std::uint32_t window_head = 0;
  std::vector<SavedWork> works;  // from the window's head on
  ReceiveState receive;          // its `receive` is valid only with holds_receive
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

// The number of objects in the records before this one. The loading engine compares them, so that no object
// is missing.
struct SavedCounts {
  std::uint32_t pds = 0;
  std::uint32_t mrs = 0;
  std::uint32_t cqs = 0;
  std::uint32_t srqs = 0;
  std::uint32_t qps = 0;
  friend bool operator==(const SavedCounts&, const SavedCounts&) = default;
};

}  // namespace pvrdma::verbs
