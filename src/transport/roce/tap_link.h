// TapLink: a tap device that an administrator made for the daemon's user. It has no queue of its own: send()
// writes the frame, and a frame that the kernel does not accept is lost, as on any Ethernet.
//
// If the device is missing, down or removed, the link looks for it again after a pause. It reuses the
// descriptor that was opened at the start, so it needs three ioctls only (SIOCGIFFLAGS, SIOCGIFMTU,
// TUNSETIFF). Thread:
// shard-owned.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/fd.h"
#include "roce/frame.h"
#include "shard/loop.h"
#include "transport/roce/link.h"
#include "transport/roce/net_device.h"
#include "transport/roce/outage.h"

namespace pvrdma::transport::roce {

class TapLink final : public Link, private shard::FdHandler, private shard::Pollable {
 public:
  // Error: /dev/net/tun cannot be opened.
  static Result<std::unique_ptr<Link>> open(const std::string& name, shard::Loop& loop, const Clock& clock,
                                            FrameHandler& handler);
  ~TapLink() override;

  std::byte* place() override { return is_up() ? out_.data() : nullptr; }
  void send(std::size_t bytes) override;
  std::size_t room() const override { return is_up() ? kBurst : 0; }
  void flush(Instant /*now*/) override {}
  bool is_up() const override { return outage_.why().empty(); }
  std::string trouble() const override { return outage_.why(); }
  std::optional<std::size_t> mtu_bytes() const override { return device_.mtu_if_known(); }
  std::string what() const override { return what_; }
  const LinkCounters& counters() const override { return counters_; }

 private:
  TapLink(NetDevice device, Fd tun, shard::Loop& loop, const Clock& clock, FrameHandler& handler);

  void look(Instant now);
  void attach(Instant now);
  void detach(int code, Instant now);

  void on_fd_ready(int fd, shard::Readiness ready) override;
  bool run(Instant now) override;
  void on_time(Instant now) override { look(now); }
  Instant next_deadline() const override { return outage_.retry_at(); }
  bool polls() const override { return false; }

  const NetDevice device_;
  const std::string what_;
  const Fd tun_;
  shard::Loop& loop_;
  const Clock& clock_;
  FrameHandler& handler_;
  bool attached_ = false;  // tun_ is attached to the device and watched
  bool starved_ = false;   // on_room() is owed
  Outage outage_;
  LinkCounters counters_;
  std::array<std::byte, pvrdma::roce::kFrameBytesMax> out_;
  std::array<std::byte, pvrdma::roce::kFrameBytesMax + 1> in_;  // one byte more than the longest RoCE frame
};

}  // namespace pvrdma::transport::roce
