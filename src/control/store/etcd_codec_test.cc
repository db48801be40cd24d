#include "control/store/etcd_codec.h"

#include <cerrno>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "control/store/base64.h"
#include "support/must.h"

namespace pvrdma::control::etcd {
namespace {

using nlohmann::json;
using pvrdma::test::code_of;
using pvrdma::test::must;
using testing::ElementsAre;

TEST(Base64, GoesBothWays) {
  // RFC 4648 section 10.
  const std::pair<const char*, const char*> known[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : known) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(from_base64(to_base64(all)), all);
  for (const char* wrong :
       {"Z", "Zg", "Zg=", "Z===", "====", "Zh==", "Zm9=", "Zg==Zg==", "Zm-v", "Zm9v\n", "=Zg="}) {
    EXPECT_FALSE(from_base64(wrong)) << wrong;
  }
}

TEST(EtcdCodec, AsksForAPrefixPageByPage) {
  EXPECT_EQ(json::parse(range_request("/p/", std::nullopt, 1000, 0)),
            (json{{"key", "L3Av"}, {"range_end", "L3Aw"}, {"limit", "1000"}}));
  EXPECT_EQ(json::parse(range_request("/p/", "a", 1000, 7)),
            (json{{"key", "L3AvYQA="}, {"range_end", "L3Aw"}, {"limit", "1000"}, {"revision", "7"}}));
  // All keys, and a prefix whose last byte has no successor.
  EXPECT_EQ(json::parse(range_request("", std::nullopt, 0, 7)),
            (json{{"key", "AA=="}, {"range_end", "AA=="}, {"count_only", true}, {"revision", "7"}}));
  EXPECT_EQ(json::parse(range_request("a\xff", std::nullopt, 1, 0))["range_end"], "Yg==");
}

TEST(EtcdCodec, WritesATransaction) {
  const Transaction transaction{{{"a", "1"}, {"b", std::nullopt}},
                                {{"a", "0", false}, {"c", std::nullopt, false}, {"a", "2", true}}};
  const json compare_a = {{"key", "YQ=="}, {"result", "EQUAL"}, {"target", "VALUE"}, {"value", "MQ=="}};
  const json compare_b = {
      {"key", "Yg=="}, {"result", "EQUAL"}, {"target", "CREATE"}, {"create_revision", "0"}};
  const json erase_c = {{"request_delete_range", json{{"key", "Yw=="}}}};
  const json put_a = {{"request_put", json{{"key", "YQ=="}, {"value", "Mg=="}, {"lease", "9"}}}};
  EXPECT_EQ(
      json::parse(must(txn_request("", transaction, 9))),
      (json{{"compare", json::array({compare_a, compare_b})}, {"success", json::array({erase_c, put_a})}}));

  Transaction big;
  for (std::size_t i = 0; i <= kMaxChanges; ++i) big.changes.push_back({std::to_string(i), "v", false});
  EXPECT_EQ(code_of(txn_request("", big, 0)), E2BIG);
  big.changes.pop_back();
  const json nested = json::parse(must(txn_request("", big, 0)));
  ASSERT_EQ(nested["success"].size(), kMaxOps);
  for (const json& part : nested["success"]) EXPECT_EQ(part["request_txn"]["success"].size(), kMaxOps);
  big.changes.clear();
  big.expects.resize(kMaxExpectations + 1);
  EXPECT_EQ(code_of(txn_request("", big, 0)), E2BIG);
}

TEST(EtcdCodec, ReadsWhatEtcdAnswers) {
  const Range range = must(parse_range(
      "/p/",
      R"({"header":{"cluster_id":"18446744073709551615","revision":"5"},"kvs":[{"key":"L3AvYQ==","value":"MQ=="},
                {"key":"L3AvYg=="}],"more":true,"count":"9"})"));
  EXPECT_EQ(range.header.cluster_id, ~std::uint64_t{0});
  EXPECT_EQ(range.header.revision, 5);
  EXPECT_TRUE(range.more);
  EXPECT_THAT(range.records, ElementsAre(KeyValue{"a", "1"}, KeyValue{"b", ""}));

  EXPECT_TRUE(must(parse_txn(R"({"header":{},"succeeded":true})")));
  EXPECT_FALSE(must(parse_txn(R"({"header":{}})")));
  EXPECT_EQ(must(parse_grant(R"({"header":{},"ID":"77","TTL":"5"})")).id, 77);
  EXPECT_EQ(must(parse_keep_alive(R"({"result":{"header":{},"ID":"77"}})")).ttl_s, 0);
  EXPECT_EQ(must(parse_authenticate(R"({"header":{},"token":"abc.1"})")), "abc.1");

  const WatchLine line = must(parse_watch("/p/", R"({"result":{"header":{"revision":"6"},"events":[
      {"kv":{"key":"L3AvYQ==","mod_revision":"6","value":"MQ==","lease":"7"}},
      {"type":"DELETE","kv":{"key":"L3AvYg==","mod_revision":"6"}}]}})"));
  ASSERT_EQ(line.events.size(), 2U);
  EXPECT_EQ(line.events[0].revision, 6);
  EXPECT_EQ(line.events[0].change, (Change{"a", "1", true}));
  EXPECT_EQ(line.events[1].change, (Change{"b", std::nullopt, false}));
  EXPECT_TRUE(
      must(parse_watch("", R"({"result":{"header":{},"canceled":true,"compact_revision":"2"}})")).compacted);

  const auto error = parse_error(R"({"error":"gone","message":"gone","code":5})");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::kNotFound);
  EXPECT_EQ(parse_error(R"({"error":{"grpc_code":16,"http_code":401,"message":"who?"}})")->code,
            Code::kUnauthenticated);
  EXPECT_FALSE(parse_error(R"({"header":{}})"));
}

TEST(EtcdCodec, RefusesNonsense) {
  const std::string deep = std::string(100000, '[');
  const std::string deep_object = R"({"header":)" + deep + std::string(100000, ']') + "}";
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string("{}"),
        std::string("\"x\""), std::string(R"({"header":3})"), std::string(R"({"header":{"revision":"x"}})"),
        std::string(R"({"header":{"revision":"99999999999999999999"}})"),
        std::string(R"({"header":{"revision":1.5}})"), std::string(R"({"result":[]})"),
        std::string(R"({"result":{"header":[]}})"), deep, deep_object, std::string("\xff\xfe{\x00", 4)}) {
    EXPECT_FALSE(parse_range("/p/", text)) << text.substr(0, 60);
    EXPECT_FALSE(parse_txn(text) && text.find("header") == std::string::npos) << text.substr(0, 60);
    EXPECT_FALSE(parse_grant(text)) << text.substr(0, 60);
    EXPECT_FALSE(parse_keep_alive(text)) << text.substr(0, 60);
    EXPECT_FALSE(parse_authenticate(text)) << text.substr(0, 60);
    EXPECT_FALSE(parse_watch("/p/", text)) << text.substr(0, 60);
    EXPECT_FALSE(parse_error(text)) << text.substr(0, 60);
  }
  const std::string header = R"({"header":{"revision":"1"},)";
  for (const char* kvs : {R"("kvs":[1]})", R"("kvs":[{"key":"L3AvYQ==","value":7}]})",
                          R"("kvs":[{"key":"YQ=="}]})", R"("kvs":[{"key":"L3Av*"}]})", R"("kvs":"many"})"}) {
    EXPECT_FALSE(parse_range("/p/", header + kvs)) << kvs;
  }
  EXPECT_FALSE(parse_watch("/p/", R"({"result":{"header":{},"events":[{"kv":{"key":"L3AvYQ=="}}]}})"));
  EXPECT_FALSE(parse_grant(R"({"header":{"revision":"9223372036854775807"},"ID":"77","TTL":"5"})"));
  EXPECT_FALSE(parse_watch("/p/", R"({"result":{"header":{},"events":[{"kv":{"key":"L3AvYQ==","value":"",)"
                                  R"("mod_revision":"9223372036854775807"}}]}})"));
  EXPECT_FALSE(parse_grant(R"({"header":{},"ID":"0","TTL":"5"})"));
  EXPECT_FALSE(parse_grant(R"({"header":{},"ID":"77","TTL":"9223372036854775807"})"));
  EXPECT_FALSE(parse_authenticate(R"({"token":"a\r\nEvil: header"})"));
}

}  // namespace
}  // namespace pvrdma::control::etcd
