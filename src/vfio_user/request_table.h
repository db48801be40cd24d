// RequestTable: the requests of a server that its client has to answer, DMA_READ and DMA_WRITE.
//
// Sans I/O. Each request has an id and a time limit. What the client has not answered by then fails with
// ETIMEDOUT, but its place and its id stay taken until the late reply is there, so that none is ever matched
// to another request: a client that never answers costs kMaxUnderWay places and gets no further requests.
//
// Thread: its session's. Answers are called on it, each exactly once.
// Source: QEMU docs/interop/vfio-user.rst; docs/device.md 8.10.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "vfio_user/message_socket.h"
#include "vfio_user/protocol.h"
#include "vfio_user/saved_session.h"

namespace pvrdma::vfio_user {

// How a request ended: 0, the client's errno, ETIMEDOUT, or ECONNRESET (the session has ended). `data`: what
// a DMA_READ that succeeded has read, valid during the call; empty otherwise. It may make further requests
// and must not call anything else of the session or its server.
using RequestDone = std::function<void(int error, std::span<const std::byte> data)>;

class RequestTable {
 public:
  static constexpr std::size_t kMaxUnderWay = 16;

  bool has_room() const;
  bool empty() const;  // no reply can be due

  // For a message of the server's: no reply that may still come has it.
  std::uint16_t unused_id();

  // Takes a place, which there must be; the id for the message.
  std::uint16_t add(Command command, const wire::DmaAccess& access, Instant deadline, RequestDone done);

  // Ends the request that `message`, a reply, answers. Not empty: what is wrong about it, static storage;
  // completes "COMMAND message that ...". The stream is not to be trusted any further then.
  std::string_view take_reply(const Message& message);

  Instant next_deadline() const;

  // Ends what is over its time limit.
  void expire(Instant now);

  // Ends all of them with `error`.
  void fail_all(int error);

  std::vector<SavedRequest> save() const;
  // Into an empty table: what nobody waits for, but whose replies may come. False: too many, or of one id.
  [[nodiscard]] bool restore(std::span<const SavedRequest> saved);

 private:
  struct Request {
    bool taken = false;
    std::uint16_t id = 0;
    Command command{};
    wire::DmaAccess access;
    Instant deadline;  // never: it has failed, only its reply is waited for
    RequestDone done;  // likewise empty
  };

  Request* find(std::uint16_t id);

  std::array<Request, kMaxUnderWay> requests_;
  std::uint16_t last_id_ = 0;
};

}  // namespace pvrdma::vfio_user
