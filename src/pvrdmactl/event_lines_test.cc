#include "pvrdmactl/event_lines.h"

#include <gtest/gtest.h>
#include <string>

namespace pvrdma::ctl {
namespace {

constexpr std::string_view kStream =
    "event: hello\ndata: {\"boot\":\"1\"}\n\n:\n\nevent: stats\ndata: {\"t\":2}\n\n";
constexpr std::string_view kLines =
    "{\"event\":\"hello\",\"data\":{\"boot\":\"1\"}}\n{\"event\":\"stats\",\"data\":{\"t\":2}}\n";

TEST(EventLines, AStreamMayBeCutAnywhere) {
  for (std::size_t first = 0; first <= kStream.size(); ++first) {
    for (std::size_t second = first; second <= kStream.size(); ++second) {
      EventLines lines;
      std::string got;
      for (const std::string_view piece :
           {kStream.substr(0, first), kStream.substr(first, second - first), kStream.substr(second)})
        got += lines.take(piece).value();
      ASSERT_EQ(got, kLines) << first << " " << second;
    }
  }
}

TEST(EventLines, AnEventIsALineWhenItIsWhole) {
  EventLines lines;
  EXPECT_EQ(lines.take("event: hello\ndata: {}\n").value(), "");
  EXPECT_EQ(lines.take("\nevent: st").value(), "{\"event\":\"hello\",\"data\":{}}\n");
}

TEST(EventLines, WhatIsNoEventIsRefused) {
  for (const char* text : {"{}\n\n", "event: hello\n\n", "data: {}\n\n", "\n\n"}) {
    EventLines lines;
    EXPECT_FALSE(lines.take(text).has_value()) << text;
  }
  EventLines lines;
  EXPECT_FALSE(lines.take("event: hello\ndata: " + std::string(17u << 20, 'x')).has_value());
}

}  // namespace
}  // namespace pvrdma::ctl
