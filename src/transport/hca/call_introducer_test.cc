#include "transport/hca/call_introducer.h"

#include <arpa/inet.h>
#include <cerrno>
#include <sys/socket.h>
#include <vector>

#include "gtest/gtest.h"

#include "base/fd.h"
#include "base/ip_address.h"
#include "calls/host_calls.h"
#include "calls/said_fixture.h"

namespace pvrdma::transport::hca {
namespace {

using calls::heard;
using Json = schema::ParsedJson;

calls::Said said(const PipeOffer& offer) {
  return heard([&](calls::Conversation& there) { return say_pipe_offer(there, offer); });
}
calls::Said said(const PipeAnswer& answer) {
  return heard([&](calls::Conversation& there) { return say_pipe_answer(there, answer); });
}
Result<PipeOffer> offer_of(const Json& text) {
  return read_pipe_offer(heard(text));
}
Result<PipeAnswer> answer_of(const Json& text) {
  return read_pipe_answer(heard(text));
}

constexpr PipeEndpoint kCalledEnd{
    .qpn = 17, .psn = 0xffffff, .mtu = 4096, .slots = 256, .reads = 16, .lends_answers = true};
const verbs::Gid kGid{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}};
const verbs::Gid kOther{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 9}};

TEST(CallIntroducerTest, WhatIsSaidIsUnderstood) {
  const PipeOffer offer{kCalledEnd, {kGid, kOther}};
  const auto back = read_pipe_offer(said(offer));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, offer);
  EXPECT_EQ(said(offer).text.dump(),
            R"({"gids":["fe800000000000000102030405060708","fe800000000000000102030405060709"],)"
            R"("lends_answers":true,"mtu":4096,"psn":16777215,"qpn":17,"reads":16,"say":"pipe-offer",)"
            R"("slots":256})");
  const PipeAnswer answer{kCalledEnd, kGid, kOther};
  const auto answered = read_pipe_answer(said(answer));
  ASSERT_TRUE(answered) << answered.error().message;
  EXPECT_EQ(*answered, answer);
  EXPECT_EQ(said(answer).text.dump(),
            R"({"acceptor":"fe800000000000000102030405060709","dialler":"fe800000000000000102030405060708",)"
            R"("lends_answers":true,"mtu":4096,"psn":16777215,"qpn":17,"reads":16,"say":"pipe-answer",)"
            R"("slots":256})");
}

TEST(CallIntroducerTest, WhoKnowsNothingOfLoansDoesNotMentionThem) {
  Json offer = said(PipeOffer{kCalledEnd, {kGid}}).text;
  for (const char* member : {"lends_answers", "reads"}) {
    Json spoilt = offer;
    spoilt[member] = "yes";
    EXPECT_EQ(offer_of(spoilt).error().code, EPROTO) << spoilt.dump();
    offer.erase(member);
  }
  const auto back = offer_of(offer);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->end.reads, 0U);
  EXPECT_FALSE(back->end.lends_answers);
}

TEST(CallIntroducerTest, OnlyOtherShardsThanTheFirstAreNamed) {
  const PipeOffer offer{
      .end = kCalledEnd, .gids = {kGid}, .from_shard = ShardNumber(1), .shard = ShardNumber(16)};
  Json text = said(offer).text;
  EXPECT_EQ(text.at("from_shard"), 1);
  EXPECT_EQ(text.at("shard"), 16);
  EXPECT_EQ(offer_of(text).value(), offer);
  text.erase("shard");
  EXPECT_EQ(offer_of(text)->shard, ShardNumber());
  for (const Json& bad : {Json(0), Json(17), Json(-1), Json("1"), Json(1.5)}) {
    text["from_shard"] = bad;
    EXPECT_EQ(offer_of(text).error().code, EPROTO) << text.dump();
  }
}

TEST(CallIntroducerTest, WhatIsNoOfferIsRefused) {
  const Json good = said(PipeOffer{kCalledEnd, {kGid}}).text;
  const std::vector<std::pair<const char*, Json>> bad{
      {"qpn", Json()},
      {"qpn", -1},
      {"qpn", 4294967296},
      {"qpn", "17"},
      {"psn", 1.5},
      {"mtu", true},
      {"slots", Json::array()},
      {"slots", Json::object()},
      {"gids", Json()},
      {"gids", "fe80"},
      {"gids", {1}},
      {"gids", {"fe80"}},
      {"gids", {std::string(32, 'g')}},
      {"gids", std::vector<std::string>(17, std::string(32, '0'))}};
  for (const auto& [member, value] : bad) {
    Json spoilt = good;
    spoilt[member] = value;
    EXPECT_EQ(offer_of(spoilt).error().code, EPROTO) << spoilt.dump();
    Json lacking = good;
    lacking.erase(member);
    EXPECT_EQ(offer_of(lacking).error().code, EPROTO) << lacking.dump();
  }
}

TEST(CallIntroducerTest, WhatIsNoAnswerIsRefused) {
  const Json good = said(PipeAnswer{kCalledEnd, kGid, kOther}).text;
  for (const char* member : {"qpn", "psn", "mtu", "slots", "dialler", "acceptor"}) {
    for (const Json& value : {Json(), Json(-1), Json("x"), Json::object()}) {
      Json spoilt = good;
      spoilt[member] = value;
      EXPECT_FALSE(answer_of(spoilt)) << spoilt.dump();
    }
    Json lacking = good;
    lacking.erase(member);
    EXPECT_FALSE(answer_of(lacking)) << lacking.dump();
  }
}

// A host that takes connections at the port of all hosts, and says nothing.
TEST(CallIntroducerTest, AHostThatAnswersSlowlyIsAskedLessOften) {
  const auto here = IpAddress::parse("127.161.9.1").value();
  const Fd silent(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(28250), .sin_addr = {}, .sin_zero = {}};
  ASSERT_EQ(::inet_pton(AF_INET, "127.161.9.1", &address.sin_addr), 1);
  ASSERT_EQ(::bind(silent.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(silent.get(), 8), 0);
  const calls::HostCalls calls(
      "esx1",
      [&](const std::string&) {
        return calls::Route{here, here};
      },
      nullptr, "cubic");
  CallIntroducer introducer(calls);
  EXPECT_TRUE(introducer.check("esx2"));
  ASSERT_FALSE(introducer.introduce("esx2", PipeOffer{kCalledEnd, {kGid}}));
  const auto refused = introducer.check("esx2");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EAGAIN);
  EXPECT_TRUE(introducer.check("esx3")) << "which is not slow";
}

}  // namespace
}  // namespace pvrdma::transport::hca
