// Two shards, each a thread, exchange requests and answers over two rings. Messages are in order and each is
// executed once, whatever is revoked in the middle. As soon as a revoke has returned, the memory that was
// lent is overwritten; no such byte may arrive. Both threads sleep whenever they find nothing, without a time
// limit: a wake-up that is lost hangs the test.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <poll.h>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "transport/siblings/ring_fixture.h"

namespace pvrdma::transport::siblings {
namespace {

using test::kSegment, test::Memory, test::request, test::response;

#ifdef __SANITIZE_THREAD__
constexpr std::uint32_t kMessages = 2'000;
#else
constexpr std::uint32_t kMessages = 10'000;
#endif
constexpr std::uint32_t kWindow = 48;

// What all bytes of a message are. They are others after each stop, because the guest has reused the memory.
std::byte byte_of(std::uint32_t message, std::uint64_t stops) {
  return static_cast<std::byte>(message + stops * 101);
}

// Sleeps until the bell rings, unless `has_something` after lying down.
template <typename HasSomething>
void sleep(Bell& bell, HasSomething has_something) {
  bell.lie_down();
  if (!has_something()) {
    pollfd fd{bell.fd(), POLLIN, 0};
    while (::poll(&fd, 1, -1) != 1) {
    }
  }
  bell.get_up();
}

void flush(RingWriter& writer, Bell& readers, std::uint64_t& rung) {
  if (!writer.take_unflushed()) return;
  full_fence();
  rung += readers.ring() ? 1 : 0;
}

// The requester and its guest. It keeps the rules of a path: numbers ascend, or all is revoked first; a
// stop holds back new messages until the connection knows what was revoked; the end of a loan by an answer
// revokes what is still offered of it.
class Requester {
 public:
  Requester(RingWriter& requests, RingReader& answers, Bell& own, Bell& readers, std::uint32_t seed)
      : requests_(requests), answers_(answers), own_(own), readers_(readers), random_(seed) {
    for (std::uint32_t i = 0; i < kWindow; ++i)
      sources_.push_back(std::make_unique<Memory>(bytes_of(i), pieces_of(i)));
  }

  void run(bool stops) {
    while (acked_ != kMessages) {
      bool worked = take_answers();
      if (stops && acked_ != kMessages) {
        if (random_() % 16 == 0) stop();
        if (random_() % 64 == 0) next_ = acked_ + 1;
      }
      announce();
      worked |= send();
      flush(requests_, readers_, rung);
      if (worked) continue;
      answers_.before_sleep();
      sleep(own_, [this] { return answers_.has_something() || requests_.has_room_again(); });
    }
  }

  std::uint64_t rung = 0;
  std::uint64_t revoked_lent = 0;

 private:
  // Kinds of payload by turns; the source of message n is n modulo the window.
  static std::uint32_t bytes_of(std::uint32_t n) {
    constexpr std::array<std::uint32_t, 6> kBytes{8, 300, 6000, 40'000, 64, 2000};
    return kBytes[n % kBytes.size()];
  }
  static std::uint32_t pieces_of(std::uint32_t n) { return n % 4 + 1; }
  Memory& source(std::uint32_t n) { return *sources_[n % kWindow]; }

  bool take_answers() {
    bool any = false;
    while (const Slot* const slot = answers_.next()) {
      const std::uint32_t answered = slot->message.response.number.value;
      answers_.pass();
      any = true;
      if (answered <= acked_) continue;
      revoke([answered](const Slot& of) {
        return of.where == Where::kLent && of.message.request.number.value <= answered;
      });
      while (acked_ < answered) source(++acked_).fill_with(byte_of(answered, ~stops_));
      next_ = std::max(next_, acked_ + 1);
      filled_to_ = std::max(filled_to_, acked_ + 1);
    }
    return any;
  }

  template <typename IsOne>
  void revoke(IsOne is_one) {
    requests_.revoke([&](const RingWriter::Sent&, const Slot& slot) { return is_one(slot); },
                     [this](const RingWriter::Sent&, const Slot& slot) {
                       if (slot.where == Where::kLent) ++revoked_lent;
                     });
  }

  // All loans end, and the guest reuses the memory at once.
  void stop() {
    revoke([](const Slot&) { return true; });
    ++stops_;
    for (std::uint32_t n = acked_ + 1; n < filled_to_; ++n) source(n).fill_with(byte_of(n, stops_));
    requests_.hold();
    is_held_ = true;
  }
  void announce() {
    if (!is_held_) return;
    next_ = acked_ + 1;
    requests_.release();
    is_held_ = false;
  }

  bool send() {
    bool any = false;
    while (next_ <= kMessages && next_ <= acked_ + kWindow && requests_.has_room(share_)) {
      if (next_ <= last_sent_) revoke([](const Slot&) { return true; });
      for (; filled_to_ <= next_; ++filled_to_) source(filled_to_).fill_with(byte_of(filled_to_, stops_));
      const guestmem::SpanList& payload = source(next_).spans();
      const RingWriter::Sender sender{share_, this, verbs::Qpn(1)};
      auto message = request(next_, static_cast<std::uint32_t>(payload.bytes()));
      message.remote_addr = stops_;
      const bool lends = payload.bytes() > RingWriter::kBesideBytesMax;
      EXPECT_TRUE(lends ? requests_.lend(message, kSegment, sender, payload)
                        : requests_.send(message, kSegment, sender, payload))
          << "there was room";
      last_sent_ = next_++;
      any = true;
      if (random_() % 8 == 0) break;
    }
    return any;
  }

  RingWriter& requests_;
  RingReader& answers_;
  Bell& own_;
  Bell& readers_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<Memory>> sources_;
  RingWriter::Share share_;
  std::uint32_t next_ = 1;
  std::uint32_t acked_ = 0;
  std::uint32_t last_sent_ = 0;
  std::uint32_t filled_to_ = 1;  // messages before it have their bytes in their sources
  std::uint64_t stops_ = 0;
  bool is_held_ = false;
};

// The responder and its guest.
class Responder {
 public:
  Responder(Ring& ring, RingReader& requests, RingWriter& answers, Bell& own, Bell& readers)
      : ring_(ring), requests_(requests), answers_(answers), own_(own), readers_(readers), target_(40'000) {}

  void run() {
    while (executed != kMessages || owes_) {
      bool worked = false;
      while (answers_.has_room_for_answers()) {
        if (owes_) {
          owes_ = !answers_.send(response(executed), kSegment, {share_, this, verbs::Qpn(2)}, {});
          worked = true;
        }
        const Slot* const slot = requests_.next();
        if (slot == nullptr) break;
        execute(*slot);
        requests_.pass();
        worked = true;
      }
      flush(answers_, readers_, rung);
      if (worked || (executed == kMessages && !owes_)) continue;
      requests_.before_sleep();
      sleep(own_, [this] {
        if (requests_.has_something() || answers_.has_room_again()) return true;
        has_slept = true;
        return false;
      });
    }
  }

  std::atomic<bool> has_slept = false;
  std::uint32_t executed = 0;
  std::uint64_t rung = 0;
  std::uint64_t gaps = 0;
  std::uint64_t wrong = 0;  // payloads with bytes of another message, or of afterwards
  std::uint64_t lost = 0;   // found revoked between look and copy

 private:
  void execute(const Slot& slot) {
    const std::uint32_t number = slot.message.request.number.value;
    if (number > executed + 1) ++gaps;
    if (number <= executed) owes_ = true;
    if (number != executed + 1) return;
    SlotPayload payload(ring_, slot, blame_, nullptr);
    guestmem::SpanList target;
    if (!target.append(target_.spans()[0].data, payload.bytes())) ++wrong;
    if (!payload.copy_to(target)) {
      ++lost;
      return;
    }
    const std::byte* const data = target_.spans()[0].data;
    const std::size_t rest = payload.bytes() - 1;
    if (*data != byte_of(number, slot.message.request.remote_addr) || std::memcmp(data, data + 1, rest) != 0)
      ++wrong;
    executed = number;
    owes_ = true;
  }

  Ring& ring_;
  RingReader& requests_;
  RingWriter& answers_;
  Bell& own_;
  Bell& readers_;
  const SteadyClock clock_;
  Blame blame_{clock_};
  Memory target_;
  RingWriter::Share share_;
  bool owes_ = false;  // an answer
};

class SiblingsThreads : public testing::TestWithParam<std::uint32_t> {
 protected:
  void exchange(bool stops) {
    std::thread other([this] { responder_.run(); });
    // So one wake-up is shown even on a machine that is so busy that each thread always finds something.
    while (!responder_.has_slept) std::this_thread::yield();
    requester_.run(stops);
    other.join();
    EXPECT_EQ(responder_.executed, kMessages);
    EXPECT_EQ(responder_.gaps, 0U) << "a repetition costs a retry";
    EXPECT_EQ(responder_.wrong, 0U) << "bytes of afterwards";
  }

  const std::unique_ptr<Bell> near_ = Bell::create().value();
  const std::unique_ptr<Bell> far_ = Bell::create().value();
  test::Direction requests_{*near_};
  test::Direction answers_{*far_};
  Requester requester_{requests_.writer, answers_.reader, *near_, *far_, GetParam()};
  Responder responder_{*requests_.ring, requests_.reader, answers_.writer, *far_, *near_};
};

INSTANTIATE_TEST_SUITE_P(Seeds, SiblingsThreads, testing::Values(1U, 2U, 3U));

TEST_P(SiblingsThreads, ExchangeEachMessageOnceAndSleepInBetween) {
  exchange(false);
  EXPECT_NE(requester_.rung, 0U) << "it never slept, so nothing was shown";
}

TEST_P(SiblingsThreads, ReadNothingAfterAStop) {
  exchange(true);
  EXPECT_NE(requester_.revoked_lent, 0U);
  RecordProperty("revoked_lent", std::to_string(requester_.revoked_lent));
  RecordProperty("lost_at_the_copy", std::to_string(responder_.lost));
  RecordProperty("revoke_waits", std::to_string(requests_.writer.counters().revoke_waits));
}

}  // namespace
}  // namespace pvrdma::transport::siblings
