// Attacks over the Ethernet of a RoCE link: as many frames as the link takes, from a machine outside the
// cluster; and VMs that take connections to such machines away from others.
#include <array>
#include <chrono>
#include <cstring>
#include <endian.h>
#include <fmt/core.h>
#include <memory>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "attack.h"
#include "base/unix_listener.h"
#include "guest.h"
#include "roce/frame.h"
#include "support/rc_endpoint.h"
#include "vocabulary/mac.h"

namespace pvrdma::bench {
namespace {

constexpr std::uint32_t kSegmentBytes = 1024;
constexpr std::size_t kAtOnce = 32;
constexpr int kDialGuardMs = 20'000;
constexpr std::uint32_t kConnectionsOfVm = 4096;
constexpr Mac kStranger{{0x52, 0x54, 0, 0x99, 0x99, 0x99}};
constexpr Mac kAttacked{{0x02, 0, 0, 0, 0, 3}};  // the MAC of A0

using Bytes = std::vector<std::byte>;

verbs::Gid gid_of(std::uint32_t index) {
  verbs::Gid gid;
  gid.bytes = test::gid_of(index).raw;
  return gid;
}

roce::Frame frame_to_a0(roce::Opcode opcode, std::span<const std::byte> payload) {
  roce::Frame frame;
  frame.envelope.source_mac = kStranger;
  frame.envelope.destination_mac = kAttacked;
  frame.envelope.source = gid_of(100);
  frame.envelope.destination = gid_of(0);
  frame.packet.opcode = opcode;
  frame.packet.ack_request = true;
  frame.packet.payload = payload;
  return frame;
}

// The frame after its length, as in QEMU's -netdev stream.
Bytes on_the_wire(const roce::Frame& frame) {
  Bytes bytes(sizeof(std::uint32_t) + roce::kFrameBytesMax);
  const std::size_t length = roce::build(frame, bytes.data() + sizeof(std::uint32_t));
  const std::uint32_t prefix = htobe32(static_cast<std::uint32_t>(length));
  std::memcpy(bytes.data(), &prefix, sizeof prefix);
  bytes.resize(sizeof prefix + length);
  return bytes;
}

// Waits until the daemon has dialled the Ethernet, because nothing can be flooded before.
Fd await_daemon(const std::string& path) {
  const auto listener = must(UnixListener::listen(path, {}));
  pollfd ready{listener->fd(), POLLIN, 0};
  if (::poll(&ready, 1, kDialGuardMs) != 1) throw std::runtime_error("the daemon did not dial its RoCE link");
  Fd socket(::accept4(listener->fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) throw std::runtime_error("the daemon's RoCE link could not be accepted");
  return socket;
}

// Reads and drops the daemon's answers, so that it never waits for room.
void drain(const Fd& socket) {
  std::array<std::byte, 65536> answers;
  while (::recv(socket.get(), answers.data(), answers.size(), MSG_DONTWAIT) > 0) continue;
}

// Sends the frame repeatedly to A0, which has a GSI QP, a GID and no receive.
std::string flood(Field& field, const Bytes& frame) {
  Guest guest(field.sockets[0]);
  must(guest.device().bind_gid(0, test::gid_of(0)));
  const auto pd = must(driver::ProtectionDomain::create(guest.device().kernel()));
  const auto cq = must(driver::CompletionQueue::create(guest.device().kernel(), 16));
  const auto qp = must(driver::QueuePair::create(
      *pd, {.type = abi::QpType::kGsi, .send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = 1}));
  must(qp->to_init({.qkey = kGsiQkey}));
  must(qp->to_rtr());
  const Fd socket = await_daemon(field.sockets.back());
  Bytes burst;
  for (std::size_t i = 0; i < kAtOnce; ++i) burst.insert(burst.end(), frame.begin(), frame.end());
  field.begin();
  std::uint64_t sent = 0;
  while (!field.over()) {
    for (std::size_t at = 0; at < burst.size();) {
      drain(socket);
      const ssize_t taken = ::send(socket.get(), burst.data() + at, burst.size() - at, MSG_NOSIGNAL);
      if (taken <= 0) throw std::runtime_error("the daemon's RoCE link is gone");
      at += static_cast<std::size_t>(taken);
    }
    sent += kAtOnce;
  }
  return fmt::format("{} frames of {} bytes", sent, frame.size() - sizeof(std::uint32_t));
}

std::string frames_to_no_qp(Field& field) {
  const Bytes payload(kSegmentBytes, std::byte{1});
  roce::Frame frame = frame_to_a0(roce::Opcode::kWriteOnly, payload);
  frame.packet.destination = verbs::Qpn(0xff'fff0);
  frame.packet.dma_bytes = kSegmentBytes;
  return flood(field, on_the_wire(frame));
}

std::string damaged_frames(Field& field) {
  const Bytes payload(kSegmentBytes, std::byte{1});
  Bytes frame = on_the_wire(frame_to_a0(roce::Opcode::kWriteOnly, payload));
  frame.back() ^= std::byte{1};
  return flood(field, frame);
}

std::string mad_frames(Field& field) {
  const Bytes payload(kMadBytes, std::byte{0});
  roce::Frame frame = frame_to_a0(roce::Opcode::kUdSendOnly, payload);
  frame.packet.destination = verbs::Qpn(1);
  frame.packet.source = verbs::Qpn(1);
  frame.packet.qkey = kGsiQkey;
  return flood(field, on_the_wire(frame));
}

// VMs connect QPs to a machine outside until they are refused, and send nothing.
std::string native_connections(Field& field) {
  const Fd socket = await_daemon(field.sockets.back());
  const abi::Gid gid = test::gid_of(100);
  const driver::Route outside{.dgid = gid, .dmac = test::mac_of(gid)};
  field.begin();
  std::vector<std::unique_ptr<Guest>> guests;
  std::vector<Crowd> crowds;
  std::uint32_t connected = 0;
  std::string refusal;
  for (std::uint32_t i = 0; i + 1 < field.sockets.size(); ++i) {
    guests.push_back(std::make_unique<Guest>(field.sockets[i]));
    driver::Device& device = guests.back()->device();
    must(device.bind_gid(0, test::gid_of(i)));
    Crowd& crowd = crowds.emplace_back(*guests.back(), device.kernel(), kConnectionsOfVm);
    for (std::size_t qp = 0; qp < crowd.size(); ++qp) {
      if (const auto done = crowd.connect(qp, outside); !done) {
        refusal = fmt::format("VM {} was refused number {}: {}", i + 1, qp + 1, done.error().message);
        break;
      }
      ++connected;
    }
  }
  while (!field.over()) {
    drain(socket);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return fmt::format("{} connections of {} VMs{}{}", connected, guests.size(), refusal.empty() ? "" : "; ",
                     refusal);
}

constexpr Attack kAttacks[] = {
    {.name = "frames-to-no-qp",
     .what = "RoCE frames for a QP that is not there",
     .run = &frames_to_no_qp,
     .ethernet = true},
    {.name = "damaged-frames",
     .what = "RoCE frames with a wrong ICRC",
     .run = &damaged_frames,
     .ethernet = true},
    {.name = "mad-frames",
     .what = "management datagrams in RoCE frames",
     .run = &mad_frames,
     .ethernet = true},
    {.name = "native-connections",
     .what = "four VMs ask for 4096 connections to a native endpoint each, and send nothing",
     .run = &native_connections,
     .adapters = 4,
     .ethernet = true,
     .natives = true},
};

}  // namespace

std::span<const Attack> ethernet_attacks() {
  return kAttacks;
}

}  // namespace pvrdma::bench
