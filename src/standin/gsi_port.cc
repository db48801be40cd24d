#include "standin/gsi_port.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/core.h>

#include "base/mapped_address.h"

namespace pvrdma::standin {
namespace {

constexpr std::uint32_t kReceives = 64;
constexpr std::uint32_t kSends = 64;
constexpr std::size_t kGrhBytes = 40;
constexpr std::size_t kSlotBytes = 512;  // room for a GRH and a MAD
constexpr std::uint32_t kGsiQpn = 1;
constexpr std::uint32_t kGsiQkey = 0x8001'0000;

// In the place of the GRH stands an IPv6 header, or an IPv4 header in its last 20 bytes.
constexpr std::size_t kIpv4Source = 32;
constexpr std::size_t kIpv4Destination = 36;
constexpr std::size_t kIpv6Source = 8;
constexpr std::size_t kIpv6Destination = 24;

cm::Gid address_at(const std::byte* header, std::size_t v6_offset, std::size_t v4_offset, bool v4) {
  if (v4) return mapped_ipv4(header + v4_offset);
  cm::Gid gid;
  std::memcpy(gid.data(), header + v6_offset, gid.size());
  return gid;
}

}  // namespace

Result<std::unique_ptr<GsiPort>> GsiPort::create(driver::Device& device, std::vector<abi::Gid> gids) {
  std::unique_ptr<GsiPort> port(new GsiPort(device, std::move(gids)));
  if (auto started = port->start(); !started)
    return Failure(std::move(started.error()).in("making queue pair 1 of the adapter"));
  return port;
}

Result<> GsiPort::start() {
  const auto keep = [](auto& place, auto made) -> Result<> {
    if (!made) return Failure(std::move(made.error()));
    place = std::move(*made);
    return {};
  };
  driver::Context& kernel = device_.kernel();
  if (auto kept = keep(pd_, driver::ProtectionDomain::create(kernel)); !kept) return kept;
  if (auto kept = keep(buffer_, device_.ram().allocate((kReceives + kSends) * kSlotBytes)); !kept)
    return kept;
  if (auto kept = keep(region_, driver::MemoryRegion::of_buffer(*pd_, *buffer_, abi::kAccessLocalWrite));
      !kept)
    return kept;
  if (auto kept = keep(cq_, driver::CompletionQueue::create(kernel, kReceives + kSends)); !kept) return kept;
  const driver::QpOptions options{.type = abi::QpType::kGsi,
                                  .send_cq = cq_.get(),
                                  .recv_cq = cq_.get(),
                                  .max_send_wr = kSends,
                                  .max_recv_wr = kReceives,
                                  .signaling = driver::Signaling::kAll};
  if (auto kept = keep(qp_, driver::QueuePair::create(*pd_, options)); !kept) return kept;
  if (auto done = qp_->to_init({.qkey = kGsiQkey}); !done) return done;
  if (auto done = qp_->to_rtr(); !done) return done;
  if (auto done = qp_->to_rts(0); !done) return done;
  for (std::uint32_t slot = 0; slot < kReceives; ++slot) {
    if (auto posted = post_receive(slot); !posted) return posted;
  }
  for (std::uint32_t slot = kReceives; slot < kReceives + kSends; ++slot) free_sends_.push_back(slot);
  return cq_->arm();
}

Result<> GsiPort::post_receive(std::uint32_t slot) {
  const driver::Sge sge = region_->sge(slot * kSlotBytes, kGrhBytes + cm::kMadBytes);
  if (qp_->post_recv({.wr_id = slot, .sges = std::span(&sge, 1)}).ok()) return {};
  return fail(EPROTO, "queue pair 1 takes no receive request");
}

Result<GsiPort::Sent> GsiPort::send(const cm::Datagram& datagram, const abi::Mac& next_hop) {
  const auto source = std::ranges::find(gids_, abi::Gid{datagram.from});
  if (source == gids_.end()) return fail(EADDRNOTAVAIL, "a datagram from an address that the port has not");
  if (free_sends_.empty()) return Sent::kNoRoom;
  const std::uint32_t slot = free_sends_.back();
  std::memcpy(buffer_->data() + slot * kSlotBytes, datagram.mad.data(), datagram.mad.size());
  const driver::Sge sge = region_->sge(slot * kSlotBytes, cm::kMadBytes);
  const driver::Route route{.dgid = {datagram.to},
                            .sgid_index = static_cast<std::uint8_t>(source - gids_.begin()),
                            .dmac = next_hop};
  const driver::Destination to{.qpn = kGsiQpn, .qkey = kGsiQkey, .av = driver::address_vector(*pd_, route)};
  const driver::Posted posted = qp_->post_send(driver::wr::send_to(slot, std::span(&sge, 1), to));
  if (posted.status == driver::PostStatus::kFull) return Sent::kNoRoom;
  if (!posted.ok()) return fail(EPROTO, "queue pair 1 takes no send request");
  free_sends_.pop_back();
  return Sent::kYes;
}

cm::Datagram GsiPort::datagram_in(std::uint32_t slot, const driver::WorkCompletion& done) const {
  const std::byte* const header = buffer_->data() + slot * kSlotBytes;
  const bool v4 =
      (done.flags & abi::kWcWithNetworkHdrType) != 0 && done.network == abi::NetworkHdrType::kIpv4;
  cm::Datagram datagram;
  datagram.from = address_at(header, kIpv6Source, kIpv4Source, v4);
  datagram.to = address_at(header, kIpv6Destination, kIpv4Destination, v4);
  std::memcpy(datagram.mad.data(), header + kGrhBytes, cm::kMadBytes);
  return datagram;
}

Result<std::size_t> GsiPort::take_some(std::vector<cm::Datagram>& taken) {
  std::array<driver::WorkCompletion, kReceives + kSends> done;  // all that the CQ holds
  const std::size_t count = cq_->poll(done, driver::CompletionQueue::WhenEmpty::kReturn);
  for (const driver::WorkCompletion& each : std::span(done).first(count)) {
    const auto slot = static_cast<std::uint32_t>(each.wr_id);
    if (slot >= kReceives + kSends)
      return fail(EPROTO, "queue pair 1 completes a work request that was not posted");
    if (slot >= kReceives) {
      free_sends_.push_back(slot);
      continue;
    }
    const bool is_whole = each.ok() && each.byte_len == kGrhBytes + cm::kMadBytes;
    if (is_whole && (each.flags & abi::kWcGrh) != 0) taken.push_back(datagram_in(slot, each));
    if (auto posted = post_receive(slot); !posted) return Failure(posted.error());
  }
  return count;
}

Result<std::vector<cm::Datagram>> GsiPort::take() {
  std::vector<cm::Datagram> taken;
  if (const auto count = take_some(taken); !count) return Failure(count.error());
  if (auto armed = cq_->arm(); !armed) return Failure(armed.error());
  if (const auto count = take_some(taken); !count) return Failure(count.error());
  return taken;
}

}  // namespace pvrdma::standin
