#include "api/host_reads.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "api/read_fixture.h"

namespace pvrdma::api {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

const ReadWish kWish{"/v1/qps", {{"adapter", "VM-01"}}};

// Answers each read with `status` and `text`.
void answer_with(FakeOtherHost& there, std::uint32_t status, const std::string& text) {
  there.incoming.on(kReadWord, [status, text](calls::IncomingCall& call, const calls::Said&) {
    static_cast<void>(call.there().say(kReadAnswerWord, ReadAnswer{status}, std::as_bytes(std::span(text))));
  });
}

Reply read_of(FakeOtherHost& there) {
  return HostReads(there.call(), HostProof::kCertificates).read("esx-02", kWish);
}

Reply read_answer(std::uint32_t status, const std::string& text) {
  FakeOtherHost there;
  answer_with(there, status, text);
  return read_of(there);
}

TEST(HostReadsTest, AsksAndPassesTheAnswerOn) {
  FakeOtherHost there;
  there.incoming.on(kReadWord, [](calls::IncomingCall& call, const calls::Said& first) {
    ReadWish wish;
    EXPECT_TRUE(first.read("the read", wish));
    EXPECT_EQ(wish.path, kWish.path);
    EXPECT_EQ(wish.query, kWish.query);
    const std::string text = "[{\"qpn\": 9}]\n";
    EXPECT_TRUE(call.there().say(kReadAnswerWord, ReadAnswer{200}, std::as_bytes(std::span(text))));
  });
  const Reply reply = read_of(there);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.text, "[{\"qpn\": 9}]\n");
  EXPECT_EQ(reply.type, "application/json");
}

TEST(HostReadsTest, ARefusalNamesTheHost) {
  const Reply refused = read_answer(404, "{\"error\":\"there is no adapter \\\"x\\\"\"}\n");
  EXPECT_EQ(refused.status, 404);
  EXPECT_EQ(refused.text, "{\"error\":\"host esx-02: there is no adapter \\\"x\\\"\"}\n");
}

TEST(HostReadsTest, AnInvalidAnswerIsNotPassedOn) {
  const std::string deep = std::string(70, '[') + std::string(70, ']');
  for (const auto& [status, text] : std::vector<std::pair<std::uint32_t, std::string>>{
           {200, ""},
           {200, "<html>"},
           {200, "[1"},
           {200, deep},
           {302, "{\"error\":\"x\"}"},
           {401, "{\"error\":\"x\"}"},
           {403, "{\"error\":\"x\"}"},
           {404, "[]"},
           {404, "{\"error\":7}"},
           {999, "{}"},
           {404, "{\"error\":\"" + std::string(100'000, 'x') + "\"}"}}) {
    const Reply reply = read_answer(status, text);
    EXPECT_EQ(reply.status, 503) << status << " " << text.substr(0, 80);
    EXPECT_THAT(reply.text, HasSubstr("host esx-02 sends an invalid answer"));
  }
  const std::string flat = std::string(60, '[') + std::string(60, ']');
  EXPECT_EQ(read_answer(200, flat).status, 200);
}

TEST(HostReadsTest, AnAnswerThatIsTooLongIsNotTaken) {
  const Reply reply = read_answer(200, "\"" + std::string(kRelayedBytesMax, 'x') + "\"");
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.text, HasSubstr("host esx-02 sends a message that is too long"));
}

TEST(HostReadsTest, WithoutCertificatesNothingIsAsked) {
  HostReads reads(
      [](const std::string&) -> Result<std::unique_ptr<calls::Conversation>> {
        ADD_FAILURE() << "a call";
        return fail(EPERM, "no");
      },
      HostProof::kNone);
  const Reply reply = reads.read("esx-02", kWish);
  EXPECT_EQ(reply.status, 409);
  EXPECT_THAT(reply.text, HasSubstr("host esx-02 is not asked"));
  EXPECT_THAT(reply.text, HasSubstr("docs/cluster/setup.md"));
  EXPECT_EQ(reads.counters()->refused, 1U);
}

TEST(HostReadsTest, OutcomesAreCounted) {
  const auto outcomes = [](std::uint32_t status, const std::string& text) {
    FakeOtherHost there;
    answer_with(there, status, text);
    HostReads reads(there.call(), HostProof::kCertificates);
    static_cast<void>(reads.read("esx-02", kWish));
    const HostReadCounters& counters = *reads.counters();
    return std::vector<std::uint64_t>{counters.answered, counters.refused, counters.failed};
  };
  EXPECT_THAT(outcomes(200, "[]"), testing::ElementsAre(1, 0, 0));
  EXPECT_THAT(outcomes(404, R"({"error":"there is no adapter"})"), testing::ElementsAre(1, 0, 0));
  EXPECT_THAT(outcomes(200, "<html>"), testing::ElementsAre(0, 0, 1));
}

TEST(HostReadsTest, AHostThatCannotBeCalledIsNamed) {
  HostReads reads(
      [](const std::string& host) -> Result<std::unique_ptr<calls::Conversation>> {
        return fail(ErrorKind::kUnavailable, ECONNREFUSED, "host " + host + " cannot be called");
      },
      HostProof::kCertificates);
  const Reply reply = reads.read("esx-02", kWish);
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.text, "{\"error\":\"host esx-02 cannot be called\"}\n");
}

TEST(HostReadsTest, AnOlderDaemonEndsTheCall) {
  FakeOtherHost there;  // which knows no word
  const Reply reply = read_of(there);
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.text, HasSubstr("host esx-02 ended the connection: its log says why"));
}

TEST(HostReadsTest, AHostMayRefuseOrGiveUp) {
  FakeOtherHost refuses;
  refuses.incoming.on(kReadWord, [](calls::IncomingCall& call, const calls::Said&) {
    EXPECT_TRUE(call.there().refuse("it does not answer this read"));
  });
  const Reply refused = read_of(refuses);
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.text, HasSubstr("host esx-02 refuses: it does not answer this read"));
  FakeOtherHost gives_up;
  gives_up.incoming.on(kReadWord, [](calls::IncomingCall& call, const calls::Said&) {
    EXPECT_TRUE(call.there().end("it is busy"));
  });
  const Reply given_up = read_of(gives_up);
  EXPECT_EQ(given_up.status, 503);
  EXPECT_THAT(given_up.text, HasSubstr("host esx-02 gives up: it is busy"));
}

// A host that takes calls and answers nothing until the test ends.
class SilentHost {
 public:
  SilentHost() {
    there_.incoming.on(kReadWord, [this](calls::IncomingCall& call, const calls::Said&) {
      ++asked;
      static_cast<void>(call.there().listen(Instant::now() + seconds(100)));
    });
  }
  HostReads::CallHost call() { return there_.call(); }
  std::atomic<std::size_t> asked = 0;

 private:
  FakeOtherHost there_;
};

TEST(HostReadsTest, ASilentHostIsGivenUp) {
  SilentHost silent;
  HostReads reads(silent.call(), HostProof::kCertificates, milliseconds(1200));
  const Reply reply = reads.read("esx-02", kWish);
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.text, "{\"error\":\"host esx-02 did not answer within 1 s\"}\n");
}

// Reads of hosts that wait, each on a thread of its own.
class WaitingReads {
 public:
  WaitingReads(const SilentHost& host, HostReads& reads) : host_(host), reads_(reads) {}
  void begin(const char* host) {
    threads_.emplace_back([this, host] {
      const std::string text = reads_.read(host, kWish).text;
      if (text == "{\"error\":\"this pvrdmad stops\"}\n") ++stopped;
      if (text.find("is not asked") != std::string::npos) ++refused;
    });
  }
  // As many of esx-02 as may be asked at once.
  void begin_of_host() {
    for (std::size_t i = 0; i < HostReads::kOfHostMax; ++i) begin("esx-02");
    wait_until_asked(HostReads::kOfHostMax);
  }
  void wait_until_asked(std::size_t count) const {
    while (host_.asked < count) std::this_thread::yield();
  }
  void stop() {
    reads_.interrupt();
    for (std::thread& thread : threads_) thread.join();
  }
  std::atomic<std::size_t> stopped = 0;
  std::atomic<std::size_t> refused = 0;

 private:
  const SilentHost& host_;
  HostReads& reads_;
  std::vector<std::thread> threads_;
};

TEST(HostReadsTest, FewWaitAndAStopEndsThem) {
  SilentHost silent;
  HostReads reads(silent.call(), HostProof::kCertificates, seconds(100), seconds(100));
  WaitingReads waiting(silent, reads);
  waiting.begin_of_host();
  for (std::size_t i = 0; i < HostReads::kWaitingMax + 1; ++i) waiting.begin("esx-02");
  while (waiting.refused == 0) std::this_thread::yield();
  waiting.begin("esx-03");
  waiting.wait_until_asked(HostReads::kAtOnceMax);
  EXPECT_THAT(reads.read("esx-04", kWish).text, HasSubstr("host esx-04 is not asked"));
  EXPECT_EQ(waiting.stopped, 0U);
  waiting.stop();
  EXPECT_EQ(waiting.refused, 1U);
  // A read that waits may get the place of one that the stop has ended, and ends then.
  EXPECT_EQ(reads.counters()->refused + reads.counters()->failed,
            2U + HostReads::kAtOnceMax + HostReads::kWaitingMax);
  EXPECT_EQ(waiting.stopped, HostReads::kAtOnceMax + HostReads::kWaitingMax);
  EXPECT_EQ(silent.asked, HostReads::kAtOnceMax);
  EXPECT_THAT(reads.read("esx-02", kWish).text, HasSubstr("this pvrdmad stops"));
}

TEST(HostReadsTest, AReadThatFindsNoPlaceInTimeIsRefused) {
  SilentHost silent;
  HostReads reads(silent.call(), HostProof::kCertificates, seconds(100), milliseconds(1));
  WaitingReads waiting(silent, reads);
  waiting.begin_of_host();
  const Reply reply = reads.read("esx-02", kWish);
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.text,
            "{\"error\":\"host esx-02 is not asked, because too many reads of other hosts wait: at most 3 of "
            "one host and 4 of all for their answers, and 2 for up to 2 s until one of these ends; try again "
            "in a moment, or ask the pvrdmad of esx-02 itself\"}\n");
  waiting.stop();
}

TEST(HostReadsTest, AReadTakesThePlaceOfOneThatEnds) {
  std::atomic<std::size_t> asked = 0;
  std::atomic<bool> go_on = false;
  FakeOtherHost there;
  there.incoming.on(kReadWord, [&](calls::IncomingCall& call, const calls::Said&) {
    ++asked;
    while (!go_on) std::this_thread::yield();
    const std::string none = "[]";
    static_cast<void>(call.there().say(kReadAnswerWord, ReadAnswer{200}, std::as_bytes(std::span(none))));
  });
  HostReads reads(there.call(), HostProof::kCertificates, seconds(100), seconds(100));
  std::vector<std::thread> threads;
  std::atomic<std::size_t> answered = 0;
  const auto read = [&] { answered += reads.read("esx-02", kWish).status == 200 ? 1 : 0; };
  for (std::size_t i = 0; i < HostReads::kOfHostMax; ++i) threads.emplace_back(read);
  while (asked < HostReads::kOfHostMax) std::this_thread::yield();
  for (std::size_t i = 0; i < HostReads::kWaitingMax; ++i) threads.emplace_back(read);
  go_on = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, HostReads::kOfHostMax + HostReads::kWaitingMax);
  EXPECT_EQ(reads.counters()->answered, answered);
}

}  // namespace
}  // namespace pvrdma::api
