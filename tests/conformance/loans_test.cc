// Paths that lend guests' memory: the long payload of requests and of answers to reads is fetched. If its QP,
// region or memory ends meanwhile, in whatever way, no byte is written into one guest or read from the other
// afterwards.
#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

#include "conformance/conformance_test.h"
#include "guestmem/sigbus.h"

namespace pvrdma::conformance {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint32_t kBytes = 192 * 1024;
constexpr std::byte kOld{0x11};     // bytes in the target
constexpr std::byte kSent{0x22};    // bytes in the source
constexpr std::byte kReused{0x33};  // bytes in the source after its end

void fill(RcEndpoint& end, std::byte value) {
  std::memset(end.bytes(), static_cast<int>(value), kBytes);
}

std::size_t count(const RcEndpoint& end, std::byte value) {
  return static_cast<std::size_t>(std::count(end.bytes(), end.bytes(kBytes), value));
}

struct Ending {
  const char* name;
  bool of_target;
  std::function<void(World& world, RcEndpoint& end, std::uint32_t adapter)> happen;
};

std::vector<Ending> endings() {
  const auto to_error = [](World&, RcEndpoint& end, std::uint32_t) { must(end.qp->to_error()); };
  const auto reset = [](World&, RcEndpoint& end, std::uint32_t) { must(end.qp->to_reset()); };
  const auto destroy = [](World&, RcEndpoint& end, std::uint32_t) { must(end.qp->destroy()); };
  const auto deregister = [](World&, RcEndpoint& end, std::uint32_t) { must(end.mr->destroy()); };
  const auto unmap = [](World& world, RcEndpoint&, std::uint32_t adapter) {
    const driver::GuestRam& ram = world.device(adapter).ram();
    ASSERT_EQ(world.adapter(adapter).dma_unmap(ram.base().value, ram.size_bytes()), 0);
  };
  const auto reset_vm = [](World& world, RcEndpoint&, std::uint32_t adapter) {
    world.adapter(adapter).reset();
  };
  const auto stop = [](World& world, RcEndpoint&, std::uint32_t adapter) { world.stop(adapter); };
  const std::vector<Ending> each{{"ERR", true, to_error},       {"RESET", true, reset},
                                 {"DESTROY_QP", true, destroy}, {"DESTROY_MR", true, deregister},
                                 {"DMA_UNMAP", true, unmap},    {"VM reset", true, reset_vm},
                                 {"port stopped", true, stop}};
  std::vector<Ending> all = each;
  for (Ending ending : each) {
    ending.of_target = false;
    all.push_back(ending);
  }
  return all;
}

// The kind of request that a posts. It decides which host fetches.
enum class By : std::uint8_t { kWrite, kRead };

std::uint32_t fetcher(By by) {
  return by == By::kRead ? 0 : 1;
}

class Loans : public Conformance {
 protected:
  explicit Loans(const driver::GuestRam::Options& ram = {.size_bytes = 4u << 20})
      : Conformance(2, {.ram = ram}) {}

  RcEndpoint& source(By by) { return by == By::kRead ? *b_ : *a_; }
  RcEndpoint& target(By by) { return by == By::kRead ? *a_ : *b_; }
  driver::SendRequest request(By by, std::uint64_t id, const Sge& own, const driver::Remote& peers) {
    sge_ = own;
    return by == By::kRead ? wr::read(id, one(sge_), peers) : wr::write(id, one(sge_), peers);
  }
  driver::SendRequest long_one(By by, std::uint64_t id) {
    return request(by, id, a_->sge(0, kBytes), b_->remote());
  }
  // Posts requests until the connection has a bulk QP.
  void warm_up(By by = By::kWrite) {
    const std::uint64_t before = world_.fetched(fetcher(by));
    ASSERT_TRUE(
        world_.wait([&] { return execute(long_one(by, 1)).ok() && world_.fetched(fetcher(by)) != before; }));
  }
  // Posts a request and returns while its payload is being fetched.
  void begin_slow(const driver::SendRequest& request, By by = By::kWrite) {
    fill(source(by), kSent);
    fill(target(by), kOld);
    world_.slow_nics(milliseconds(2));
    const std::uint64_t before = world_.fetched(fetcher(by));
    post(*a_, request);
    ASSERT_TRUE(world_.wait([&] { return world_.fetched(fetcher(by)) != before; }));
  }

  Sge sge_{};
};

TEST_P(Loans, long_payload_is_fetched) {
  connect({.buffer_bytes = kBytes});
  warm_up();
  begin_slow(long_one(By::kWrite, 2));
  EXPECT_TRUE(await_one(*a_->send_cq).ok());
  EXPECT_EQ(count(*b_, kSent), kBytes);
  EXPECT_EQ(world_.counters(0).retransmits, 0U);
}

TEST_P(Loans, writes_behind_a_long_one_are_fetched_with_it) {
  constexpr std::uint32_t kEach = kBytes / 4;
  connect({.buffer_bytes = kBytes});
  warm_up();
  fill(*a_, kSent);
  fill(*b_, kOld);
  world_.slow_nics(milliseconds(2));
  const std::uint64_t before = world_.fetched(1);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const Sge sge = a_->sge(i * kEach, kEach);
    post(*a_, wr::write(i, one(sge), b_->remote(i * kEach)));
  }
  bool together = false;  // all writes were being fetched and none was done
  ASSERT_TRUE(world_.wait([&] {
    together = together || (world_.fetched(1) == before + 4 && count(*b_, kSent) < kEach);
    return world_.fetched(1) == before + 4;
  }));
  EXPECT_TRUE(together);
  const auto done = await(*a_->send_cq, 4);
  for (std::uint64_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].wr_id, i);
    EXPECT_TRUE(done[i].ok());
  }
  EXPECT_EQ(count(*b_, kSent), kBytes);
}

TEST_P(Loans, what_a_long_read_asks_for_is_fetched) {
  connect({.buffer_bytes = kBytes});
  warm_up(By::kRead);
  fill(*a_, kOld);
  fill(*b_, kSent);
  world_.slow_nics(milliseconds(2));
  const std::uint64_t before = world_.fetched(0);
  post(*a_, long_one(By::kRead, 2));
  bool together = false;  // several pieces were being fetched and none had arrived
  ASSERT_TRUE(world_.wait([&] {
    const std::uint64_t pieces = world_.fetched(0) - before;
    together = together || (pieces > 1 && count(*a_, kSent) < kBytes / 4);
    return pieces == 3;
  }));
  EXPECT_TRUE(together);
  EXPECT_TRUE(is_empty(*a_->send_cq));
  EXPECT_TRUE(await_one(*a_->send_cq).ok());
  EXPECT_EQ(count(*a_, kSent), kBytes);
  EXPECT_EQ(world_.counters(0).retransmits, 0U);
  world_.pass(milliseconds(10));
  must(b_->mr->destroy());  // the loans have ended, so no bulk QP has to be stopped
  const auto other = must(driver::MemoryRegion::of_buffer(b_->pd, *b_->buffer, test::kFullAccess));
  sge_ = a_->sge(0, kBytes);
  const std::uint64_t fetched = world_.fetched(0);
  EXPECT_TRUE(execute(wr::read(3, one(sge_), {other->start(), other->rkey()})).ok());
  EXPECT_GT(world_.fetched(0), fetched) << "the bulk QP stands";
}

TEST_P(Loans, what_follows_a_long_read_completes_behind_it) {
  connect({.buffer_bytes = kBytes});
  warm_up(By::kRead);
  world_.slow_nics(milliseconds(2));
  const std::uint64_t before = world_.fetched(0);
  post(*a_, long_one(By::kRead, 2));
  const Sge small = a_->sge(0, 8);
  ASSERT_TRUE(b_->recv(9, 0, 8).ok());
  post(*a_, wr::send(3, one(small)));
  EXPECT_TRUE(await_one(*b_->recv_cq).ok());
  const auto done = await(*a_->send_cq, 2);
  EXPECT_EQ(done[0].wr_id, 2U);
  EXPECT_EQ(done[1].wr_id, 3U);
  EXPECT_GT(world_.fetched(0), before);
}

TEST_P(Loans, a_receive_that_is_filled_later_completes_then) {
  connect({.buffer_bytes = kBytes});
  warm_up();
  fill(*a_, kSent);
  fill(*b_, kOld);
  world_.slow_nics(milliseconds(2));
  const Sge into = b_->sge(0, kBytes);
  ASSERT_TRUE(b_->qp->post_recv({7, one(into)}).ok());
  const std::uint64_t before = world_.fetched(1);
  sge_ = a_->sge(0, kBytes);
  post(*a_, wr::send(2, one(sge_)));
  const Sge small = a_->sge(0, 8);
  post(*a_, wr::write(3, one(small), b_->remote()));
  ASSERT_TRUE(world_.wait([&] { return world_.fetched(1) != before; }));
  EXPECT_TRUE(is_empty(*b_->recv_cq));
  EXPECT_TRUE(is_empty(*a_->send_cq)) << "what comes behind it waits";
  const WorkCompletion received = await_one(*b_->recv_cq);
  EXPECT_TRUE(received.ok());
  EXPECT_EQ(received.byte_len, kBytes);
  EXPECT_EQ(count(*b_, kSent), kBytes);
  const auto sent = await(*a_->send_cq, 2);
  EXPECT_EQ(sent[0].wr_id, 2U);
  EXPECT_EQ(sent[1].wr_id, 3U);
}

void expect_no_move_after(const Ending& ending, const PathUnderTest& path, By by) {
  SCOPED_TRACE(std::string(ending.name) + (ending.of_target ? " of the target" : " of the source"));
  World world(path, 2, {.ram = {.size_bytes = 4u << 20}});
  auto a = std::make_unique<RcEndpoint>(world.device(0), test::gid_of(0),
                                        test::EndpointOptions{.buffer_bytes = kBytes});
  auto b = std::make_unique<RcEndpoint>(world.device(1), test::gid_of(1),
                                        test::EndpointOptions{.buffer_bytes = kBytes});
  must(test::connect(*a, *b, {.timeout = 17}));
  RcEndpoint& target = by == By::kRead ? *a : *b;
  RcEndpoint& source = by == By::kRead ? *b : *a;
  const auto request = [&] {
    const Sge sge = a->sge(0, kBytes);
    const auto asked =
        by == By::kRead ? wr::read(1, one(sge), b->remote()) : wr::write(1, one(sge), b->remote());
    ASSERT_TRUE(a->qp->post_send(asked).ok());
  };
  WorkCompletion done;
  const auto is_done = [&] { return a->send_cq->poll(std::span(&done, 1)) == 1; };
  for (int i = 0; i < 100 && world.fetched(fetcher(by)) == 0; ++i) {
    request();
    ASSERT_TRUE(world.wait(is_done));
    ASSERT_TRUE(done.ok());
    world.pass(milliseconds(1));
  }
  fill(source, kSent);
  fill(target, kOld);
  world.slow_nics(milliseconds(2));
  const std::uint64_t before = world.fetched(fetcher(by));
  request();
  ASSERT_TRUE(world.wait([&] { return world.fetched(fetcher(by)) != before; }));
  ending.happen(world, ending.of_target ? target : source, ending.of_target ? fetcher(by) : 1 - fetcher(by));
  const std::size_t landed = count(target, kSent);
  EXPECT_LT(landed, kBytes) << "the test is too late";
  fill(source, kReused);
  world.pass(milliseconds(50));
  EXPECT_EQ(count(target, kReused), 0U) << "the source was read after it had been given back";
  if (ending.of_target) {
    EXPECT_EQ(count(target, kSent), landed) << "the target was written afterwards";
  }
}

TEST_P(Loans, nothing_moves_for_a_write_after_an_end) {
  for (const Ending& ending : endings()) expect_no_move_after(ending, GetParam(), By::kWrite);
}

TEST_P(Loans, nothing_moves_for_a_read_after_an_end) {
  for (const Ending& ending : endings()) expect_no_move_after(ending, GetParam(), By::kRead);
}

// A guest whose request has failed uses its memory again, even if the peer may still be fetching it.
TEST_P(Loans, what_has_run_out_of_retries_is_not_read_any_more) {
  int in_time = 0;  // how often the fetch began before the retries were used up
  for (int i = 0; i < 16; ++i) {
    connect({.buffer_bytes = kBytes}, {.timeout = 12, .retry_cnt = 0});
    world_.slow_nics(microseconds(1));
    warm_up();
    fill(*a_, kSent);
    fill(*b_, kOld);
    world_.slow_nics(milliseconds(100));
    const std::uint64_t before = world_.fetched(1);
    post(*a_, long_one(By::kWrite, 2));
    const bool failed = !await_one(*a_->send_cq).ok();
    if (failed && world_.fetched(1) != before) ++in_time;
    if (failed) fill(*a_, kReused);
    world_.pass(milliseconds(500));
    EXPECT_EQ(count(*b_, kReused), 0U);
  }
  EXPECT_NE(in_time, 0);
}

TEST_P(Loans, another_connection_of_the_two_goes_on_at_no_retrys_cost) {
  connect({.buffer_bytes = kBytes}, {.timeout = 17, .retry_cnt = 0});
  warm_up();
  auto other_a = endpoint(0, {.buffer_bytes = kBytes});
  auto other_b = endpoint(1, {.buffer_bytes = kBytes});
  must(test::connect(*other_a, *other_b, {.timeout = 17, .retry_cnt = 0}));
  begin_slow(long_one(By::kWrite, 2));
  const Sge from = other_a->sge(0, kBytes);
  fill(*other_a, kSent);
  for (std::uint64_t i = 0; i < 4; ++i) post(*other_a, wr::write(i, one(from), other_b->remote()));
  world_.pass(microseconds(100));
  must(b_->qp->to_error());
  for (const WorkCompletion& one : await(*other_a->send_cq, 4)) EXPECT_TRUE(one.ok());
  EXPECT_EQ(count(*other_b, kSent), kBytes);
  EXPECT_EQ(world_.counters(1).sequence_naks_sent, 0U);
}

// Control messages of bulk QPs do not wait until no other message waits.
TEST_P(Loans, bulk_qps_come_about_while_pieces_fill_the_path) {
  constexpr std::size_t kConnections = 6;
  constexpr int kDepth = 4;
  std::vector<std::unique_ptr<RcEndpoint>> from;
  std::vector<std::unique_ptr<RcEndpoint>> to;
  for (std::size_t i = 0; i < kConnections; ++i) {
    from.push_back(endpoint(0, {.buffer_bytes = kBytes}));
    to.push_back(endpoint(1, {.buffer_bytes = kBytes}));
    must(test::connect(*from.back(), *to.back(), {.timeout = 17}));
    const Sge sge = from.back()->sge(0, kBytes);
    for (std::uint64_t n = 0; n < kDepth; ++n)
      post(*from.back(), wr::write(n, one(sge), to.back()->remote()));
  }
  int done = 0;
  ASSERT_TRUE(world_.wait([&] {
    for (std::size_t i = 0; i < kConnections; ++i) {
      WorkCompletion completion;
      while (from[i]->send_cq->poll(std::span(&completion, 1)) == 1) {
        EXPECT_TRUE(completion.ok());
        ++done;
        const Sge sge = from[i]->sge(0, kBytes);
        post(*from[i], wr::write(completion.wr_id, one(sge), to[i]->remote()));
      }
    }
    return world_.fetched(1) != 0 || done > 2000;
  }));
  EXPECT_LE(done, 2000) << "all of them in pieces";
}

// Keys of kernel QPs, which can end without a command.
class LoansByKey : public Loans {
 protected:
  void SetUp() override {
    a_ = endpoint(0, of_kernel(0));
    b_ = endpoint(1, of_kernel(1));
    must(test::connect(*a_, *b_, {.timeout = 17}));
    warm_up();
  }
  test::EndpointOptions of_kernel(std::uint32_t adapter) {
    return {.context = &world_.device(adapter).kernel(), .buffer_bytes = kBytes};
  }
  // A fast-register key of the end's whole buffer.
  std::unique_ptr<driver::MemoryRegion> fast_key(RcEndpoint& end) {
    auto region = must(driver::MemoryRegion::for_fast_register(end.pd, 64));
    must(region->set_page_list(end.buffer->pages()));
    region->next_key();
    post(end, wr::fast_register(1, *region, kIova, kBytes, test::kFullAccess));
    EXPECT_TRUE(await_one(*end.send_cq).ok());
    return region;
  }
  // Called after the end of the key with which a slow request is being fetched.
  void expect_nothing_moves(By by = By::kWrite) {
    const std::size_t landed = count(target(by), kSent);
    EXPECT_LT(landed, kBytes) << "the test is too late";
    fill(source(by), kReused);
    world_.pass(milliseconds(50));
    EXPECT_EQ(count(target(by), kReused), 0U);
    EXPECT_EQ(count(target(by), kSent), landed);
  }

  static constexpr std::uint64_t kIova = 0x7000'0000;
};

TEST_P(LoansByKey, nothing_is_written_by_one_that_its_owner_invalidates) {
  const auto key = fast_key(*b_);
  begin_slow(request(By::kWrite, 2, a_->sge(0, kBytes), {kIova, key->rkey()}));
  post(*b_, wr::local_invalidate(3, key->rkey()));
  EXPECT_TRUE(await_one(*b_->send_cq).ok());
  expect_nothing_moves();
  EXPECT_EQ(await_one(*a_->send_cq).status, Status::kRemoteAccess);
}

TEST_P(LoansByKey, nothing_is_written_by_one_that_a_peer_invalidates) {
  auto other_a = endpoint(0, of_kernel(0));
  test::EndpointOptions of_b = of_kernel(1);
  of_b.pd = &b_->pd;
  auto other_b = endpoint(1, of_b);
  must(test::connect(*other_a, *other_b, {.timeout = 17}));
  ASSERT_TRUE(other_b->recv(9, 0, 0).ok());
  const auto key = fast_key(*b_);
  begin_slow(request(By::kWrite, 2, a_->sge(0, kBytes), {kIova, key->rkey()}));
  post(*other_a, wr::send_inv(3, {}, key->rkey()));
  EXPECT_TRUE(await_one(*other_b->recv_cq).ok());
  expect_nothing_moves();
  EXPECT_EQ(await_one(*a_->send_cq).status, Status::kRemoteAccess);
}

TEST_P(LoansByKey, nothing_is_read_by_one_that_its_owner_invalidates) {
  const auto key = fast_key(*a_);
  begin_slow(request(By::kWrite, 2, {kIova, kBytes, key->lkey()}, b_->remote()));
  test::EndpointOptions of_a = of_kernel(0);
  of_a.pd = &a_->pd;
  auto other_a = endpoint(0, of_a);
  auto other_b = endpoint(1, of_kernel(1));
  must(test::connect(*other_a, *other_b, {.timeout = 17}));
  post(*other_a, wr::local_invalidate(3, key->lkey()));
  EXPECT_TRUE(await_one(*other_a->send_cq).ok());
  fill(*a_, kReused);
  EXPECT_EQ(await_one(*a_->send_cq).status, Status::kLocalProtection);
  world_.pass(milliseconds(50));
  EXPECT_EQ(count(*b_, kReused), 0U);
}

TEST_P(LoansByKey, no_answer_is_read_by_one_that_its_owner_invalidates) {
  warm_up(By::kRead);
  const auto key = fast_key(*b_);
  begin_slow(request(By::kRead, 2, a_->sge(0, kBytes), {kIova, key->rkey()}), By::kRead);
  post(*b_, wr::local_invalidate(3, key->rkey()));
  EXPECT_TRUE(await_one(*b_->send_cq).ok());
  expect_nothing_moves(By::kRead);
  EXPECT_EQ(await_one(*a_->send_cq).status, Status::kRemoteAccess);
}

TEST_P(LoansByKey, no_answer_is_written_by_one_that_its_owner_invalidates) {
  warm_up(By::kRead);
  const auto key = fast_key(*a_);
  begin_slow(request(By::kRead, 2, {kIova, kBytes, key->lkey()}, b_->remote()), By::kRead);
  test::EndpointOptions of_a = of_kernel(0);
  of_a.pd = &a_->pd;
  auto other_a = endpoint(0, of_a);
  auto other_b = endpoint(1, of_kernel(1));
  must(test::connect(*other_a, *other_b, {.timeout = 17}));
  post(*other_a, wr::local_invalidate(3, key->lkey()));
  EXPECT_TRUE(await_one(*other_a->send_cq).ok());
  expect_nothing_moves(By::kRead);
  EXPECT_EQ(await_one(*a_->send_cq).status, Status::kLocalProtection);
}

class LoansOfUnsealedMemory : public Loans {
 protected:
  LoansOfUnsealedMemory() : Loans({.size_bytes = 64u << 20, .seal = driver::GuestRam::Seal::kNone}) {}

  // Allocates the highest memory, and everything above it.
  std::unique_ptr<driver::Buffer> take_top(driver::GuestRam& ram) {
    constexpr auto kSideBySide = driver::Placement::kContiguous;
    std::vector<std::unique_ptr<driver::Buffer>> all;
    while (auto more = ram.allocate(kBytes, kSideBySide)) all.push_back(*std::move(more));
    std::unique_ptr<driver::Buffer> top = std::move(all.back());
    const driver::GuestPhys end{ram.base().value + ram.size_bytes()};
    for (driver::GuestPhys at{top->gpa().value + kBytes}; at < end; at.value += abi::kPageBytes)
      EXPECT_FALSE(ram.is_taken(at));
    while (auto page = ram.allocate(1, kSideBySide)) above_.push_back(*std::move(page));
    std::erase_if(above_, [&](const auto& page) { return page->gpa() < top->gpa(); });
    return top;
  }

 private:
  std::vector<std::unique_ptr<driver::Buffer>> above_;
};

// A device writes into pages that a VMM has taken away, and reports success. A copy would have raised SIGBUS.
TEST_P(LoansOfUnsealedMemory, what_is_written_behind_the_end_of_the_file_ends_the_adapter) {
  static const bool installed = (must(guestmem::install_sigbus_handler()), true);
  ASSERT_TRUE(installed);
  driver::GuestRam& ram = world_.device(1).ram();
  const auto target = take_top(ram);
  connect({.buffer_bytes = kBytes}, {.timeout = kTimeout});
  warm_up();
  const auto key = must(driver::MemoryRegion::of_buffer(b_->pd, *target, test::kFullAccess));
  begin_slow(request(By::kWrite, 2, a_->sge(0, kBytes), {key->start(), key->rkey()}));
  const auto whole = static_cast<off_t>(ram.size_bytes());
  ASSERT_EQ(::ftruncate(ram.fd(), static_cast<off_t>(target->pages().back().value - ram.base().value)), 0);
  world_.lose_what_nics_read();
  EXPECT_TRUE(world_.wait([&] { return world_.adapter(1).info().state == device::AdapterState::kFailed; }));
  ASSERT_EQ(::ftruncate(ram.fd(), whole), 0);  // so that the test can destroy its own side
}

std::vector<PathUnderTest> paths_that_lend() {
  std::vector<PathUnderTest> some;
  std::ranges::copy_if(all_paths(), std::back_inserter(some),
                       [](const PathUnderTest& path) { return path.can.lends; });
  return some;
}

INSTANTIATE_TEST_SUITE_P(Path, Loans, testing::ValuesIn(paths_that_lend()), name_of);
INSTANTIATE_TEST_SUITE_P(Path, LoansOfUnsealedMemory, testing::ValuesIn(paths_that_lend()), name_of);
INSTANTIATE_TEST_SUITE_P(Path, LoansByKey, testing::ValuesIn(paths_that_lend()), name_of);

}  // namespace
}  // namespace pvrdma::conformance
