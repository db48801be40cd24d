// What another CPU sees of a copy that is under way. placement_test.cc looks at each instruction on one CPU;
// here the stores of two CPUs really run at the same time.
#include "guestmem/store_once.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <vector>

#include "guestmem/store_way_fixture.h"

// What a guest's program does is a race that no C++ program may have, so ThreadSanitizer does not see it.
#define PVRDMA_AS_A_GUEST [[gnu::no_sanitize("thread")]]

namespace pvrdma::guestmem {
namespace {

#if defined(__x86_64__)

using Byte = volatile std::uint8_t;

// Lets the other thread run if both share a core.
class Spin {
 public:
  void once() {
    if (++turns_ % 500 == 0) std::this_thread::yield();
  }

 private:
  unsigned turns_ = 0;
};

// The message of a round. Each byte differs from that of the round before.
std::uint8_t byte_of(std::size_t round, std::size_t i) {
  return static_cast<std::uint8_t>(round * 101 + i * 7 + i / 256);
}

// A program that polls the last byte, and then reads the whole message, the end first.
class Reader {
 public:
  Reader(const std::byte* memory, std::size_t size)
      : memory_(reinterpret_cast<const Byte*>(memory)), size_(size) {}

  // Returns how many bytes of the round's message are not there when the last one is.
  PVRDMA_AS_A_GUEST std::size_t missing_in(std::size_t round) const {
    const std::uint8_t last = byte_of(round, size_ - 1);
    for (Spin spin; memory_[size_ - 1] != last;) spin.once();
    std::size_t missing = 0;
    for (std::size_t i = size_; i-- > 0;) missing += memory_[i] != byte_of(round, i) ? 1U : 0U;
    return missing;
  }

 private:
  const Byte* memory_;
  std::size_t size_;
};

// A program that takes each byte that it finds, from the first to the last, and looks at all of them again.
class Consumer {
 public:
  static constexpr std::uint8_t kTaken = 0xff;
  // A byte of a message that has neither of the values "untouched" (0) and "taken".
  static std::uint8_t byte_at(std::size_t i) { return static_cast<std::uint8_t>(1 + i % 251); }

  Consumer(std::byte* memory, std::size_t size) : memory_(reinterpret_cast<Byte*>(memory)), size_(size) {}

  PVRDMA_AS_A_GUEST void clear() {
    for (std::size_t i = 0; i < size_; ++i) memory_[i] = 0;
  }
  PVRDMA_AS_A_GUEST void take_all() {
    Spin spin;
    for (std::size_t i = 0; i < size_; ++i) {
      while (memory_[i] == 0) spin.once();
      memory_[i] = kTaken;
    }
  }
  // Bytes that were stored again after they were taken. Call it when the copy has ended.
  PVRDMA_AS_A_GUEST std::size_t stored_again() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < size_; ++i) count += memory_[i] != kTaken ? 1U : 0U;
    return count;
  }

 private:
  Byte* memory_;
  std::size_t size_;
};

struct Place {
  std::size_t to;    // bytes after a page boundary
  std::size_t from;  // same
};
constexpr Place kPlaces[] = {{0, 0}, {0, 20}, {1, 1}, {40, 8}, {63, 0}, {4090, 3}};
constexpr std::size_t kSizes[] = {2, 17, 64, 200, 256, 257, 1000, 4096, 5000, 32u << 10, 65537, 200'001};
constexpr std::size_t kPage = 4096;

class StoreOnce : public EachStoreWay {
 protected:
  static constexpr std::size_t kMost = 256u << 10;

  std::byte* target(Place place) { return target_.data() + place.to; }
  std::byte* source(Place place) { return source_.data() + place.from; }

  struct Pages {
    Pages() : bytes(new (std::align_val_t(kPage)) std::byte[kMost + kPage]{}) {}
    std::byte* data() const { return bytes.get(); }
    struct Free {
      void operator()(std::byte* at) const { ::operator delete[](at, std::align_val_t(kPage)); }
    };
    std::unique_ptr<std::byte[], Free> bytes;
  };
  Pages target_;
  Pages source_;
};
INSTANTIATE_STORE_WAYS(StoreOnce);

TEST_P(StoreOnce, ShowsTheWholeMessageToWhoeverSeesItsLastByte) {
  for (const std::size_t size : kSizes) {
    const std::size_t rounds = size > 10'000 ? 10 : 40;
    for (const Place place : kPlaces) {
      SCOPED_TRACE(::testing::Message() << size << " bytes from " << place.from << " to " << place.to);
      const Reader reader(target(place), size);
      std::atomic<std::size_t> asked = 0;  // the round that the writer may write
      std::thread writer([&, this] {
        for (std::size_t round = 1; round <= rounds; ++round) {
          for (std::size_t i = 0; i < size; ++i) source(place)[i] = std::byte{byte_of(round, i)};
          for (Spin spin; asked.load(std::memory_order_acquire) < round;) spin.once();
          store_once(target(place), source(place), size);
        }
      });
      std::size_t missing = 0;
      for (std::size_t round = 1; round <= rounds; ++round) {
        asked.store(round, std::memory_order_release);
        missing += reader.missing_in(round);
      }
      writer.join();
      ASSERT_EQ(missing, 0U);
    }
  }
}

TEST_P(StoreOnce, LeavesAloneWhatTheReaderHasTaken) {
  for (const std::size_t size : {17, 256, 5000, 65537}) {
    for (const Place place : kPlaces) {
      SCOPED_TRACE(::testing::Message() << size << " bytes from " << place.from << " to " << place.to);
      for (std::size_t i = 0; i < size; ++i) source(place)[i] = std::byte{Consumer::byte_at(i)};
      for (int round = 0; round < 5; ++round) {
        Consumer consumer(target(place), size);
        consumer.clear();
        std::atomic<bool> ready = false;
        std::thread reader([&] {
          ready.store(true, std::memory_order_release);
          consumer.take_all();
        });
        for (Spin spin; !ready.load(std::memory_order_acquire);) spin.once();
        store_once(target(place), source(place), size);
        reader.join();
        ASSERT_EQ(consumer.stored_again(), 0U);
      }
    }
  }
}

#endif

}  // namespace
}  // namespace pvrdma::guestmem
