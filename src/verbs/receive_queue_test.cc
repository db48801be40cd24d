#include "verbs/receive_queue.h"

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "support/guest_memory.h"
#include "verbs/recorded_events.h"

namespace pvrdma::verbs {
namespace {

using guestmem::GuestPhys;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kLimitReached[] = "async 15 3";

// A receive WQE as a guest writes it; `num_sge` may lie about the elements that follow.
std::vector<std::byte> wqe(std::uint64_t wr_id, std::uint32_t num_sge, std::span<const abi::Sge> sges) {
  const abi::RecvWqeHeader header{.wr_id = wr_id, .num_sge = num_sge, .total_len = 0xdead};
  std::vector<std::byte> out(sizeof header + sges.size_bytes());
  std::memcpy(out.data(), &header, sizeof header);
  if (!sges.empty()) std::memcpy(out.data() + sizeof header, sges.data(), sges.size_bytes());
  return out;
}

class ReceiveQueueTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kCount = 8;
  static constexpr std::uint32_t kSges = 3;
  static constexpr guestmem::RingShape kShape{.role = guestmem::RingRole::kConsumer,
                                              .words = guestmem::RingWords::kRx,
                                              .first_page = 1,
                                              .element_count = kCount,
                                              .stride_bytes = 64};

  void SetUp() override {
    guestmem::PageList pages;
    for (const GuestPhys page : object.pages) pages.append(page);
    queue.emplace(*guestmem::GuestRing::create(memory.space(), pages, kShape), kSges);
    guest.emplace(memory, object.pages, kShape);
  }
  Taken take() { return queue->take(work); }

  test::GuestMemory memory;
  test::GuestMemory::Object object = memory.object(2);
  std::optional<ReceiveQueue> queue;
  std::optional<test::RingPeer> guest;
  ReceiveWork work;
};

TEST_F(ReceiveQueueTest, CopiesHeaderAndElements) {
  const abi::Sge sges[] = {{0x1000, 0xffff'ffff, 0x100}, {0x2000, 0, 0x200}, {0x3000, 0xffff'ffff, 0x300}};
  guest->post(wqe(42, 3, sges));
  ASSERT_EQ(take(), Taken::kOne);
  EXPECT_EQ(guest->cons_head(), 1u);
  EXPECT_EQ(work.wr_id, 42u);
  EXPECT_FALSE(work.bad);
  ASSERT_EQ(work.sge_count, 3u);
  EXPECT_EQ(work.total_bytes, 0x1'ffff'fffeULL);  // more than 32 bits
  EXPECT_EQ(work.sges[2].addr, 0x3000u);
  EXPECT_EQ(work.sges[2].lkey, 0x300u);
  EXPECT_EQ(take(), Taken::kEmpty);
}

TEST_F(ReceiveQueueTest, TooManyElementsAreBadButConsumed) {
  for (const std::uint32_t num_sge : {kSges + 1, kSgeMax + 1, 0x1000'0000u, 0xffff'ffffu}) {
    const abi::Sge sges[] = {{0x1000, 16, 0x100}};
    guest->post(wqe(7, num_sge, sges));
    ASSERT_EQ(take(), Taken::kOne) << num_sge;
    EXPECT_TRUE(work.bad) << num_sge;
    EXPECT_EQ(work.wr_id, 7u);
    EXPECT_EQ(work.sge_count, 0u);
    EXPECT_EQ(work.total_bytes, 0u);
  }
  guest->post(wqe(8, 0, {}));
  ASSERT_EQ(take(), Taken::kOne);
  EXPECT_FALSE(work.bad);  // the bad ones have left nothing behind
  EXPECT_EQ(work.sge_count, 0u);
}

TEST_F(ReceiveQueueTest, RunsThroughManyWraps) {
  for (std::uint64_t i = 0; i < 5 * kCount; ++i) {
    const abi::Sge sges[] = {{i, 1, 1}};
    guest->post(wqe(i, 1, sges));
    ASSERT_EQ(queue->available(), 1u);
    ASSERT_EQ(take(), Taken::kOne);
    ASSERT_EQ(work.wr_id, i);
    ASSERT_EQ(work.sges[0].addr, i);
  }
}

TEST_F(ReceiveQueueTest, InvalidProducerIndexIsBroken) {
  for (const std::uint32_t tail : {2 * kCount, 0xffff'ffffu, kCount + 1}) {
    guest->set_prod_tail(tail);
    EXPECT_EQ(take(), Taken::kBroken) << tail;
    EXPECT_EQ(queue->available(), 0u) << tail;
    EXPECT_EQ(guest->cons_head(), 0u) << tail;
  }
  guest->set_prod_tail(kCount);  // the ring is full, which is allowed
  EXPECT_EQ(queue->available(), kCount);
}

TEST_F(ReceiveQueueTest, OurOwnIndexIsNotTheGuestsToChange) {
  guest->post(wqe(1, 0, {}));
  ASSERT_EQ(take(), Taken::kOne);
  guest->set_cons_head(5);
  guest->post(wqe(2, 0, {}));
  ASSERT_EQ(take(), Taken::kOne);
  EXPECT_EQ(work.wr_id, 2u);
  EXPECT_EQ(guest->cons_head(), 2u);
}

TEST_F(ReceiveQueueTest, ResetForgetsPositions) {
  for (std::uint64_t i = 0; i < 3; ++i) {
    guest->post(wqe(i, 0, {}));
    ASSERT_EQ(take(), Taken::kOne);
  }
  queue->reset();
  guest->set_prod_tail(0);  // what the guest does after the command
  guest->set_cons_head(0);
  EXPECT_EQ(take(), Taken::kEmpty);
  guest->post(wqe(50, 0, {}));
  ASSERT_EQ(take(), Taken::kOne);
  EXPECT_EQ(work.wr_id, 50u);
}

TEST_F(ReceiveQueueTest, VanishedMemoryIsBroken) {
  guest->post(wqe(1, 0, {}));
  memory.space().unmap_all();
  EXPECT_EQ(take(), Taken::kBroken);
  EXPECT_EQ(queue->available(), 0u);
}

class SharedReceiveQueueTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kCount = 16;

  CreateSrq request() {
    return {.pd = PdHandle(4),
            .context = ContextHandle(5),
            .max_wr = kCount,
            .max_sge = 1,
            .limit = 0,
            .page_count = object.page_count(),
            .page_directory = object.directory};
  }
  Outcome<std::unique_ptr<SharedReceiveQueue>> create(const CreateSrq& r) {
    return SharedReceiveQueue::create(SrqHandle(3), r, limits, memory.space(), events);
  }
  void SetUp() override {
    srq = std::move(create(request()).value());
    guest.emplace(
        memory, object.pages,
        guestmem::RingShape{.words = guestmem::RingWords::kRx, .element_count = kCount, .stride_bytes = 32});
  }
  void post(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) guest->post(wqe(i, 0, {}));
  }
  Taken take() { return srq->take(work); }

  test::GuestMemory memory;
  test::GuestMemory::Object object = memory.object(2);
  Limits limits;
  RecordedEvents events;
  std::unique_ptr<SharedReceiveQueue> srq;
  std::optional<test::RingPeer> guest;
  ReceiveWork work;
};

TEST_F(SharedReceiveQueueTest, CreateChecksItsNumbers) {
  struct Case {
    const char* what;
    void (*spoil)(CreateSrq&);
    CommandError error;
  };
  const Case cases[] = {
      {"no entries", [](CreateSrq& r) { r.max_wr = 0; }, CommandError::kInvalid},
      {"no power of two", [](CreateSrq& r) { r.max_wr = 12; }, CommandError::kInvalid},
      {"above max_srq_wr", [](CreateSrq& r) { r.max_wr = 8192; }, CommandError::kInvalid},
      {"above max_sge", [](CreateSrq& r) { r.max_sge = 17; }, CommandError::kInvalid},
      {"absurd max_sge", [](CreateSrq& r) { r.max_sge = 0xffff'ffff; }, CommandError::kInvalid},
      {"limit above max_wr", [](CreateSrq& r) { r.limit = kCount + 1; }, CommandError::kInvalid},
      {"page short", [](CreateSrq& r) { r.max_wr = 256; }, CommandError::kInvalid},
      {"no page", [](CreateSrq& r) { r.page_count = 0; }, CommandError::kInvalid},
      {"directory nowhere", [](CreateSrq& r) { r.page_directory = 0x2000; }, CommandError::kBadAddress},
  };
  for (const Case& c : cases) {
    CreateSrq r = request();
    c.spoil(r);
    const auto made = create(r);
    ASSERT_FALSE(made) << c.what;
    EXPECT_EQ(made.error(), c.error) << c.what;
  }
}

TEST_F(SharedReceiveQueueTest, KeepsWhatItWasMadeWith) {
  CreateSrq r = request();
  r.page_count = 9;  // the provider announces more pages than the ring needs
  r.limit = kCount;
  const auto made = create(r);
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)->handle(), SrqHandle(3));
  EXPECT_EQ((*made)->pd(), PdHandle(4));
  EXPECT_EQ((*made)->context(), ContextHandle(5));
  EXPECT_EQ((*made)->max_wr(), kCount);
  EXPECT_EQ((*made)->max_sge(), 1u);
  EXPECT_EQ((*made)->limit(), kCount);
}

TEST_F(SharedReceiveQueueTest, LimitFiresOnceWhenTheRestDropsBelowIt) {
  post(8);
  ASSERT_TRUE(srq->set_limit(6));
  ASSERT_EQ(take(), Taken::kOne);  // 7 left
  ASSERT_EQ(take(), Taken::kOne);  // 6 left
  EXPECT_THAT(events.seen, IsEmpty());
  ASSERT_EQ(take(), Taken::kOne);  // 5 left
  EXPECT_THAT(events.seen, ElementsAre(kLimitReached));
  EXPECT_EQ(srq->limit(), 0u);
  while (take() == Taken::kOne) {
  }
  EXPECT_THAT(events.seen, ElementsAre(kLimitReached));
}

// A guest that has fallen behind arms the limit and then waits for the event.
TEST_F(SharedReceiveQueueTest, ALimitAboveWhatIsPostedFiresAtOnce) {
  post(3);
  ASSERT_TRUE(srq->set_limit(3));
  EXPECT_THAT(events.seen, IsEmpty());
  EXPECT_EQ(srq->limit(), 3u);
  ASSERT_TRUE(srq->set_limit(4));
  EXPECT_THAT(events.seen, ElementsAre(kLimitReached));
  EXPECT_EQ(srq->limit(), 0u);
}

TEST_F(SharedReceiveQueueTest, ALimitOfAnEmptyQueueFiresAtOnce) {
  ASSERT_TRUE(srq->set_limit(1));
  EXPECT_THAT(events.seen, ElementsAre(kLimitReached));
  EXPECT_EQ(take(), Taken::kEmpty);
  EXPECT_THAT(events.seen, ElementsAre(kLimitReached));
}

TEST_F(SharedReceiveQueueTest, LimitCanBeSetAgain) {
  post(4);
  for (std::uint32_t left = 4; left != 2; --left) {
    ASSERT_TRUE(srq->set_limit(left));
    ASSERT_EQ(take(), Taken::kOne);
  }
  EXPECT_THAT(events.seen, ElementsAre(kLimitReached, kLimitReached));
  EXPECT_EQ(srq->set_limit(kCount + 1).error(), CommandError::kInvalid);
  EXPECT_EQ(srq->limit(), 0u);
}

TEST_F(SharedReceiveQueueTest, TheLimitItIsMadeWithDoesNotFireWhileItIsEmpty) {
  CreateSrq r = request();
  r.limit = 4;
  srq = *create(r);
  EXPECT_EQ(take(), Taken::kEmpty);
  EXPECT_THAT(events.seen, IsEmpty());
  EXPECT_EQ(srq->limit(), 4u);
}

TEST_F(SharedReceiveQueueTest, InvalidIndexIsBroken) {
  post(4);
  ASSERT_TRUE(srq->set_limit(4));
  guest->set_prod_tail(2 * kCount + 1);
  EXPECT_EQ(take(), Taken::kBroken);
  EXPECT_THAT(events.seen, IsEmpty());
}

}  // namespace
}  // namespace pvrdma::verbs
