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
  EXPECT_THAT(reply.text, HasSubstr("host esx-02 ended the connection (an older pvrdmad"));
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

TEST(HostReadsTest, FewWaitAndAStopEndsThem) {
  SilentHost silent;
  HostReads reads(silent.call(), HostProof::kCertificates, seconds(100));
  std::vector<std::thread> waiting;
  std::atomic<int> stopped = 0;
  const auto read = [&](const char* host) {
    stopped += reads.read(host, kWish).text == "{\"error\":\"this pvrdmad stops\"}\n" ? 1 : 0;
  };
  const auto wait_until_asked = [&](std::size_t count) {
    while (silent.asked < count) std::this_thread::yield();
  };
  for (std::size_t i = 0; i < HostReads::kOfHostMax; ++i) waiting.emplace_back(read, "esx-02");
  wait_until_asked(HostReads::kOfHostMax);
  const Reply of_host = reads.read("esx-02", kWish);
  EXPECT_EQ(of_host.status, 503);
  EXPECT_THAT(of_host.text, HasSubstr("host esx-02 is not asked, because too many reads"));
  EXPECT_EQ(stopped, 0);
  for (std::size_t i = HostReads::kOfHostMax; i < HostReads::kAtOnceMax; ++i)
    waiting.emplace_back(read, "esx-03");
  wait_until_asked(HostReads::kAtOnceMax);
  EXPECT_THAT(reads.read("esx-04", kWish).text, HasSubstr("host esx-04 is not asked"));
  reads.interrupt();
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(stopped, static_cast<int>(HostReads::kAtOnceMax));
  EXPECT_THAT(reads.read("esx-02", kWish).text, HasSubstr("this pvrdmad stops"));
}

}  // namespace
}  // namespace pvrdma::api
