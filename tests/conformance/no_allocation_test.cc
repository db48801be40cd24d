// Over any path, nothing is allocated between doorbell and completion once all containers have reached their
// size.
#include "conformance/conformance_test.h"
#include "support/counted_new.h"

namespace pvrdma::conformance {

namespace {

class SteadyState : public Conformance {
 protected:
  static constexpr int kOperations = 2000;

  void SetUp() override {
    world_.set_faults({});
    connect();
    // Makes a path that fetches payload allocate what it needs for that.
    const Sge sge = a_->sge(0, 40'000);
    while (GetParam().can.lends && world_.fetched(1) == 0 && failures_ == 0)
      perform(wr::write(1, one(sge), b_->remote()));
  }

  template <typename Operation>
  std::uint64_t allocations_of(Operation operation) {
    for (int i = 0; i < 200; ++i) operation();
    test::start_counting_allocations();
    for (int i = 0; i < kOperations; ++i) operation();
    const std::uint64_t allocations = test::stop_counting_allocations();
    EXPECT_EQ(failures_, 0);
    return allocations;
  }
  void complete(driver::CompletionQueue& cq) {
    WorkCompletion done;
    if (!world_.wait([&] { return cq.poll(std::span(&done, 1)) == 1; }) || !done.ok()) ++failures_;
  }
  void perform(const driver::SendRequest& request) {
    if (!a_->qp->post_send(request).ok()) ++failures_;
    complete(*a_->send_cq);
  }

  int failures_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Path, SteadyState, testing::ValuesIn(all_paths()), name_of);

TEST_P(SteadyState, sends_allocate_nothing) {
  const Sge sge = a_->sge(0, 256);
  EXPECT_EQ(allocations_of([&] {
              if (!b_->recv(1, 0, 256).ok()) ++failures_;
              perform(wr::send_imm(1, one(sge), 5));
              complete(*b_->recv_cq);
            }),
            0U);
}

TEST_P(SteadyState, writes_small_and_large_allocate_nothing) {
  const std::array sges{a_->sge(0, 8), a_->sge(100, 40'000), a_->sge(50'001, 1)};
  EXPECT_EQ(allocations_of([&] { perform(wr::write(1, std::span(sges).first(1), b_->remote())); }), 0U);
  EXPECT_EQ(allocations_of([&] { perform(wr::write(1, sges, b_->remote())); }), 0U);
}

TEST_P(SteadyState, reads_and_atomics_allocate_nothing) {
  const Sge small = a_->sge(0, 8);
  const Sge large = a_->sge(0, 60'000);
  EXPECT_EQ(allocations_of([&] { perform(wr::read(1, one(large), b_->remote())); }), 0U);
  EXPECT_EQ(allocations_of([&] { perform(wr::fetch_add(1, one(small), b_->remote(), 1)); }), 0U);
}

}  // namespace
}  // namespace pvrdma::conformance
