// Tests the filter's grammar: what it matches, and how it reports mistakes.
#include "capture/filter.h"

#include <gtest/gtest.h>

#include "capture/capture_fixture.h"

namespace pvrdma::capture {
namespace {

using verbs::RequestOp;
using verbs::Syndrome;

bool matches(const std::string& text, const Record& record) {
  const auto filter = Filter::parse(text);
  EXPECT_TRUE(filter) << (filter ? "" : filter.error().message);
  return filter && filter->matches(record);
}

std::string mistake(const std::string& text) {
  const auto filter = Filter::parse(text);
  return filter ? "none" : filter.error().message;
}

TEST(Filter, OfNothingMatchesAll) {
  EXPECT_TRUE(matches("", request(RequestOp::kSend, 1)));
  EXPECT_TRUE(matches("  \t", datagram(1)));
}

TEST(Filter, KnowsEachCondition) {
  const Record write = request(RequestOp::kWrite, 8);                         // outbound, local
  const Record nak = response(RequestOp::kRead, Syndrome::kNakRemoteAccess);  // inbound, tcp
  const struct {
    const char* text;
    bool write, nak, datagram;
  } cases[] = {{"qp 17", true, true, true},
               {"qp 65571", true, true, false},
               {"qp 1", false, false, true},
               {"peer 10.0.0.2", true, true, true},
               {"peer ::ffff:10.0.0.2", true, true, true},
               {"peer 10.0.0.1", false, false, false},
               {"peer fd00::1", false, false, false},
               {"op write", true, false, false},
               {"op read", false, true, false},
               {"op send", false, false, false},
               {"op atomic", false, false, false},
               {"op datagram", false, false, true},
               {"path local", true, false, false},
               {"path tcp", false, true, true},
               {"in", false, true, false},
               {"out", true, false, true},
               {"request", true, false, false},
               {"answer", false, true, false},
               {"error", false, true, false}};
  for (const auto& each : cases) {
    EXPECT_EQ(matches(each.text, write), each.write) << each.text;
    EXPECT_EQ(matches(each.text, nak), each.nak) << each.text;
    EXPECT_EQ(matches(each.text, datagram(4)), each.datagram) << each.text;
  }
  EXPECT_TRUE(matches("op atomic", request(RequestOp::kFetchAdd, 8)));
  EXPECT_FALSE(matches("error", response(RequestOp::kSend, Syndrome::kProgress)));
  EXPECT_TRUE(matches("error", response(RequestOp::kSend, Syndrome::kRnrNak)));
}

TEST(Filter, BindsNotBeforeAndBeforeOr) {
  const Record write = request(RequestOp::kWrite, 8);
  EXPECT_TRUE(matches("op write or op read and in", write));
  EXPECT_FALSE(matches("(op write or op read) and in", write));
  EXPECT_TRUE(matches("not in and op write", write));
  EXPECT_FALSE(matches("not (in or op write)", write));
  EXPECT_TRUE(matches("not not(op write)", write));
}

TEST(Filter, NamesThePlaceOfAMistake) {
  EXPECT_EQ(mistake("qp"),
            "the filter, character 3: it ends here, expected the number of a QP, 0 to 16777215");
  EXPECT_EQ(mistake("qp 17x"),
            "the filter, character 4: \"17x\", expected the number of a QP, 0 to 16777215");
  EXPECT_EQ(mistake("qp 16777216").substr(0, 24), "the filter, character 4:");
  EXPECT_EQ(mistake("in and peer 10.0.0"),
            "the filter, character 13: \"10.0.0\", expected the peer's GID, an IPv6 or IPv4 address");
  EXPECT_EQ(mistake("op flush"),
            "the filter, character 4: \"flush\", expected send, write, read, atomic or datagram");
  EXPECT_EQ(mistake("path udp"), "the filter, character 6: \"udp\", expected local, tcp, hca, roce or none");
  EXPECT_EQ(mistake("in out"), "the filter, character 4: \"out\", expected \"and\", \"or\" or the end");
  EXPECT_EQ(mistake("(in"), "the filter, character 4: it ends here, expected \")\"");
  EXPECT_EQ(mistake("in)"), "the filter, character 3: \")\", expected \"and\", \"or\" or the end");
  EXPECT_NE(mistake("host x").find("character 1: \"host\", expected a condition"), std::string::npos);
  EXPECT_NE(mistake("in and").find("character 7: it ends here"), std::string::npos);
}

TEST(Filter, IsBounded) {
  EXPECT_NE(mistake(std::string(1025, ' ')).find("it may have 1024"), std::string::npos);
  EXPECT_NE(mistake(std::string(1000, '(')).find("at most 16 levels"), std::string::npos);
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "not ";
  EXPECT_NE(mistake(deep + "in").find("at most 16 levels"), std::string::npos);
  EXPECT_EQ(mistake(std::string(15, '(') + "in" + std::string(15, ')')), "none");
}

}  // namespace
}  // namespace pvrdma::capture
