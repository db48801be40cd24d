// XdpLink: an AF_XDP socket at a network device (one end of a veth pair, or a NIC), and the XDP program there
// that redirects the device's RoCE frames to the socket. All other frames stay with the kernel.
//
// Opening it needs privileges (CAP_NET_RAW, CAP_NET_ADMIN, CAP_BPF). Using it needs no privileges: it calls
// sendto, recvfrom and, after the device was switched off, SIOCGIFFLAGS. The link notices that its device was
// removed when it next sends a frame. It does not look for the device again.
//
// The kernel does not announce that a frame was sent and its slot is free, so the link polls while a sender
// waits for a slot. Thread: shard-owned.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "roce/frame.h"
#include "shard/loop.h"
#include "transport/roce/link.h"
#include "transport/roce/net_device.h"
#include "transport/roce/outage.h"
#include "transport/roce/xdp_program.h"
#include "transport/roce/xdp_socket.h"

namespace pvrdma::transport::roce {

class XdpLink final : public Link, private shard::FdHandler, private shard::Pollable {
 public:
  // Errors: the device does not exist or has several receive queues, privileges are missing, or the kernel
  // lacks a feature.
  static Result<std::unique_ptr<Link>> open(const std::string& name, shard::Loop& loop, const Clock& clock,
                                            FrameHandler& handler);
  ~XdpLink() override;

  std::byte* place() override;
  void send(std::size_t bytes) override;
  std::size_t room() const override { return is_up() ? socket_->free_slots() : 0; }
  void flush(Instant now) override;
  bool is_up() const override { return outage_.why().empty(); }
  std::string trouble() const override { return outage_.why(); }
  std::optional<std::size_t> mtu_bytes() const override { return device_.mtu_if_known(); }
  std::string what() const override { return what_; }
  const LinkCounters& counters() const override { return counters_; }

 private:
  XdpLink(NetDevice device, std::unique_ptr<XdpSocket> socket, XdpProgram program, std::size_t longest,
          shard::Loop& loop, const Clock& clock, FrameHandler& handler);

  void look(Instant now);
  void kick(Instant now);
  bool take_in(const XdpSocket::Arrived& part, Instant now);

  void on_fd_ready(int fd, shard::Readiness ready) override;
  bool run(Instant now) override;
  void on_time(Instant now) override { look(now); }
  Instant next_deadline() const override { return outage_.retry_at(); }
  bool polls() const override { return is_up() && (starved_ || socket_->needs_kick()); }

  const NetDevice device_;
  const std::string what_;
  const std::unique_ptr<XdpSocket> socket_;
  const XdpProgram program_;   // destroyed before the socket
  const std::size_t longest_;  // longest frame to send
  shard::Loop& loop_;
  const Clock& clock_;
  FrameHandler& handler_;
  bool watched_ = false;
  bool starved_ = false;          // on_room() is owed
  std::uint32_t new_frames_ = 0;  // sent since the last kick
  std::uint32_t kicks_left_ = 0;  // until the next flush
  Outage outage_;
  LinkCounters counters_;
  std::size_t gathered_ = 0;  // bytes of a frame in several parts; more than gather_ holds: too long
  std::array<std::byte, pvrdma::roce::kFrameBytesMax> gather_;
};

}  // namespace pvrdma::transport::roce
