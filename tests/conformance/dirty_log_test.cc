// Random traffic of all kinds while the log of written pages is on. The log must have each page that the
// daemon changes, whatever path the bytes took.
#include <algorithm>
#include <random>
#include <vector>

#include "conformance/conformance_test.h"
#include "conformance/datagram_end.h"
#include "support/memory_audit.h"

namespace pvrdma::conformance {
namespace {

constexpr std::uint32_t kArea = 288 * 1024;  // larger than one piece of a message
// The parts of an endpoint's buffer: the part that peers change, and the parts for sends, results of reads,
// and receives.
constexpr std::uint32_t kExposed = 0;
constexpr std::uint32_t kSource = kArea;
constexpr std::uint32_t kResults = 2 * kArea;
constexpr std::uint32_t kReceives = 3 * kArea;
constexpr std::uint32_t kSlot = 8 * 1024;
constexpr std::uint32_t kSlots = 16;
constexpr std::uint32_t kBuffer = kReceives + kSlots * kSlot;

class DirtyLog : public Conformance {
 protected:
  DirtyLog() : Conformance(2, {.ram = {.size_bytes = 8u << 20}}) {}

  void SetUp() override {
    for (std::uint32_t i = 0; i < 2; ++i) {
      audit_.add(world_.device(i).ram(), world_.adapter(i).memory());
      world_.bus(i).watch(&audit_);
    }
    // One end receives from an SRQ.
    user_ = must(driver::Context::create_user(world_.device(1)));
    pd_ = must(driver::ProtectionDomain::create(*user_));
    srq_ = must(driver::SharedReceiveQueue::create(*pd_, {.max_wr = kSlots}));
    a_ = endpoint(0, {.buffer_bytes = kBuffer});
    b_ = endpoint(1, {.buffer_bytes = kBuffer, .srq = srq_.get(), .pd = pd_.get()});
    must(test::connect(*a_, *b_, {.timeout = kTimeout}));
    for (std::uint32_t i = 0; i < 2; ++i) datagrams_[i] = std::make_unique<DatagramEnd>(world_.context(i));
  }
  void TearDown() override {
    for (std::uint32_t i = 0; i < 2; ++i) world_.bus(i).watch(nullptr);
    a_.reset();
    b_.reset();
    srq_.reset();
    pd_.reset();
    user_.reset();
  }

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  // A random size: mostly small, sometimes up to `most`.
  std::uint32_t size(std::uint32_t most) { return 1 + below(below(6) == 0 ? most : std::min(most, 3000u)); }

  void receive(std::uint32_t who, std::uint32_t slot) {
    RcEndpoint& end = who == 0 ? *a_ : *b_;
    const Sge sge = end.sge(kReceives + slot * kSlot, kSlot);
    const driver::ReceiveRequest request{slot, one(sge)};
    ASSERT_TRUE((who == 0 ? end.qp->post_recv(request) : srq_->post_recv(request)).ok());
    ++receives_[who];
  }

  // Posts several requests to the other end, with one doorbell.
  void post_requests(std::uint32_t who) {
    RcEndpoint& from = who == 0 ? *a_ : *b_;
    const RcEndpoint& to = who == 0 ? *b_ : *a_;
    std::array<Sge, 6> sges;
    std::vector<driver::SendRequest> requests;
    for (std::size_t i = 0; i < sges.size(); ++i) {
      Sge& sge = sges[i];
      const std::uint32_t kind = below(7);
      const bool receives = kind == 2 || kind == 3;
      if (receives && receives_[1 - who] == 0) continue;
      const std::uint32_t bytes = kind >= 5 ? 8 : size(kind == 2 ? kSlot : kArea);
      const bool answers = kind == 1 || kind >= 5;
      const std::uint32_t offset = below(kArea - bytes + 1);
      sge = from.sge((answers ? kResults : kSource) + offset, bytes);
      if (!answers) std::memset(from.bytes(kSource + offset), ++pattern_, bytes);
      const driver::Remote remote =
          to.remote(kExposed + (kind >= 5 ? offset / 8 * 8 : below(kArea - bytes + 1)));
      switch (kind) {
        case 1:
          requests.push_back(wr::read(i, one(sge), remote));
          break;
        case 2:
          requests.push_back(wr::send(i, one(sge)));
          break;
        case 3:
          requests.push_back(wr::write_imm(i, one(sge), remote, 7));
          break;
        case 5:
          requests.push_back(wr::fetch_add(i, one(sge), remote, 1 + below(1000)));
          break;
        case 6:
          requests.push_back(
              wr::compare_swap(i, one(sge), remote, load(to, remote.addr - to.mr->start()), random_()));
          break;
        default:
          requests.push_back(wr::write(i, one(sge), remote));
      }
      if (receives) --receives_[1 - who];
    }
    if (requests.empty()) return;
    ASSERT_TRUE(from.qp->post_send(requests).ok());
    open_ += requests.size();
  }

  void send_datagram(std::uint32_t who) {
    DatagramEnd& from = *datagrams_[who];
    DatagramEnd& to = *datagrams_[1 - who];
    const Sge into = to.mr->sge(below(32) * 4096u, 4096);
    // If the queue is full, enough receives wait.
    static_cast<void>(to.qp->post_recv(driver::ReceiveRequest{1, one(into)}));
    const std::uint32_t bytes = size(1000);
    std::memset(from.buffer->data() + 200 * 1024, ++pattern_, bytes);
    const Sge sge = from.mr->sge(200 * 1024, bytes);
    ASSERT_TRUE(from.qp->post_send(wr::send_to(1, one(sge), from.to(to, test::gid_of(1 - who)))).ok());
  }

  void command(std::uint32_t who) {
    RcEndpoint& end = who == 0 ? *a_ : *b_;
    switch (below(3)) {
      case 0:
        must(end.qp->query());
        break;
      case 1:
        must(driver::MemoryRegion::of_buffer(end.pd, *end.buffer, test::kFullAccess));
        break;
      default:
        must(end.recv_cq->arm());
    }
  }

  void take_completions() {
    std::array<WorkCompletion, 32> done;
    for (RcEndpoint* end : {a_.get(), b_.get()}) {
      for (std::size_t i = end->send_cq->poll(done); i != 0; --i, --open_) EXPECT_TRUE(done[i - 1].ok());
      for (std::size_t i = end->recv_cq->poll(done); i != 0; --i)
        receive(end == a_.get() ? 0 : 1, static_cast<std::uint32_t>(done[i - 1].wr_id));
      end->device.dispatch_notifications();
      while (end->device.poll_async_event()) ++events_;
    }
    for (const auto& end : datagrams_) {
      static_cast<void>(end->send_cq->poll(done));
      datagrams_received_ += end->recv_cq->poll(done);
    }
  }

  // Lets only the daemon work, and checks the log.
  void pass(Duration time) {
    audit_.look();
    world_.pass(time);
    audit_.check();
  }

  std::mt19937_64 random_{5};
  test::MemoryAudit audit_{6};
  std::unique_ptr<driver::Context> user_;
  std::unique_ptr<driver::ProtectionDomain> pd_;
  std::unique_ptr<driver::SharedReceiveQueue> srq_;
  std::array<std::unique_ptr<DatagramEnd>, 2> datagrams_;
  std::array<std::uint32_t, 2> receives_{};
  std::size_t open_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t datagrams_received_ = 0;
  int pattern_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Path, DirtyLog, testing::ValuesIn(all_paths()), name_of);

TEST_P(DirtyLog, has_each_page_that_the_daemon_changed) {
  for (std::uint32_t who = 0; who < 2; ++who) {
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) receive(who, slot);
  }
  must(srq_->set_limit(kSlots - 1));  // the first message to b raises an event
  for (int round = 0; round < 60; ++round) {
    const std::uint32_t who = below(2);
    if (open_ < 30) post_requests(who);
    if (below(3) == 0) send_datagram(who);
    if (below(5) == 0) command(who);
    pass(std::chrono::microseconds(below(300)));
    take_completions();
  }
  for (int round = 0; open_ != 0 && round < 5000; ++round) {
    pass(std::chrono::milliseconds(1));
    take_completions();
  }
  EXPECT_EQ(open_, 0u);

  // A QP that fails flushes receives and raises an event.
  const Sge sge = a_->sge(kSource, 8);
  post(*a_, wr::write(1, one(sge), {b_->remote().addr, b_->remote().rkey + 1}));
  std::array<WorkCompletion, 32> done;
  for (int round = 0; a_->send_cq->poll(done) == 0 && round < 5000; ++round)
    pass(std::chrono::milliseconds(1));
  while (b_->device.poll_async_event()) ++events_;

  audit_.finish();
  for (const std::string& page : audit_.missed()) ADD_FAILURE() << page;
  EXPECT_GE(events_, 2u) << "one of the SRQ, one of the QP";
  EXPECT_GT(datagrams_received_, 0u);
  EXPECT_GT(audit_.changes(), 200u);
  EXPECT_GT(audit_.times_emptied(), 50u);
  EXPECT_LT(audit_.logged_pages() + 2 * kArea / guestmem::kPageBytes, audit_.pages_in_use())
      << "what is only sent is not in the log";
}

}  // namespace
}  // namespace pvrdma::conformance
