#include "api/relay_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "api/read_fixture.h"

namespace pvrdma::api {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

// Host esx-01 reads from esx-02. Both daemons are fakes; their planes share a store.
class RelayRoutesTest : public testing::Test {
 protected:
  RelayRoutesTest() {
    set_alive(true);
    other_host_.captures.listed.emplace_back().id = 7;
    ApiParts parts = own_host_.parts(member_.plane.get());
    parts.reads = &reads_;
    router_ = std::make_unique<const Router>(make_router(parts));
    other_.serve(std::make_shared<const Router>(make_router(other_host_.parts(other_plane_.get()))));
  }

  void set_alive(bool alive) {
    control::LiveHost live;
    live.name = "esx-02";
    live.instance = "i-2";
    if (alive) {
      member_.cluster->put(control::live_host_key(live.name), control::live_host_value(live));
    } else {
      member_.cluster->erase(control::live_host_key(live.name));
    }
  }

  Reply get(const std::string& path, std::multimap<std::string, std::string> query = {}) const {
    return router_->answer(
        {.method = "GET", .path = path, .query = std::move(query), .body = {}, .names = {}});
  }

  FakeMember member_;
  FakeHost own_host_;
  FakeHost other_host_;
  const std::unique_ptr<control::Plane> other_plane_ =
      control::Plane::start("esx-02", "i-2", std::make_unique<control::FakeStore>(member_.cluster), nullptr)
          .value();
  FakeOtherHost other_;
  HostReads reads_{other_.call(), HostProof::kCertificates};
  std::unique_ptr<const Router> router_;
};

TEST_F(RelayRoutesTest, AnotherHostAnswers) {
  EXPECT_EQ(Json::parse(get("/v1/hosts/esx-02/version").text)["host"], "esx-02");
  EXPECT_EQ(Json::parse(get("/v1/hosts/esx-02/captures").text).at(0)["id"], 7);
  EXPECT_EQ(own_host_.source.snapshots_taken, 0);
  EXPECT_EQ(Json::parse(get("/v1/hosts/esx-02/adapters/VM-01").text)["name"], "VM-01");
  EXPECT_EQ(other_host_.source.snapshots_taken, 1);
  EXPECT_EQ(Json::parse(get("/v1/hosts/esx-02/qps", {{"adapter", "VM-01"}}).text).size(), 2U);
  const Reply none = get("/v1/hosts/esx-02/qps", {{"adapter", "VM-09"}});
  EXPECT_EQ(none.status, 404);
  EXPECT_THAT(none.text, HasSubstr("host esx-02: there is no adapter"));
  EXPECT_THAT(get("/metrics").text, HasSubstr("\npvrdma_host_reads_total{outcome=\"answered\"} 5\n"));
  EXPECT_EQ(other_.counters->served, 5U);
}

TEST_F(RelayRoutesTest, ItsOwnHostAnswersWithoutACall) {
  reads_.interrupt();
  for (const char* host : {"self", "esx-01"}) {
    EXPECT_EQ(Json::parse(get("/v1/hosts/" + std::string(host) + "/version").text)["host"], "esx-01");
    EXPECT_EQ(Json::parse(get("/v1/hosts/" + std::string(host) + "/adapters/VM-01").text)["name"], "VM-01");
  }
  EXPECT_THAT(get("/v1/hosts/esx-02/version").text, HasSubstr("this pvrdmad stops"));
}

TEST_F(RelayRoutesTest, AHostThatIsNotAliveIsNotCalled) {
  set_alive(false);
  const Reply reply = get("/v1/hosts/esx-02/adapters");
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.text, HasSubstr("host esx-02 is not asked, because it is not alive"));
  EXPECT_EQ(other_host_.source.snapshots_taken, 0);
}

TEST_F(RelayRoutesTest, RdmaCountersComeFromTheHostThatHasTheDevice) {
  const Reply reply = get("/v1/hosts/esx-02/rdma/vmrdma0/stats");
  EXPECT_EQ(reply.status, 404);
  EXPECT_THAT(reply.text, HasSubstr("host esx-02: host esx-02 has no RDMA device"));
}

TEST_F(RelayRoutesTest, MistakesAreRefusedHere) {
  EXPECT_EQ(get("/v1/hosts/esx-09/adapters").status, 404);
  EXPECT_EQ(get("/v1/hosts/esx-02/watch").status, 404);
  EXPECT_EQ(get("/v1/hosts/esx-02/adapters", {{"x", "y"}}).status, 400);
  EXPECT_EQ(get("/v1/hosts/esx-02/hosts/esx-03/adapters").status, 404);
  EXPECT_EQ(
      router_
          ->answer(
              {.method = "DELETE", .path = "/v1/hosts/esx-02/captures", .query = {}, .body = {}, .names = {}})
          .status,
      404);
  EXPECT_EQ(other_host_.source.snapshots_taken, 0);
}

TEST_F(RelayRoutesTest, EachAnswerIsJsonAndNoStream) {
  std::size_t relayed = 0;
  for (const Route& route : router_->routes()) {
    if (route.method != "GET" || !is_relayed(route.path)) continue;
    ++relayed;
    EXPECT_FALSE(route.streams) << route.path;
    EXPECT_NE(route.answer, nullptr) << route.path;
  }
  EXPECT_EQ(relayed, 17U);
}

TEST(RelayRoutesAloneTest, ADaemonAloneHasNone) {
  FakeHost host;
  const Router router = make_router(host.parts());
  const Reply reply = router.answer(
      {.method = "GET", .path = "/v1/hosts/self/adapters", .query = {}, .body = {}, .names = {}});
  EXPECT_EQ(reply.status, 404);
  EXPECT_THAT(reply.text, HasSubstr("not a member of a cluster"));
}

}  // namespace
}  // namespace pvrdma::api
