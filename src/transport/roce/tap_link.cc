#include "transport/roce/tap_link.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/if_tun.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include "base/check.h"

namespace pvrdma::transport::roce {

Result<std::unique_ptr<Link>> TapLink::open(const std::string& name, shard::Loop& loop, const Clock& clock,
                                            FrameHandler& handler) {
  Fd tun(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!tun) {
    return fail_errno(
        errno, fmt::format("RoCE link tap:{}: cannot open /dev/net/tun for reading and writing", name));
  }
  auto device = NetDevice::named(name);
  if (!device) return Failure(std::move(device).error().in("RoCE link tap:" + name));
  return std::unique_ptr<Link>(new TapLink(*std::move(device), std::move(tun), loop, clock, handler));
}

TapLink::TapLink(NetDevice device, Fd tun, shard::Loop& loop, const Clock& clock, FrameHandler& handler)
    : device_(std::move(device)),
      what_("tap:" + device_.name()),
      tun_(std::move(tun)),
      loop_(loop),
      clock_(clock),
      handler_(handler),
      outage_(what_) {
  loop_.add(*this);
}

TapLink::~TapLink() {
  if (attached_) loop_.unwatch(tun_.get());
  loop_.remove(*this);
}

void TapLink::look(Instant now) {
  if (now < outage_.retry_at()) return;
  const NetDevice::State state = device_.state();
  if (state == NetDevice::State::kMissing) {
    return outage_.begin("there is no such device: create it, or name another device", 0, now);
  }
  if (!attached_) attach(now);
  if (!attached_) return;
  if (state == NetDevice::State::kOff) return outage_.begin(kDeviceOff, 0, now);
  starved_ = true;
  ++counters_.ups;
  outage_.end(now);
}

void TapLink::attach(Instant now) {
  ifreq request = device_.request();
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (::ioctl(tun_.get(), TUNSETIFF, &request) != 0) {
    switch (errno) {
      case EPERM:
        return outage_.begin("the device belongs to another user: create it for the daemon's user", 0, now);
      case EBUSY:
        return outage_.begin("another program uses the device: end that program, or name another device", 0,
                             now);
      case EINVAL:
        return outage_.begin("the device is not a tap with one queue: name another device", 0, now);
      default:
        return outage_.begin("the kernel refuses the device", errno, now);
    }
  }
  if (const auto watched = loop_.watch(tun_.get(), shard::Interest::kRead, *this); !watched) {
    return outage_.begin("the device cannot be watched", watched.error().code, now);
  }
  attached_ = true;
}

// The device is gone. The kernel allows the same descriptor to attach to another one.
void TapLink::detach(int code, Instant now) {
  loop_.unwatch(tun_.get());
  attached_ = false;
  outage_.begin("the device was removed", code, now);
}

void TapLink::send(std::size_t bytes) {
  PVRDMA_CHECK(bytes >= kEthernetHeaderBytes && bytes <= out_.size(), "the frame has a valid length");
  if (is_up() && ::write(tun_.get(), out_.data(), bytes) >= 0) {
    ++counters_.sent_pkts;
    counters_.sent_bytes += bytes;
    return;
  }
  ++counters_.send_errors;
  if (is_up() && errno == EIO) outage_.begin(kDeviceOff, 0, clock_.now());
}

void TapLink::on_fd_ready(int /*fd*/, shard::Readiness /*ready*/) {
  const Instant now = clock_.now();
  std::size_t handed = 0;
  for (std::size_t i = 0; i < kBurst; ++i) {
    const ssize_t got = ::read(tun_.get(), in_.data(), in_.size());
    if (got < 0) {
      if (errno != EAGAIN && errno != EINTR) detach(errno, now);
      break;
    }
    const auto bytes = static_cast<std::size_t>(got);
    if (bytes < kEthernetHeaderBytes || bytes > pvrdma::roce::kFrameBytesMax) {
      ++counters_.rcvd_bad_length;
      continue;
    }
    ++handed;
    ++counters_.rcvd_pkts;
    counters_.rcvd_bytes += bytes;
    handler_.on_frame({in_.data(), bytes}, now);
  }
  if (handed != 0) handler_.on_burst_end(now);
}

bool TapLink::run(Instant now) {
  if (starved_ && is_up()) {
    starved_ = false;
    handler_.on_room(now);
  }
  return false;
}

}  // namespace pvrdma::transport::roce
