// StreamLink: a connection to a UNIX socket that speaks QEMU's -netdev stream protocol. Each frame follows
// its length, four bytes in network order. The link dials again after a pause whenever the peer is gone.
//
// Frames that are shorter or longer than a RoCE frame may be are skipped. A length that no frame can have
// ends the connection. Thread: shard-owned.
#pragma once

#include <memory>
#include <string>
#include <sys/un.h>

#include "base/fd.h"
#include "shard/loop.h"
#include "transport/roce/link.h"
#include "transport/roce/outage.h"

namespace pvrdma::transport::roce {

class StreamLink final : public Link, private shard::FdHandler, private shard::Pollable {
 public:
  // Error: `path` is not a valid socket address.
  static Result<std::unique_ptr<Link>> open(const std::string& path, shard::Loop& loop, const Clock& clock,
                                            FrameHandler& handler);
  ~StreamLink() override;

  std::byte* place() override;
  void send(std::size_t bytes) override;
  std::size_t room() const override;
  void flush(Instant now) override;
  bool is_up() const override { return static_cast<bool>(socket_); }
  std::string trouble() const override { return outage_.why(); }
  std::string what() const override { return what_; }
  const LinkCounters& counters() const override { return counters_; }

 private:
  // A byte queue: the bytes from `head` to `tail` are waiting.
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t head = 0;
    std::size_t tail = 0;

    std::size_t waiting() const { return tail - head; }
    void take(std::size_t count);  // removes bytes from the front
    void clear() { head = tail = 0; }
  };

  StreamLink(std::string what, const sockaddr_un& address, shard::Loop& loop, const Clock& clock,
             FrameHandler& handler);

  void dial(Instant now);
  void fail(std::string_view why, int code, Instant now);
  void fill(Instant now);
  void hand_over(Instant now);
  bool has_frame() const;

  void on_fd_ready(int fd, shard::Readiness ready) override;
  bool run(Instant now) override;
  void on_time(Instant now) override { dial(now); }
  Instant next_deadline() const override { return outage_.retry_at(); }
  bool polls() const override { return false; }

  const std::string what_;
  const sockaddr_un address_;
  shard::Loop& loop_;
  const Clock& clock_;
  FrameHandler& handler_;
  Fd socket_;  // watched while it is open
  Buffer in_;
  Buffer out_;
  std::size_t skip_ = 0;  // remaining bytes of a frame that is skipped
  bool blocked_ = false;  // the socket accepts no more bytes for now
  bool starved_ = false;  // on_room() is owed
  Outage outage_;
  LinkCounters counters_;
};

}  // namespace pvrdma::transport::roce
