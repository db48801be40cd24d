#include "control/api_server.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace pvrdma::control {
namespace {

struct FakeSource final : SnapshotSource {
  Result<Snapshot> take_snapshot(SnapshotDetail detail) override {
    if (stopping) return fail("the shard takes no questions now");
    Snapshot snapshot;
    AdapterSnapshot adapter;
    adapter.name = "VM-01";
    adapter.groups = {{"verbs", {{"tx_bytes", 5}}}};
    snapshot.adapters.push_back(adapter);
    if (detail == SnapshotDetail::kAdaptersAndQps) {
      QpSnapshot qp;
      qp.adapter = "VM-01";
      qp.qpn = 9;
      snapshot.qps.push_back(qp);
    }
    return snapshot;
  }
  bool stopping = false;
};

struct FakeControl final : AdapterControl {
  Result<void> set_link(const std::string& adapter, Link wanted) override {
    if (adapter != "VM-01")
      return fail(ENOENT, "there is no adapter " + adapter + ": see the list of adapters");
    link = wanted;
    return {};
  }
  Link link = Link::kUp;
};

class ApiServerTest : public testing::Test {
 protected:
  void SetUp() override {
    server_ = ApiServer::listen(path_, "1.2.3", source_, control_).value();
    server_->start();
  }

  httplib::Client client() {
    httplib::Client made(path_);
    made.set_address_family(AF_UNIX);
    return made;
  }
  httplib::Result get(const std::string& path) { return client().Get(path); }

  const std::string path_ = testing::TempDir() +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
                            std::to_string(::getpid()) + ".sock";
  FakeSource source_;
  FakeControl control_;
  std::unique_ptr<ApiServer> server_;
};

TEST_F(ApiServerTest, AnswersEachResource) {
  for (const char* path : {"/v1/version", "/v1/adapters", "/v1/adapters/VM-01", "/v1/qps",
                           "/v1/qps?adapter=VM-01", "/v1/stats", "/v1/stats?adapter=VM-01"}) {
    const auto answer = get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 200) << path;
    EXPECT_EQ(answer->get_header_value("Content-Type"), "application/json") << path;
  }
  EXPECT_EQ(get("/v1/version")->body, "{\"version\":\"1.2.3\",\"api\":\"v1\"}\n");
  EXPECT_NE(get("/v1/qps")->body.find("\"qpn\":9"), std::string::npos);
}

TEST_F(ApiServerTest, GivesMetricsAsPrometheusText) {
  const auto answer = get("/metrics");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->get_header_value("Content-Type"), "text/plain; version=0.0.4");
  EXPECT_NE(answer->body.find("pvrdma_verbs_tx_bytes_total{adapter=\"VM-01\"} 5\n"), std::string::npos);
}

TEST_F(ApiServerTest, RefusesAnAdapterThereIsNot) {
  for (const char* path : {"/v1/adapters/VM-09", "/v1/qps?adapter=VM-09", "/v1/stats?adapter=VM-09"}) {
    const auto answer = get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 404) << path;
    EXPECT_EQ(answer->body, "{\"error\":\"there is no adapter VM-09: see the list of adapters\"}\n") << path;
  }
}

TEST_F(ApiServerTest, TakesALinkDownAndUp) {
  const auto down = client().Put("/v1/adapters/VM-01/link", "{\"up\": false}", "application/json");
  ASSERT_TRUE(down);
  EXPECT_EQ(down->status, 200);
  EXPECT_EQ(control_.link, Link::kDown);
  EXPECT_NE(down->body.find("VM-01"), std::string::npos);
  ASSERT_TRUE(client().Put("/v1/adapters/VM-01/link", "{\"up\": true}", "application/json"));
  EXPECT_EQ(control_.link, Link::kUp);
}

TEST_F(ApiServerTest, RefusesALinkThatIsNoLink) {
  for (const char* body : {"", "up", "{}", "{\"up\": 1}", "{\"up\": false, \"x\": 1}", "[false]"}) {
    const auto answer = client().Put("/v1/adapters/VM-01/link", body, "application/json");
    ASSERT_TRUE(answer) << body;
    EXPECT_EQ(answer->status, 400) << body;
    EXPECT_EQ(answer->body, "{\"error\":\"the body must be {\\\"up\\\": true} or {\\\"up\\\": false}\"}\n")
        << body;
  }
  EXPECT_EQ(control_.link, Link::kUp);
  const auto unknown = client().Put("/v1/adapters/VM-09/link", "{\"up\": false}", "application/json");
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->status, 404);
}

TEST_F(ApiServerTest, RefusesWhatItDoesNotKnow) {
  const auto unknown = get("/v2/adapters");
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(unknown->body, "{\"error\":\"GET /v2/adapters is nothing this API knows: see pvrdmad(8)\"}\n");
  const auto post = client().Post("/v1/adapters", "{}", "application/json");
  ASSERT_TRUE(post);
  EXPECT_EQ(post->status, 404);
}

TEST_F(ApiServerTest, SaysWhyWhenTheShardDoesNotAnswer) {
  source_.stopping = true;
  const auto answer = get("/v1/adapters");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 503);
  EXPECT_EQ(answer->body, "{\"error\":\"the shard takes no questions now\"}\n");
}

TEST_F(ApiServerTest, AnswersManyClientsAtOnce) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([this] {
      for (int request = 0; request < 20; ++request) {
        const auto answer = get("/v1/stats");
        ASSERT_TRUE(answer);
        EXPECT_EQ(answer->status, 200);
      }
    });
  }
  for (auto& each : clients) each.join();
}

TEST_F(ApiServerTest, EndsWithAClientConnectedAndRemovesItsSocket) {
  httplib::Client kept(path_);
  kept.set_address_family(AF_UNIX);
  kept.set_keep_alive(true);
  ASSERT_TRUE(kept.Get("/v1/version"));
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ApiServerTest, RefusesAPathInUse) {
  const auto second = ApiServer::listen(path_, "1.2.3", source_, control_);
  ASSERT_FALSE(second);
  EXPECT_EQ(
      second.error().message,
      "API socket " + path_ + ": another running daemon uses it: stop that daemon or choose another path");
  EXPECT_TRUE(get("/v1/version")) << "the first one goes on";
}

TEST_F(ApiServerTest, RefusesAPathWithoutADirectory) {
  const auto nowhere = ApiServer::listen("/nowhere/api.sock", "1.2.3", source_, control_);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().message,
            "API socket /nowhere/api.sock: cannot be bound (No such file or directory): create its "
            "directory, change "
            "the directory's owner or choose another path");
}

TEST_F(ApiServerTest, LeavesNothingBehindWhenItNeverStarted) {
  const std::string other = path_ + "2";
  { const auto server = ApiServer::listen(other, "1.2.3", source_, control_).value(); }
  EXPECT_FALSE(std::filesystem::exists(other));
}

}  // namespace
}  // namespace pvrdma::control
