// Operation: one work request of a random workload, for the checker. Thread: values.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "abi/cqe.h"
#include "abi/wqe.h"

namespace pvrdma::sim {

// A broken promise of the product. The message says what was seen and what was expected.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void require(bool condition, const std::string& what) {
  if (!condition) throw Violation(what);
}

enum class Fault : std::uint8_t {
  kNone,
  kBadRkey,         // ends with a remote access error
  kBeyondRegion,    // ends with a remote access error
  kMisaligned,      // an atomic; ends with a remote invalid request error
  kTooLongForPeer,  // a send longer than any receive; the same error
  kBadLkey,         // ends with a local protection error
  kBadOpcode,       // ends with a local QP operation error
};

struct Operation {
  std::uint64_t wr_id = 0;
  abi::Opcode opcode{};
  Fault fault = Fault::kNone;
  bool signaled = true;
  bool fenced = false;
  bool solicited = false;
  std::uint32_t local_offset = 0;   // of the slot in the requester's buffer
  std::uint32_t remote_offset = 0;  // in the responder's exposed area
  std::uint32_t bytes = 0;
  std::uint32_t immediate = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::vector<std::byte> data;  // the payload of writes and sends

  bool is_write() const {
    return opcode == abi::Opcode::kRdmaWrite || opcode == abi::Opcode::kRdmaWriteWithImm;
  }
  bool is_atomic() const {
    return opcode == abi::Opcode::kAtomicCmpAndSwp || opcode == abi::Opcode::kAtomicFetchAndAdd;
  }
  bool is_read() const { return opcode == abi::Opcode::kRdmaRead; }
  bool changes_memory() const { return is_write() || is_atomic(); }
  bool takes_receive() const {
    return opcode == abi::Opcode::kSend || opcode == abi::Opcode::kSendWithImm ||
           opcode == abi::Opcode::kRdmaWriteWithImm;
  }
  bool has_immediate() const {
    return opcode == abi::Opcode::kSendWithImm || opcode == abi::Opcode::kRdmaWriteWithImm;
  }
  bool overlaps(const Operation& other) const {
    return remote_offset < other.remote_offset + other.bytes && other.remote_offset < remote_offset + bytes;
  }
};

inline abi::CompletionStatus expected_status(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return abi::CompletionStatus::kSuccess;
    case Fault::kBadRkey:
    case Fault::kBeyondRegion:
      return abi::CompletionStatus::kRemoteAccess;
    case Fault::kMisaligned:
    case Fault::kTooLongForPeer:
      return abi::CompletionStatus::kRemoteInvalidRequest;
    case Fault::kBadLkey:
      return abi::CompletionStatus::kLocalProtection;
    case Fault::kBadOpcode:
      return abi::CompletionStatus::kLocalQpOperation;
  }
  return abi::CompletionStatus::kGeneral;
}

}  // namespace pvrdma::sim
