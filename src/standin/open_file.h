// OpenFile: one uverbs file that a program has open: a user context of the device, and all objects that the
// program made through the file.
//
// A handle that the program gets is the device's own, so doorbells need no translation. A command that names
// an object of another file is refused with EINVAL.
//
// Thread: one at a time; blocks until the device has answered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_set>

#include "base/result.h"
#include "driver/context.h"
#include "driver/page_directory.h"
#include "standin/adapter.h"
#include "standin/event_channel.h"
#include "standin/memory_windows.h"
#include "standin/uverbs_command.h"

namespace pvrdma::standin {

class OpenFile {
 public:
  // Borrowed; all outlive the file. `qpns` gets those of the file's QPs.
  OpenFile(Adapter& adapter, const MemoryWindows& windows, std::unordered_set<std::uint32_t>& qpns);
  // Destroys all objects, in the order QP, SRQ, CQ, MR, PD, context.
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  // Executes a command. With an error, nothing has happened.
  Result<> execute(const UverbsCommand& command, std::span<const pvrdma_wire_run> runs, UverbsAnswer& answer);

  // Writes a doorbell that names an object of this file.
  Result<> ring(std::uint64_t offset, std::uint64_t value);

  // An event of the device: about one of this file's objects, the port or the device.
  void notify_cq(std::uint32_t cq_handle);
  void notify(const driver::AsyncEvent& event) const;

 private:
  struct Mr {
    std::unique_ptr<driver::PageDirectory> directory;
  };
  // What the program has asked for since the last event of a CQ.
  enum class Armed : std::uint8_t { kNo, kAny, kSolicited };
  struct Cq {
    std::unique_ptr<driver::PageDirectory> directory;
    std::uint64_t user_handle = 0;
    std::shared_ptr<EventChannel> channel;  // null: the program wants no events
    Armed armed = Armed::kNo;
  };
  struct Srq {
    std::unique_ptr<driver::PageDirectory> directory;
    std::uint64_t user_handle = 0;
  };
  struct Qp {
    std::unique_ptr<driver::PageDirectory> directory;
    std::uint32_t qpn = 0;
    std::uint64_t user_handle = 0;
    abi::QpCap cap{};  // as CREATE_QP answered
    bool signals_all = false;
  };

  // --- create_commands.cc ---
  Result<> get_context(const UverbsCommand& command, UverbsAnswer& answer);
  Result<> alloc_pd(const UverbsCommand& command, UverbsAnswer& answer);
  Result<> reg_mr(const UverbsCommand& command, std::span<const pvrdma_wire_run> runs, UverbsAnswer& answer);
  Result<> create_channel(const UverbsCommand& command, UverbsAnswer& answer);
  Result<> create_cq(const UverbsCommand& command, std::span<const pvrdma_wire_run> runs,
                     UverbsAnswer& answer);
  Result<> create_srq(const UverbsCommand& command, std::span<const pvrdma_wire_run> runs,
                      UverbsAnswer& answer);
  Result<> create_qp(const UverbsCommand& command, std::span<const pvrdma_wire_run> runs,
                     UverbsAnswer& answer);
  Result<std::unique_ptr<driver::PageDirectory>> directory_of(std::span<const pvrdma_wire_run> runs,
                                                              std::uint64_t page_count);

  // --- destroy_commands.cc ---
  Result<> dealloc_pd(const UverbsCommand& command);
  Result<> dereg_mr(const UverbsCommand& command);
  Result<> destroy_cq(const UverbsCommand& command, UverbsAnswer& answer);
  Result<> destroy_srq(const UverbsCommand& command, UverbsAnswer& answer);
  Result<> destroy_qp(const UverbsCommand& command, UverbsAnswer& answer);
  Result<> send_dereg_mr(std::uint32_t handle);
  Result<> send_dealloc_pd(std::uint32_t handle);
  void destroy_all();

  // --- query_commands.cc ---
  Result<> query_device(const UverbsCommand& command, UverbsAnswer& answer);
  Result<> query_device_extended(const UverbsCommand& command, UverbsAnswer& answer);
  Result<> query_port(const UverbsCommand& command, UverbsAnswer& answer);
  Result<> query_srq(const UverbsCommand& command, UverbsAnswer& answer);
  Result<> modify_srq(const UverbsCommand& command);
  Result<> query_qp(const UverbsCommand& command, UverbsAnswer& answer);
  Result<> modify_qp(const UverbsCommand& command);

  Result<> execute_plain(const UverbsCommand& command, std::span<const pvrdma_wire_run> runs,
                         UverbsAnswer& answer);
  void put_async(std::uint64_t element, abi::EventType type) const;
  driver::CommandChannel& commands() const { return adapter_.device().commands(); }

  Adapter& adapter_;
  const MemoryWindows& windows_;
  std::unordered_set<std::uint32_t>& qpns_;   // of all of the process's files
  std::unique_ptr<driver::Context> context_;  // null until GET_CONTEXT
  std::shared_ptr<EventChannel> async_;       // with context_
  std::map<std::uint32_t, std::shared_ptr<EventChannel>> channels_;
  std::uint32_t next_channel_ = 0;
  // By the device's handle.
  std::set<std::uint32_t> pds_;
  std::map<std::uint32_t, Mr> mrs_;
  std::map<std::uint32_t, Cq> cqs_;
  std::map<std::uint32_t, Srq> srqs_;
  std::map<std::uint32_t, Qp> qps_;
};

// For the commands' sources: the failure of a command that is too short, and of a handle that is not the
// file's.
inline Failure too_short() {
  return fail(EINVAL, "the command is shorter than its struct");
}
Failure no_such(const char* what, std::uint32_t handle);

}  // namespace pvrdma::standin
