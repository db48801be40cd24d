// RequestTable: requests of a server that its client has to answer, DMA_READ and DMA_WRITE.
//
// Sans I/O. Each request has an id and a time limit. When the limit is over, the request fails with
// ETIMEDOUT. Its place and id stay taken until the late reply arrives, so a reply is never matched to another
// request. A client that never answers therefore fills kMaxUnderWay places and gets no further requests.
//
// Thread: its session's. Each RequestDone is called on that thread, exactly once. Source: QEMU
// docs/interop/vfio-user.rst; docs/device.md 8.10.
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

// Called when a request ends. `error` is 0, the client's errno, ETIMEDOUT, or ECONNRESET (the session has
// ended). `data` holds what a successful DMA_READ has read, valid during the call; otherwise it is empty. The
// callback may make further requests. It must not call anything else of the session or its server.
using RequestDone = std::function<void(int error, std::span<const std::byte> data)>;

class RequestTable {
 public:
  static constexpr std::size_t kMaxUnderWay = 16;

  bool has_room() const;
  bool empty() const;  // no request waits for a reply

  // An id for a message of the server that no outstanding reply has.
  std::uint16_t unused_id();

  // Adds a request and returns the id for its message. There must be a free place.
  std::uint16_t add(Command command, const wire::DmaAccess& access, Instant deadline, RequestDone done);

  // Ends the request that the reply `message` answers. A result that is not empty says what is wrong with the
  // reply (static storage; completes "COMMAND message that ..."). Then the stream cannot be trusted any more.
  std::string_view take_reply(const Message& message);

  Instant next_deadline() const;

  // Ends the requests whose time limit is over.
  void expire(Instant now);

  // Ends all requests with `error`.
  void fail_all(int error);

  std::vector<SavedRequest> save() const;
  // Fills an empty table with requests that nobody waits for, but whose replies may still come. False: too
  // many requests, or two with the same id.
  [[nodiscard]] bool restore(std::span<const SavedRequest> saved);

 private:
  struct Request {
    bool taken = false;
    std::uint16_t id = 0;
    Command command{};
    wire::DmaAccess access;
    Instant deadline;  // never(): it has failed, only its reply is outstanding
    RequestDone done;  // empty once it has failed
  };

  Request* find(std::uint16_t id);

  std::array<Request, kMaxUnderWay> requests_;
  std::uint16_t last_id_ = 0;
};

}  // namespace pvrdma::vfio_user
