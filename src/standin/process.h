// Process: one program's connection to the stand-in: its uverbs files, its rdma_cm files and its memory
// windows. When it ends, for whatever reason, its connections end, and nothing of it is left on the device.
//
// Thread: one at a time; blocks until the device has answered, never on the program.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <sys/socket.h>
#include <unordered_set>
#include <vector>

#include "base/fd.h"
#include "base/log.h"
#include "standin/adapter.h"
#include "standin/cm_file.h"
#include "standin/memory_windows.h"
#include "standin/open_file.h"
#include "standin/request.h"

namespace pvrdma::standin {

class Process {
 public:
  // `adapter` and `cm` are borrowed and outlive the process. `socket` is connected, of type SOCK_SEQPACKET.
  // `log` limits the lines about programs; borrowed, too.
  Process(Adapter& adapter, CmService& cm, Fd socket, MemoryFiles allowed, log::LogLimiter& log);

  int fd() const { return socket_.get(); }
  const ucred& peer() const { return peer_; }

  // Answers one request, if one has come. False: the connection has ended, or broke the protocol.
  bool serve_one();

  // The adapter is gone: wakes the threads that wait for events of connections.
  void wake();

 private:
  struct Answer {
    pvrdma_wire_answer header{};
    UverbsAnswer uverbs;
  };
  using Descriptors = std::array<Fd, PVRDMA_WIRE_MAX_FDS>;

  Result<> execute(const Request& request, const Descriptors& descriptors, Answer& answer);
  Result<> hello(const Request& request, Answer& answer);
  Result<> open_file(Answer& answer);
  Result<> close_file(const Request& request);
  Result<> command(const Request& request, Answer& answer);
  Result<> open_cm_file(Answer& answer);
  Result<> close_cm_file(const Request& request);
  Result<> cm_command(const Request& request, Answer& answer);
  Result<CmFile*> cm_file_of(const Request& request) const;
  Result<OpenFile*> file_of(const Request& request) const;
  bool send(const Answer& answer) const;

  Adapter& adapter_;
  CmService& cm_;
  log::LogLimiter& log_;
  const Fd socket_;
  const ucred peer_;
  bool greeted_ = false;
  MemoryWindows windows_;                         // outlive files_
  std::unordered_set<std::uint32_t> qpns_;        // of files_, outlives them
  std::vector<std::unique_ptr<OpenFile>> files_;  // by number; null: free
  const cm::Program program_;
  CmFiles cm_files_;  // its destructor ends connections before their QPs
};

}  // namespace pvrdma::standin
