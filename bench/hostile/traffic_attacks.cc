// Attacks with endless work: doorbells, datagrams and copies. Also an idle run, for comparison.
#include <fmt/core.h>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "attack.h"
#include "guest.h"
#include "support/rc_endpoint.h"

namespace pvrdma::bench {
namespace {

constexpr std::uint32_t kNeighbour = 201;  // the index of C's GID

std::string idle(Field& field) {
  field.begin();
  while (!field.over()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return "nobody did anything";
}

// Doorbells of empty rings, without waiting for any of them.
std::string doorbells(Field& field) {
  field.begin();
  Guest guest(field.sockets[0]);
  must(guest.device().bind_gid(0, test::gid_of(0)));
  test::RcEndpoint from(guest.device(), test::gid_of(0));
  test::RcEndpoint to(guest.device(), test::gid_of(0));
  must(test::connect(from, to));
  std::uint64_t rung = 0;
  while (!field.over()) {
    for (int i = 0; i < 1000; ++i) {
      if (!guest.post(driver::Region::kUar, 0, from.qp->handle() | abi::kQpDoorbellSend)) {
        return fmt::format("the connection was ended after {} doorbells", rung);
      }
      ++rung;
    }
  }
  must(guest.device().read_register(abi::Register::kErr));  // returns when all are executed
  return fmt::format("{} doorbells", rung);
}

// Stores to the doorbell pages of many contexts, so the adapter must look at all of them.
std::string mapped_doorbells(Field& field) {
  constexpr std::size_t kContexts = 500;
  field.begin();
  Guest guest(field.sockets[0]);
  std::vector<std::unique_ptr<driver::Context>> contexts;
  while (contexts.size() < kContexts) contexts.push_back(must(driver::Context::create_user(guest.device())));
  std::uint64_t rung = 0;
  while (!field.over()) {
    for (const auto& context : contexts) {
      must(context->ring(abi::UarWord::kCq, abi::kCqDoorbellArm));
      must(context->ring(abi::UarWord::kQp, abi::kQpDoorbellSend | abi::kQpDoorbellRecv));
      rung += 2;
    }
  }
  return fmt::format("{} doorbells in {} contexts", rung, contexts.size());
}

// Management datagrams to the neighbour's peer.
std::string mads(Field& field) {
  field.begin();
  constexpr std::uint32_t kAtOnce = 256;
  Guest guest(field.sockets[0]);
  driver::Device& device = guest.device();
  must(device.bind_gid(0, test::gid_of(0)));
  const auto pd = must(driver::ProtectionDomain::create(device.kernel()));
  const auto cq = must(driver::CompletionQueue::create(device.kernel(), 2 * kAtOnce));
  const auto buffer = must(device.ram().allocate(4096));
  const auto region = must(driver::MemoryRegion::of_buffer(*pd, *buffer, abi::kAccessLocalWrite));
  const auto qp = must(driver::QueuePair::create(
      *pd, {.type = abi::QpType::kGsi, .send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = kAtOnce}));
  must(qp->to_init({.qkey = kGsiQkey}));
  must(qp->to_rtr());
  must(qp->to_rts(0));
  const driver::Sge sge = region->sge(0, kMadBytes);
  const driver::Destination to{
      .qpn = 1, .qkey = kGsiQkey, .av = driver::address_vector(*pd, {.dgid = test::gid_of(kNeighbour)})};
  const std::vector<driver::SendRequest> list(kAtOnce, driver::wr::send_to(1, {&sge, 1}, to));
  std::vector<driver::WorkCompletion> done(kAtOnce);
  std::uint64_t sent = 0;
  std::uint64_t under_way = 0;
  while (!field.over()) {
    const driver::Posted posted = qp->post_send(std::span(list).first(kAtOnce - under_way));
    if (!posted.ok()) throw std::runtime_error("a datagram could not be posted");
    under_way += posted.count;
    const std::size_t completed = cq->poll(done, driver::CompletionQueue::WhenEmpty::kReturn);
    under_way -= completed;
    sent += completed;
  }
  return fmt::format("{} datagrams", sent);
}

// Writes as many bytes as possible within the guest's memory.
std::string copies(Field& field) {
  field.begin();
  constexpr std::uint32_t kBytes = 16 << 20;
  constexpr std::uint32_t kDepth = 32;
  Guest guest(field.sockets[0], {.ram = {.size_bytes = 256 << 20}});
  must(guest.device().bind_gid(0, test::gid_of(0)));
  const test::EndpointOptions options{.buffer_bytes = kBytes};
  test::RcEndpoint from(guest.device(), test::gid_of(0), options);
  test::RcEndpoint to(guest.device(), test::gid_of(0), options);
  must(test::connect(from, to, {.timeout = 18}));
  const driver::Sge sge = from.sge(0, kBytes);
  const std::vector<driver::SendRequest> list(kDepth, driver::wr::write(1, {&sge, 1}, to.remote()));
  std::vector<driver::WorkCompletion> done(kDepth);
  std::size_t under_way = 0;
  std::uint64_t copied = 0;
  while (!field.over()) {
    under_way += from.qp->post_send(std::span(list).first(kDepth - under_way)).count;
    const std::size_t completed = from.send_cq->poll(done, driver::CompletionQueue::WhenEmpty::kReturn);
    under_way -= completed;
    copied += completed;
    if (completed == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return fmt::format("{} MiB copied", copied * (kBytes >> 20));
}

constexpr Attack kAttacks[] = {
    {"idle", "nothing: what the others are compared with", &idle},
    {"doorbells", "doorbells without end", &doorbells},
    {"mapped-doorbells", "mapped doorbells without end in 500 contexts", &mapped_doorbells},
    {"mads", "management datagrams to the neighbour's peer", &mads},
    {"copies", "writes of 16 MiB, 32 under way", &copies},
};

}  // namespace

std::span<const Attack> traffic_attacks() {
  return kAttacks;
}

}  // namespace pvrdma::bench
