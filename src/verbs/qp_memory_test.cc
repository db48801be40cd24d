// Tests the promise that an idle QP takes less than 4 KiB of the daemon's memory, not counting the list of
// its guest's ring pages. Every allocation of this program is counted.
#include <cstdlib>
#include <new>

#include "verbs/engine_fixture.h"

namespace {
std::size_t live_bytes = 0;
constexpr std::size_t kHeader = 16;  // holds the size, and keeps the alignment of malloc()

void* counted(std::size_t size) {
  auto* const block = static_cast<std::size_t*>(std::malloc(size + kHeader));
  if (block == nullptr) throw std::bad_alloc();
  *block = size;
  live_bytes += size;
  return reinterpret_cast<std::byte*>(block) + kHeader;
}
void uncounted(void* object) noexcept {
  if (object == nullptr) return;
  auto* const block = reinterpret_cast<std::size_t*>(static_cast<std::byte*>(object) - kHeader);
  live_bytes -= *block;
  std::free(block);
}
}  // namespace

void* operator new(std::size_t size) {
  return counted(size);
}
void* operator new[](std::size_t size) {
  return counted(size);
}
void operator delete(void* object) noexcept {
  uncounted(object);
}
void operator delete[](void* object) noexcept {
  uncounted(object);
}
void operator delete(void* object, std::size_t) noexcept {
  uncounted(object);
}
void operator delete[](void* object, std::size_t) noexcept {
  uncounted(object);
}

namespace pvrdma::verbs {
namespace {

constexpr std::size_t kBytesPerQp = 4096;
constexpr std::size_t kBytesPerRingPage = 16;  // its guest address and where it is mapped
constexpr int kQps = 1000;

struct Shape {
  const char* name;
  QpOptions options;
};
class QpMemory : public ::testing::TestWithParam<Shape> {};

TEST_P(QpMemory, AnIdleQpStaysBelowFourKib) {
  TestAdapter a(51, 1, {}, 512u << 20);
  const TestCq cq = a.make_cq();
  const std::size_t before = live_bytes;
  std::size_t ring_pages = 0;
  for (int i = 0; i < kQps; ++i) {
    const TestQp qp =
        a.make_qp(cq, cq, GetParam().options);  // the test's part is freed at once, the engine's part stays
    ring_pages += qp.pages.size();
    if (GetParam().options.type == abi::QpType::kRc) a.connect(qp, {test_gid(52), Qpn(2)});
  }
  const std::size_t per_qp = (live_bytes - before - ring_pages * kBytesPerRingPage) / kQps;
  RecordProperty("bytes_per_qp", static_cast<int>(per_qp));
  std::printf("%zu bytes per idle QP, %zu ring pages each\n", per_qp, ring_pages / kQps);
  EXPECT_LT(per_qp, kBytesPerQp);
}

// One command may destroy many objects. Their memory is given back in slices, one in each turn, until all of
// it is free.
TEST(QpMemory, WhatAResetLeavesGoesBackInSlices) {
  TestAdapter a(51, 1, {}, 512u << 20);
  const std::size_t before = live_bytes;
  const TestCq cq = a.make_cq();
  for (int i = 0; i < kQps; ++i) a.make_qp(cq, cq);
  const std::size_t full = live_bytes;
  a.engine.reset();
  std::size_t left = live_bytes;
  const auto half = (full - before) / 2;
  EXPECT_GT(left, before + half) << "not within the command";
  while (a.engine.run(a.now)) {
    EXPECT_LT(left - live_bytes, half) << "not within one turn";
    left = live_bytes;
  }
  EXPECT_LT(live_bytes, before + half / 100);
}

INSTANTIATE_TEST_SUITE_P(Shapes, QpMemory,
                         ::testing::Values(Shape{"Rc", {}},
                                           Shape{"RcDeep", {.max_send_wr = 1024, .max_recv_wr = 512}},
                                           Shape{"RcManySges", {.max_send_sge = 16, .max_recv_sge = 16}},
                                           Shape{"Ud", {.type = abi::QpType::kUd}}),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace pvrdma::verbs
