#include "transport/roce/xdp_link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace pvrdma::transport::roce {
namespace {

using pvrdma::roce::kFrameBytesMax;

// Up to this MTU, the kernel puts a frame into one chunk, after the headroom that it reserves.
constexpr std::size_t kOneChunkMtuBytes = XdpSocket::kChunkBytes - 256 - 320 - 18;

// The kernel should copy a frame while it is still in the cache. It takes at most 32 descriptors at once.
constexpr std::uint32_t kFramesPerKick = 32;
// Before the flush; later frames wait for it.
constexpr std::uint32_t kKicksPerFlush = XdpSocket::kSlots / kFramesPerKick;

std::string_view name_of(XdpProgram::Mode mode) {
  return mode == XdpProgram::Mode::kDriver ? "in the driver" : "in the kernel's generic receive path";
}

}  // namespace

Result<std::unique_ptr<Link>> XdpLink::open(const std::string& name, shard::Loop& loop, const Clock& clock,
                                            FrameHandler& handler) {
  const std::string what = "RoCE link xdp:" + name;
  auto device = NetDevice::named(name);
  if (!device) return Failure(std::move(device).error().in(what));
  const auto index = device->index();
  if (!index) return Failure(Error(index.error()).in(what));
  const auto mtu_bytes = device->mtu_bytes();
  if (!mtu_bytes) return Failure(Error(mtu_bytes.error()).in(what));
  if (const std::size_t queues = device->receive_queues(); queues != 1) {
    return fail(EINVAL, fmt::format("{}: the device has {} receive queues, but the link reads only one: "
                                    "ethtool -L {} combined 1",
                                    what, queues, name));
  }
  const bool several = *mtu_bytes > kOneChunkMtuBytes;
  auto socket =
      XdpSocket::open(*index, several ? XdpSocket::Frames::kSeveralChunks : XdpSocket::Frames::kOneChunk);
  if (!socket) return Failure(std::move(socket).error().in(what));
  auto program =
      XdpProgram::attach(*index, (*socket)->fd(),
                         several ? XdpProgram::Frames::kSeveralBuffers : XdpProgram::Frames::kOneBuffer);
  if (!program) return Failure(std::move(program).error().in(what));
  log::info("roce: xdp:{}: {}; the XDP program runs {}", name,
            (*socket)->is_zero_copy() ? "zero-copy" : "frames are copied", name_of(program->mode()));
  std::unique_ptr<XdpLink> link(new XdpLink(*std::move(device), *std::move(socket), *std::move(program),
                                            several ? kFrameBytesMax : XdpSocket::kChunkBytes, loop, clock,
                                            handler));
  if (const auto watched = loop.watch(link->socket_->fd(), shard::Interest::kRead, *link); !watched) {
    return Failure(Error(watched.error()).in(what));
  }
  link->watched_ = true;
  return link;
}

XdpLink::XdpLink(NetDevice device, std::unique_ptr<XdpSocket> socket, XdpProgram program, std::size_t longest,
                 shard::Loop& loop, const Clock& clock, FrameHandler& handler)
    : device_(std::move(device)),
      what_("xdp:" + device_.name()),
      socket_(std::move(socket)),
      program_(std::move(program)),
      longest_(longest),
      loop_(loop),
      clock_(clock),
      handler_(handler),
      outage_(what_) {
  loop_.add(*this);
}

XdpLink::~XdpLink() {
  if (watched_) loop_.unwatch(socket_->fd());
  loop_.remove(*this);
}

void XdpLink::look(Instant now) {
  if (now < outage_.retry_at()) return;
  if (device_.state() != NetDevice::State::kOn) return outage_.begin(kDeviceOff, 0, now);
  starved_ = true;
  ++counters_.ups;
  outage_.end(now);
}

std::byte* XdpLink::place() {
  if (!is_up()) return nullptr;
  std::byte* const slot = socket_->slot();
  if (slot == nullptr) ++counters_.link_full;
  return slot;
}

void XdpLink::send(std::size_t bytes) {
  PVRDMA_CHECK(bytes >= kEthernetHeaderBytes && bytes <= kFrameBytesMax, "the frame has a valid length");
  if (!is_up() || bytes > longest_) {
    ++counters_.send_errors;
    return;
  }
  socket_->send(bytes);
  ++new_frames_;
  if (room() == 0) starved_ = true;
  ++counters_.sent_pkts;
  counters_.sent_bytes += bytes;
  if (new_frames_ < kFramesPerKick || kicks_left_ == 0) return;
  --kicks_left_;
  kick(clock_.now());
}

void XdpLink::flush(Instant now) {
  kicks_left_ = kKicksPerFlush;
  if (new_frames_ != 0) kick(now);
}

void XdpLink::kick(Instant now) {
  new_frames_ = 0;
  if (!is_up()) return;
  socket_->reclaim();
  switch (socket_->kick()) {
    case ENETDOWN:
      return outage_.begin(kDeviceOff, 0, now);
    case ENXIO:
      return outage_.begin_for_ever("the device was removed: restart the daemon when it is back");
    default:  // the kernel will take the rest later
      return;
  }
}

void XdpLink::on_fd_ready(int /*fd*/, shard::Readiness /*ready*/) {
  const Instant now = clock_.now();
  std::size_t handed = 0;
  std::size_t parts = 0;
  for (; parts < kBurst; ++parts) {
    const auto part = socket_->next();
    if (!part) break;
    if (take_in(*part, now)) ++handed;
  }
  if (parts != 0) socket_->done();
  if (handed != 0) handler_.on_burst_end(now);
}

// True: a frame was completed and delivered.
bool XdpLink::take_in(const XdpSocket::Arrived& part, Instant now) {
  std::span<const std::byte> frame = part.bytes;
  if (part.more || gathered_ != 0) {
    const std::size_t bytes = gathered_ + part.bytes.size();
    if (bytes <= gather_.size())
      std::memcpy(gather_.data() + gathered_, part.bytes.data(), part.bytes.size());
    gathered_ = std::min(bytes, gather_.size() + 1);
    if (part.more) return false;
    const std::size_t whole = std::exchange(gathered_, 0);
    frame = std::span(gather_).first(std::min(whole, gather_.size()));
    if (whole > gather_.size()) {
      ++counters_.rcvd_bad_length;
      return false;
    }
  }
  if (frame.size() < kEthernetHeaderBytes || frame.size() > kFrameBytesMax) {
    ++counters_.rcvd_bad_length;
    return false;
  }
  ++counters_.rcvd_pkts;
  counters_.rcvd_bytes += frame.size();
  handler_.on_frame(frame, now);
  return true;
}

bool XdpLink::run(Instant now) {
  if (!is_up()) return false;
  if (socket_->needs_kick()) kick(now);
  if (!starved_) return false;
  socket_->reclaim();
  if (room() == 0) return false;
  starved_ = false;
  handler_.on_room(now);
  return true;
}

}  // namespace pvrdma::transport::roce
