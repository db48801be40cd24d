#include "transport/fault/fault.h"

#include <cstring>
#include <deque>
#include <functional>
#include <gtest/gtest.h>
#include <string>

#include "transport/inbound_fixture.h"

namespace pvrdma::transport {
namespace {

using std::chrono::milliseconds;
using Strings = std::vector<std::string>;

// Records what the wrapped transport is given, as text: "request 7: abcdef to 2". Its paths must be closed
// before it is destroyed.
class Recorder final : public Transport {
 public:
  ~Recorder() override { EXPECT_EQ(open_paths, 0); }

  PathKind kind() const override { return PathKind::kTcp; }
  const Counters& counters() const override { return counters_; }
  void open(const Place& place, const verbs::Connection&, Traffic&, verbs::PathSlot& slot) override {
    slot.open<RecorderPath>(*this, place.host);
  }
  bool send_datagram(const Place& place, const verbs::Datagram&, const guestmem::SpanList& payload, Traffic&,
                     Instant) override {
    messages.push_back("datagram: " + text(payload) + to(place.host));
    return room_max != 0;
  }
  bool is_up(HostId host) const override { return host == HostId(2); }
  void flush(Instant) override { ++flushes; }

  static std::string text(const guestmem::SpanList& payload) {
    std::string all;
    for (const guestmem::HostSpan& piece : payload)
      all.append(reinterpret_cast<const char*>(piece.data), piece.size);
    return all;
  }
  static std::string to(HostId host) { return " to " + std::to_string(host.value); }

  Strings messages;
  std::function<void()> on_message;
  std::uint32_t room_max = 1U << 30;
  int open_paths = 0;
  int flushes = 0;

 private:
  class RecorderPath final : public verbs::Path {
   public:
    RecorderPath(Recorder& recorder, HostId host) : recorder_(recorder), host_(host) {
      ++recorder_.open_paths;
    }
    ~RecorderPath() override { --recorder_.open_paths; }
    std::uint32_t room(std::uint32_t wanted, Instant) override {
      return std::min(wanted, recorder_.room_max);
    }
    void send_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant) override {
      record("request", request, payload);
    }
    void send_response(const verbs::Response& response, const guestmem::SpanList& payload, Instant) override {
      record("response", response, payload);
    }

   private:
    template <typename Message>
    void record(const char* what, const Message& message, const guestmem::SpanList& payload) {
      EXPECT_EQ(message.bytes, payload.bytes());
      recorder_.messages.push_back(std::string(what) + " " + std::to_string(message.number.value) + ": " +
                                   text(payload) + to(host_));
      if (recorder_.on_message) recorder_.on_message();
    }
    Recorder& recorder_;
    const HostId host_;
  };
  Counters counters_;
};

struct Told final : NoInbound {
  void on_ready(HostId host, Instant) override {
    ready.push_back(host);
    if (when_ready) when_ready();
  }
  void on_restored(HostId, Instant) override {}
  void on_up_changed(HostId, Instant) override {}

  std::vector<HostId> ready;
  std::function<void()> when_ready;
};

class FaultTest : public testing::Test {
 protected:
  static constexpr HostId kHost{2};

  verbs::Path& open(Fault& fault, HostId host = kHost) {
    fault.open({.host = host}, {}, traffic_, path_);
    return *path_;
  }
  void request(verbs::Path& path, std::uint32_t number, const std::string& bytes) {
    const auto count = static_cast<std::uint32_t>(bytes.size());
    if (path.room(std::max(1U, count), now_) == 0) return;
    path.send_request({.number = verbs::MessageNumber(number), .message_bytes = count, .bytes = count},
                      spans(bytes), now_);
  }
  void response(verbs::Path& path, std::uint32_t number, const std::string& bytes) {
    const auto count = static_cast<std::uint32_t>(bytes.size());
    path.send_response({.number = verbs::MessageNumber(number), .bytes = count}, spans(bytes), now_);
  }
  bool datagram(Fault& fault, const std::string& bytes) {
    return fault.send_datagram({.host = kHost}, {.bytes = static_cast<std::uint32_t>(bytes.size())},
                               spans(bytes), traffic_, now_);
  }
  // The bytes in two pieces. Valid until the next call.
  const guestmem::SpanList& spans(const std::string& bytes) {
    memory_.fill(std::byte{'?'});
    const std::size_t half = bytes.size() / 2;
    std::memcpy(memory_.data(), bytes.data(), half);
    std::memcpy(memory_.data() + half + 1, bytes.data() + half, bytes.size() - half);
    payload_.clear();
    EXPECT_TRUE(payload_.append(memory_.data(), half));
    EXPECT_TRUE(payload_.append(memory_.data() + half + 1, bytes.size() - half));
    return payload_;
  }
  // Advances time by `time`, stopping at each deadline.
  void pass(Fault& fault, Duration time) {
    const Instant end = now_ + time;
    while (fault.next_deadline() <= end) {
      now_ = std::max(now_, fault.next_deadline());
      fault.on_time(now_);
    }
    now_ = end;
  }

  Instant now_{std::chrono::seconds(1)};
  std::array<std::byte, 256> memory_{};
  guestmem::SpanList payload_;
  Recorder inner_;
  Told told_;
  Traffic traffic_;
  Fault fault_{inner_, told_, {.seed = 7, .paths_max = 1, .messages_max = 4}};
  verbs::PathSlot path_;
};

// The connection has another path then, but may not have asked for it yet.
TEST_F(FaultTest, APathThatWasClosedHasNoTrouble) {
  verbs::Path& path = open(fault_);
  fault_.close_paths();
  EXPECT_EQ(path.trouble(), "");
}

TEST_F(FaultTest, WithAllFaultsOffEverythingPassesAtOnce) {
  verbs::Path& path = open(fault_);
  inner_.room_max = 3;
  EXPECT_EQ(path.room(5, now_), 3U);
  request(path, 1, "abc");
  response(path, 2, "de");
  EXPECT_TRUE(datagram(fault_, "fgh"));
  EXPECT_EQ(inner_.messages, (Strings{"request 1: abc to 2", "response 2: de to 2", "datagram: fgh to 2"}));
  EXPECT_EQ(traffic_.messages, 3U);
  EXPECT_EQ(traffic_.payload_bytes, 8U);
  EXPECT_EQ(fault_.next_deadline(), Instant::never());
  EXPECT_EQ(fault_.kind(), PathKind::kTcp);
  EXPECT_TRUE(fault_.is_up(kHost));
  fault_.flush(now_);
  EXPECT_EQ(inner_.flushes, 1);
  inner_.room_max = 0;
  EXPECT_FALSE(datagram(fault_, "ijk")) << "the sender waits, as without the decorator";
}

TEST_F(FaultTest, Drops) {
  verbs::Path& path = open(fault_);
  fault_.configure({.drop_ppm = 1'000'000});
  request(path, 1, "abc");
  response(path, 1, "");
  EXPECT_TRUE(datagram(fault_, "x"));
  EXPECT_EQ(inner_.messages, Strings{});
  EXPECT_EQ(fault_.faults().dropped, 3U);
  EXPECT_EQ(traffic_.messages, 3U) << "they were sent";
}

TEST_F(FaultTest, DoublesLate) {
  verbs::Path& path = open(fault_);
  fault_.configure({.duplicate_ppm = 1'000'000, .late_min = milliseconds(2), .late_max = milliseconds(3)});
  request(path, 1, "abc");
  datagram(fault_, "xyz");
  EXPECT_EQ(inner_.messages.size(), 2U);
  pass(fault_, milliseconds(1));
  EXPECT_EQ(inner_.messages.size(), 2U);
  pass(fault_, milliseconds(3));
  ASSERT_EQ(inner_.messages.size(), 4U);
  std::sort(inner_.messages.begin(), inner_.messages.end());
  EXPECT_EQ(inner_.messages, (Strings{"datagram: xyz to 2", "datagram: xyz to 2", "request 1: abc to 2",
                                      "request 1: abc to 2"}));
  EXPECT_EQ(fault_.faults().duplicated, 2U);
  EXPECT_GE(inner_.flushes, 1) << "nobody else would send them on";
}

TEST_F(FaultTest, WhatIsDelayedHoldsUpThePath) {
  verbs::Path& path = open(fault_);
  fault_.configure({.delay_ppm = 1'000'000, .late_min = milliseconds(2), .late_max = milliseconds(2)});
  request(path, 1, "abc");
  fault_.configure({});
  request(path, 2, "def");
  response(path, 3, "");
  EXPECT_EQ(inner_.messages, Strings{});
  pass(fault_, milliseconds(2));
  request(path, 4, "");
  EXPECT_EQ(inner_.messages,
            (Strings{"request 1: abc to 2", "request 2: def to 2", "response 3:  to 2", "request 4:  to 2"}));
  EXPECT_EQ(fault_.faults().delayed, 3U);
}

TEST_F(FaultTest, WhatIsDueAndNotDeliveredYetHoldsUpThePathToo) {
  verbs::Path& path = open(fault_);
  fault_.configure({.delay_ppm = 1'000'000, .late_min = milliseconds(2), .late_max = milliseconds(2)});
  request(path, 1, "abc");
  fault_.configure({});
  now_ = now_ + milliseconds(3);  // an adapter takes its turn before the decorator
  request(path, 2, "def");
  pass(fault_, milliseconds(0));
  EXPECT_EQ(inner_.messages, (Strings{"request 1: abc to 2", "request 2: def to 2"}));
}

TEST_F(FaultTest, WhatIsReorderedIsOvertaken) {
  verbs::Path& path = open(fault_);
  fault_.configure({.reorder_ppm = 1'000'000, .late_min = milliseconds(2), .late_max = milliseconds(2)});
  request(path, 1, "abc");
  fault_.configure({});
  request(path, 2, "def");
  pass(fault_, milliseconds(2));
  EXPECT_EQ(inner_.messages, (Strings{"request 2: def to 2", "request 1: abc to 2"}));
  EXPECT_EQ(fault_.faults().reordered, 1U);
}

TEST_F(FaultTest, DamageShortensAMessageAndNeverChangesAByte) {
  verbs::Path& path = open(fault_);
  fault_.configure({.corrupt_ppm = 1'000'000});
  const std::string whole = "abcdefghij";
  for (std::uint32_t i = 0; i < 100; ++i) request(path, 5, whole);
  std::size_t longest = 0;
  for (const std::string& message : inner_.messages) {
    const std::string bytes = message.substr(11, message.size() - 11 - 5);
    EXPECT_TRUE(whole.starts_with(bytes)) << message;
    EXPECT_FALSE(bytes.empty());
    longest = std::max(longest, bytes.size());
  }
  EXPECT_EQ(longest, whole.size() - 1);
  EXPECT_LT(inner_.messages.size(), 100U) << "some are damaged at their first byte, and lost";

  inner_.messages.clear();
  request(path, 6, "");
  response(path, 6, "");
  datagram(fault_, whole);
  EXPECT_EQ(inner_.messages, Strings{});
  EXPECT_EQ(fault_.faults().corrupted, 103U);
}

TEST_F(FaultTest, RefusesForAWhileAndThenTellsTheHosts) {
  fault_.configure({.refuse_ppm = 1'000'000, .refusal_max = milliseconds(5)});
  EXPECT_EQ(open(fault_, HostId(2)).room(100, now_), 0U);
  EXPECT_EQ(open(fault_, HostId(3)).room(100, now_), 0U);
  EXPECT_EQ(path_->room(100, now_), 0U);
  response(*path_, 1, "");
  EXPECT_EQ(inner_.messages.size(), 1U) << "answers are not asked for";
  fault_.configure({});
  EXPECT_EQ(path_->room(100, now_), 0U) << "until the time is over";
  std::uint32_t room = 0;
  told_.when_ready = [&] { room = path_->room(100, now_); };
  pass(fault_, milliseconds(6));
  EXPECT_EQ(told_.ready, (std::vector{HostId(2), HostId(3)}));
  EXPECT_EQ(room, 100U);
  EXPECT_EQ(fault_.faults().refused, 4U);
  EXPECT_EQ(fault_.next_deadline(), Instant::never());
}

TEST_F(FaultTest, WhoIsRefusedAgainIsToldAgain) {
  fault_.configure({.refuse_ppm = 1'000'000, .refusal_max = Duration{0}});
  open(fault_);
  EXPECT_EQ(path_->room(1, now_), 0U);
  told_.when_ready = [&] { EXPECT_EQ(path_->room(1, now_), 0U); };
  pass(fault_, Duration(10));
  EXPECT_EQ(told_.ready.size(), 10U);
  told_.when_ready = [] {};
}

TEST_F(FaultTest, ALateMessageOutlivesItsPath) {
  fault_.configure({.delay_ppm = 1'000'000});
  request(open(fault_), 1, "abc");
  path_.close();
  pass(fault_, milliseconds(1));
  EXPECT_EQ(inner_.messages, (Strings{"request 1: abc to 2"}));
  EXPECT_EQ(inner_.open_paths, 0);
}

TEST_F(FaultTest, ALateRequestTakesTheRoomThereIs) {
  fault_.configure({.delay_ppm = 1'000'000});
  verbs::Path& path = open(fault_);
  request(path, 1, "abcdef");
  inner_.room_max = 4;
  pass(fault_, milliseconds(1));
  request(path, 2, "ghi");
  inner_.room_max = 0;
  pass(fault_, milliseconds(1));
  EXPECT_EQ(inner_.messages, (Strings{"request 1: abcd to 2"}));
  EXPECT_EQ(fault_.faults().late_lost, 1U);
}

TEST_F(FaultTest, WithoutAPlaceForACopyNothingIsLate) {
  fault_.configure({.duplicate_ppm = 1'000'000, .reorder_ppm = 1'000'000});
  verbs::Path& path = open(fault_);
  for (std::uint32_t number = 0; number < 3; ++number) request(path, number, "abc");
  EXPECT_EQ(fault_.waiting(), 4U);
  EXPECT_EQ(inner_.messages, (Strings{"request 2: abc to 2"}));
  EXPECT_EQ(fault_.faults().no_copy, 2U);
  pass(fault_, milliseconds(1));
  EXPECT_EQ(inner_.messages.size(), 5U);
  EXPECT_EQ(fault_.waiting(), 0U);
}

TEST_F(FaultTest, AnsweringALateMessageMaySendOthers) {
  verbs::Path& path = open(fault_);
  fault_.configure({.reorder_ppm = 1'000'000, .late_max = Duration{0}});
  request(path, 1, "abc");
  std::uint32_t number = 1;
  inner_.on_message = [&] { request(path, ++number, "def"); };
  fault_.on_time(now_);
  EXPECT_EQ(inner_.messages, (Strings{"request 1: abc to 2"})) << "what comes meanwhile waits for its turn";
  fault_.on_time(now_);
  EXPECT_EQ(inner_.messages.size(), 2U);
  inner_.on_message = nullptr;
}

TEST_F(FaultTest, AnEmptyPoolGivesAPathWithoutFaults) {
  fault_.configure({.drop_ppm = 1'000'000});
  open(fault_);
  verbs::PathSlot another;
  fault_.open({.host = kHost}, {}, traffic_, another);
  request(*another, 1, "abc");
  response(*another, 1, "");
  EXPECT_EQ(inner_.messages, (Strings{"request 1: abc to 2", "response 1:  to 2"}));
  EXPECT_EQ(fault_.faults().bare_paths, 1U);
  path_.close();
  fault_.open({.host = kHost}, {}, traffic_, another);
  request(*another, 2, "abc");
  EXPECT_EQ(inner_.messages.size(), 2U);
  EXPECT_EQ(fault_.faults().dropped, 1U);
}

TEST_F(FaultTest, DeliversBeforeItsTimeWhatItIsToLetGo) {
  fault_.configure({.delay_ppm = 1'000'000, .late_min = milliseconds(2), .late_max = milliseconds(2)});
  verbs::Path& path = open(fault_);
  request(path, 1, "abc");
  datagram(fault_, "xyz");
  fault_.deliver_all(now_);
  EXPECT_EQ(inner_.messages, (Strings{"request 1: abc to 2", "datagram: xyz to 2"}));
  EXPECT_EQ(fault_.waiting(), 0U);
  EXPECT_EQ(inner_.flushes, 1);
}

TEST_F(FaultTest, MeetsOneInAMillion) {
  verbs::Path& path = open(fault_);
  fault_.configure({.drop_ppm = 1});
  for (std::uint32_t number = 0; number < 1000; ++number) response(path, number, "");
  EXPECT_EQ(fault_.faults().messages, 1000U);
  EXPECT_LT(fault_.faults().dropped, 10U) << "not one in a thousand";
}

TEST_F(FaultTest, OpeningAnewNeedsNoSecondPlace) {
  open(fault_);
  request(open(fault_), 1, "abc");
  EXPECT_EQ(inner_.messages.size(), 1U);
  EXPECT_EQ(inner_.open_paths, 1);
}

// When the fabric opens another path, it may close one of a transport that no longer exists.
TEST_F(FaultTest, PathsMayBeClosedAfterItIsGone) {
  auto passing = std::make_unique<Fault>(inner_, told_, FaultOptions{});
  request(open(*passing), 1, "abc");
  EXPECT_EQ(inner_.open_paths, 1);
  passing.reset();
  EXPECT_EQ(inner_.open_paths, 0) << "nothing leads to the wrapped transport";
  path_.close();
}

TEST_F(FaultTest, ForgetsWhatWaitsForAnEngine) {
  fault_.configure({.delay_ppm = 1'000'000});
  alignas(verbs::Engine) std::array<std::byte, 1> stand_in{};  // never dereferenced
  auto* engine = reinterpret_cast<verbs::Engine*>(stand_in.data());
  fault_.open({.engine = engine}, {}, traffic_, path_);
  request(*path_, 1, "abc");
  request(open(fault_), 2, "def");
  fault_.forget(*engine);
  EXPECT_EQ(fault_.faults().forgotten, 1U);
  pass(fault_, milliseconds(2));
  EXPECT_EQ(inner_.messages, (Strings{"request 2: def to 2"}));
}

TEST_F(FaultTest, TheSameSeedGivesTheSameFaults) {
  const auto play = [this](std::uint64_t seed) {
    inner_.messages.clear();
    Fault fault(inner_, told_, {.seed = seed});
    fault.configure({.drop_ppm = 200'000,
                     .duplicate_ppm = 200'000,
                     .delay_ppm = 200'000,
                     .reorder_ppm = 200'000,
                     .corrupt_ppm = 200'000,
                     .refuse_ppm = 200'000});
    now_ = Instant{std::chrono::seconds(1)};
    open(fault);
    for (std::uint32_t number = 0; number < 200; ++number) {
      request(*path_, number, "abcdefgh");
      response(*path_, number, number % 2 == 0 ? "" : "ijkl");
      datagram(fault, "mnop");
      pass(fault, std::chrono::microseconds(100));
    }
    path_.close();
    return inner_.messages;
  };
  const Strings once = play(3);
  EXPECT_EQ(play(3), once);
  EXPECT_NE(play(4), once);
}

}  // namespace
}  // namespace pvrdma::transport
