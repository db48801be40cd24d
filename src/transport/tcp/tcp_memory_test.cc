// While lanes are dialled, accepted and used, each allocation of the shard fails once. In the end the lanes
// are up, and they carry what is sent then.
#include <atomic>
#include <cstdlib>
#include <new>

#include "transport/tcp/tcp_fixture.h"

namespace {

std::atomic<std::uint64_t> fail_at = 0;  // which of the shard's allocations fails, counted from 1; 0: none
std::atomic<std::uint64_t> seen = 0;
thread_local bool is_counted = false;

void* allocate(std::size_t bytes) {
  if (is_counted && fail_at != 0 && ++seen == fail_at) throw std::bad_alloc();
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// GCC sees the inlined std::free() with the operator new and reports a mismatch.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t bytes) {
  return allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace pvrdma::transport::tcp {
namespace {

class TcpMemory : public testing::Test {
 protected:
  TcpMemory() {
    a_.add_peer(b_.as_peer());
    b_.add_peer(a_.as_peer());
    a_.apply();
    b_.apply();
  }

  // Runs `call` on the shard without counting the allocations that the test makes there.
  template <typename Call>
  auto quietly(Call call) {
    return world_.on_shard([&call] {
      is_counted = false;
      auto result = call();
      is_counted = true;
      return result;
    });
  }
  [[nodiscard]] bool wait(const std::function<bool()>& done) {
    for (int i = 0; i < 20000; ++i) {
      if (quietly(done)) return true;
      world_.clock().advance(std::chrono::milliseconds(1));
    }
    return false;
  }
  bool both_up() {
    return wait([&] { return a_.all_up(b_.id()) && b_.all_up(a_.id()); });
  }
  // Sends more than a lane gathers, so that its buffer grows. Without memory the messages may be lost.
  void send_some(std::uint32_t number) {
    const Host::Outgoing out = a_write(b_.id(), 1, number, 3000);
    const Scattered payload(out.bytes, 3);
    world_.on_shard([&] {
      a_.send(out.to, out.request, payload.spans());
      a_.tcp().flush(world_.clock().now());
    });
  }

  World world_;
  Host a_{world_, 1};
  Host b_{world_, 2};
};

TEST_F(TcpMemory, LanesComeBackWhateverThereWasNoMemoryFor) {
  ASSERT_TRUE(both_up());
  std::uint32_t number = 0;
  std::uint64_t failures = 0;
  for (std::uint64_t site = 1;; ++site) {
    SCOPED_TRACE(fmt::format("allocation {}", site));
    const int restored_before = quietly([&] { return a_.restored; });
    seen = 0;
    fail_at = site;
    cut_connections_to(a_.address());
    cut_connections_to(b_.address());
    send_some(++number);
    ASSERT_TRUE(wait([&] { return a_.restored > restored_before; }));
    ASSERT_TRUE(both_up());
    const bool failed = seen >= site;
    fail_at = 0;

    const Host::Outgoing last = a_write(b_.id(), 1, ++number, 100);
    quietly([&] { return b_.messages.clear(), true; });
    quietly([&] { return a_.post(last), true; });
    ASSERT_TRUE(wait([&] { return !b_.messages.empty() && b_.messages.back().bytes == last.bytes; }));
    if (!failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 20U);
}

}  // namespace
}  // namespace pvrdma::transport::tcp
