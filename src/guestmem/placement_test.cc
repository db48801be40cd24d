// How bytes get into memory while a CPU of the guest looks at it, and may already have consumed some of it
// before the copy ends.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <gtest/gtest.h>
#include <span>
#include <vector>

#include "base/check.h"
#include "guestmem/host_span.h"
#include "guestmem/store_way_fixture.h"

#if defined(__x86_64__)
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#endif

namespace pvrdma::guestmem {
namespace {

class Placement : public EachStoreWay {};
INSTANTIATE_STORE_WAYS(Placement);

constexpr std::byte kUntouched{0};
constexpr std::byte kTaken{0xff};

// A message that contains neither of these two values.
std::vector<std::byte> message_of(std::size_t size) {
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(1 + i % 251);
  return out;
}

#if defined(__x86_64__)

// Memory that simulates a polling owner: it looks after every instruction that stores there, and consumes the
// bytes it finds. Each store faults and is single-stepped. It records three violations: a stored byte that is
// not the message's, a store that is out of order (lower addresses come first), and a second store to a
// consumed byte. Only one instance at a time, on one thread.
class WatchedMemory {
 public:
  static constexpr std::size_t kBytes = 2 * 4096;

  struct Seen {
    std::size_t stores = 0;  // instructions
    std::size_t taken = 0;   // bytes, from the message's start
    bool wrong_byte = false;
    bool out_of_order = false;
    bool stored_again = false;
  };

  WatchedMemory() {
    PVRDMA_CHECK(current_ == nullptr, "one at a time");
    current_ = this;
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    PVRDMA_CHECK(memory != MAP_FAILED, "a test's memory");
    memory_ = static_cast<std::byte*>(memory);
    struct sigaction action {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = &on_fault;
    ::sigaction(SIGSEGV, &action, &old_fault_);
    action.sa_sigaction = &on_step;
    ::sigaction(SIGTRAP, &action, &old_step_);
  }
  ~WatchedMemory() {
    ::sigaction(SIGSEGV, &old_fault_, nullptr);
    ::sigaction(SIGTRAP, &old_step_, nullptr);
    ::munmap(memory_, kBytes);
    current_ = nullptr;
  }
  WatchedMemory(const WatchedMemory&) = delete;
  WatchedMemory& operator=(const WatchedMemory&) = delete;

  // Starts to watch for `message`, which will be copied to `offset`. Returns the address of `offset`.
  std::byte* expect(std::size_t offset, std::span<const std::byte> message) {
    allow(PROT_READ | PROT_WRITE);
    std::fill_n(memory_, kBytes, kUntouched);
    message_ = message;
    offset_ = offset;
    seen_ = {};
    allow(PROT_READ);
    return memory_ + offset;
  }
  const Seen& seen() const { return seen_; }

 private:
  static constexpr greg_t kTrapFlag = 0x100;
  static constexpr std::size_t kMargin = 64;  // bytes looked at on either side of the message

  static greg_t& flags_of(void* context) {
    return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  }
  static void on_fault(int, siginfo_t* info, void* context) {
    const auto* at = static_cast<const std::byte*>(info->si_addr);
    if (at < current_->memory_ || at >= current_->memory_ + kBytes) {
      ::signal(SIGSEGV, SIG_DFL);  // not a store of the copy: it faults again, and ends the test
      return;
    }
    current_->allow(PROT_READ | PROT_WRITE);
    flags_of(context) |= kTrapFlag;
  }
  static void on_step(int, siginfo_t*, void* context) {
    flags_of(context) &= ~kTrapFlag;
    current_->look();
    current_->allow(PROT_READ);
  }

  void allow(int rights) {
    PVRDMA_CHECK(::mprotect(memory_, kBytes, rights) == 0, "a test's memory changes its rights");
  }
  void look() {
    ++seen_.stores;
    const std::size_t end = std::min(offset_ + message_.size() + kMargin, kBytes);
    for (std::size_t i = offset_ - std::min(offset_, kMargin); i < end; ++i) {
      const std::size_t place = i - offset_;
      if (i < offset_ || place >= message_.size()) {
        seen_.wrong_byte |= memory_[i] != kUntouched;
      } else if (place < seen_.taken) {
        seen_.stored_again |= memory_[i] != kTaken;
      } else if (memory_[i] != kUntouched) {
        seen_.wrong_byte |= memory_[i] != message_[place];
        seen_.out_of_order |= place != seen_.taken;
        memory_[i] = kTaken;
        seen_.taken = place + 1;
      }
    }
  }

  static inline WatchedMemory* current_ = nullptr;

  std::byte* memory_;
  struct sigaction old_fault_ {};
  struct sigaction old_step_ {};
  std::span<const std::byte> message_;
  std::size_t offset_ = 0;
  Seen seen_;
};

void expect_taken_whole(const WatchedMemory::Seen& seen, std::size_t size) {
  ASSERT_EQ(seen.taken, size);
  ASSERT_FALSE(seen.wrong_byte);
  ASSERT_FALSE(seen.out_of_order) << "a byte was there before one below it";
  ASSERT_FALSE(seen.stored_again) << "what the guest had made of the bytes is gone";
}

TEST_P(Placement, StoresEachByteOnceAndLowerOnesFirst) {
  WatchedMemory memory;
  std::vector<std::size_t> sizes = {255, 256, 257, 511, 1000, 2100};
  for (std::size_t size = 1; size <= 160; ++size) sizes.push_back(size);
  for (const std::size_t size : sizes) {
    const std::vector<std::byte> message = message_of(size);
    for (const std::size_t offset : {0, 1, 2, 3, 4, 6, 8, 9, 15, 16, 24, 33, 4095}) {
      SCOPED_TRACE(::testing::Message() << size << " bytes at " << offset);
      SpanList source;
      SpanList target;
      ASSERT_TRUE(source.append(const_cast<std::byte*>(message.data()), size));
      ASSERT_TRUE(target.append(memory.expect(offset, message), size));
      ASSERT_EQ(copy(target, source, size), size);
      ASSERT_NO_FATAL_FAILURE(expect_taken_whole(memory.seen(), size));
    }
  }
}

TEST_P(Placement, StoresAnAlignedWordAtOnce) {
  WatchedMemory memory;
  for (const std::size_t size : {2, 4, 8, 16}) {
    const std::vector<std::byte> message = message_of(size);
    SpanList source;
    SpanList target;
    ASSERT_TRUE(source.append(const_cast<std::byte*>(message.data()), size));
    ASSERT_TRUE(target.append(memory.expect(64 + size, message), size));
    ASSERT_EQ(copy(target, source, size), size);
    EXPECT_EQ(memory.seen().stores, 1U) << size << " bytes";
  }
}

// Lines are stored by registers as wide as the way's name says.
TEST(PlacementWays, StoreAsManyBytesByAnInstructionAsTheyCan) {
  WatchedMemory memory;
  const std::vector<std::byte> message = message_of(1024);
  std::size_t bytes = 16;
  for (const StoreWay& way : store_ways()) {
    SCOPED_TRACE(way.name);
    way.lines(memory.expect(0, message), message.data(), message.size());
    EXPECT_EQ(memory.seen().stores, message.size() / bytes);
    EXPECT_EQ(memory.seen().taken, message.size());
    bytes *= 2;
  }
}

TEST_P(Placement, GathersInOrder) {
  WatchedMemory memory;
  const std::vector<std::byte> message = message_of(300);
  SpanList source;
  SpanList target;
  std::array<std::byte, 600> apart{};
  std::size_t from = 0;
  for (const std::size_t size : {1, 7, 16, 40, 100, 136}) {
    std::memcpy(&apart[2 * from], &message[from], size);
    ASSERT_TRUE(source.append(&apart[2 * from], size));
    from += size;
  }
  ASSERT_EQ(from, message.size());
  ASSERT_TRUE(target.append(memory.expect(5, message), message.size()));
  ASSERT_EQ(copy(target, source, message.size()), message.size());
  ASSERT_NO_FATAL_FAILURE(expect_taken_whole(memory.seen(), message.size()));
}

#endif

// Stretches that overlap themselves, at all distances.
TEST_P(Placement, MovesWhatOverlaps) {
  for (std::size_t size = 1; size <= 400; size += size < 40 ? 1 : 23) {
    for (std::size_t from = 0; from <= size + 1; ++from) {
      std::vector<std::byte> memory = message_of(2 * size + 2);
      std::vector<std::byte> expected = memory;
      const std::size_t to = size + 1 - from;
      std::memmove(&expected[to], &expected[from], size);
      SpanList source;
      SpanList target;
      ASSERT_TRUE(source.append(&memory[from], size));
      ASSERT_TRUE(target.append(&memory[to], size));
      ASSERT_EQ(copy(target, source, size), size);
      ASSERT_EQ(memory, expected) << size << " bytes from " << from << " to " << to;
    }
  }
}

}  // namespace
}  // namespace pvrdma::guestmem
