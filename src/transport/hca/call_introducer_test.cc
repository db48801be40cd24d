#include "transport/hca/call_introducer.h"

#include <vector>

#include "gtest/gtest.h"

namespace pvrdma::transport::hca {
namespace {

using calls::Json;

constexpr PipeEndpoint kCalledEnd{
    .qpn = 17, .psn = 0xffffff, .mtu = 4096, .slots = 256, .reads = 16, .lends_answers = true};
const verbs::Gid kGid{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}};
const verbs::Gid kOther{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 9}};

TEST(CallIntroducerTest, WhatIsSaidIsUnderstood) {
  const PipeOffer offer{kCalledEnd, {kGid, kOther}};
  const auto heard = pipe_offer_of(to_json(offer));
  ASSERT_TRUE(heard) << heard.error().message;
  EXPECT_EQ(*heard, offer);
  EXPECT_EQ(to_json(offer).at("say"), kPipeOffer);
  const PipeAnswer answer{kCalledEnd, kGid, kOther};
  const auto answered = pipe_answer_of(to_json(answer));
  ASSERT_TRUE(answered) << answered.error().message;
  EXPECT_EQ(*answered, answer);
}

TEST(CallIntroducerTest, WhoKnowsNothingOfLoansDoesNotMentionThem) {
  Json offer = to_json(PipeOffer{kCalledEnd, {kGid}});
  for (const char* member : {"lends_answers", "reads"}) {
    Json spoilt = offer;
    spoilt[member] = "yes";
    EXPECT_EQ(pipe_offer_of(spoilt).error().code, EPROTO) << spoilt.dump();
    offer.erase(member);
  }
  const auto heard = pipe_offer_of(offer);
  ASSERT_TRUE(heard) << heard.error().message;
  EXPECT_EQ(heard->end.reads, 0U);
  EXPECT_FALSE(heard->end.lends_answers);
}

TEST(CallIntroducerTest, WhatIsNoOfferIsRefused) {
  const Json good = to_json(PipeOffer{kCalledEnd, {kGid}});
  const std::vector<std::pair<const char*, Json>> bad{
      {"qpn", Json()},
      {"qpn", -1},
      {"qpn", 4294967296},
      {"qpn", "17"},
      {"psn", 1.5},
      {"mtu", true},
      {"slots", Json::array()},
      {"gids", Json()},
      {"gids", "fe80"},
      {"gids", {1}},
      {"gids", {"fe80"}},
      {"gids", {std::string(32, 'g')}},
      {"gids", std::vector<std::string>(17, std::string(32, '0'))}};
  for (const auto& [member, value] : bad) {
    Json spoilt = good;
    spoilt[member] = value;
    EXPECT_EQ(pipe_offer_of(spoilt).error().code, EPROTO) << spoilt.dump();
    Json lacking = good;
    lacking.erase(member);
    EXPECT_EQ(pipe_offer_of(lacking).error().code, EPROTO) << lacking.dump();
  }
}

TEST(CallIntroducerTest, WhatIsNoAnswerIsRefused) {
  const Json good = to_json(PipeAnswer{kCalledEnd, kGid, kOther});
  for (const char* member : {"qpn", "psn", "mtu", "slots", "dialler", "acceptor"}) {
    for (const Json& value : {Json(), Json(-1), Json("x"), Json::object()}) {
      Json spoilt = good;
      spoilt[member] = value;
      EXPECT_FALSE(pipe_answer_of(spoilt)) << spoilt.dump();
    }
    Json lacking = good;
    lacking.erase(member);
    EXPECT_FALSE(pipe_answer_of(lacking)) << lacking.dump();
  }
}

}  // namespace
}  // namespace pvrdma::transport::hca
