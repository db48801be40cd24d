#include "api/api_server.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <string>
#include <thread>
#include <vector>

#include "api/api_fixture.h"
#include "api/router.h"
#include "schema/object.h"

namespace pvrdma::api {
namespace {

class ApiServerTest : public testing::Test {
 protected:
  void SetUp() override {
    server_ = ApiServer::listen(path_, host_.parts()).value();
    server_->start();
  }

  httplib::Client client() { return unix_client(path_); }
  httplib::Result get(const std::string& path) { return client().Get(path); }

  const std::string path_ = test_path(".sock");
  FakeHost host_;
  std::unique_ptr<ApiServer> server_;
};

// Requests that a web page can make a browser send to a forwarded port of the socket.
TEST_F(ApiServerTest, AWebPageCanNeitherReadNorChange) {
  const auto status = [&](const std::string& request) { return answer_to(path_, request).substr(9, 3); };
  const auto get = [&](const std::string& headers) {
    return status("GET /v1/version HTTP/1.1\r\n" + headers + "Connection: close\r\n\r\n");
  };
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]", "[::1]:8080"})
    EXPECT_EQ(get(std::string("Host: ") + host + "\r\n"), "200") << host;
  for (const char* host :
       {"evil.example", "evil.example:80", "localhost.evil.example", "", "[", "127.0.0.1.evil"})
    EXPECT_EQ(get(std::string("Host: ") + host + "\r\n"), "403") << host;
  EXPECT_EQ(get(""), "403");
  EXPECT_EQ(get("Host: localhost\r\nHost: evil.example\r\n"), "403");
  for (const char* origin :
       {"http://evil.example", "null", "http://localhost:81", "http://localhost.evil.example"})
    EXPECT_EQ(get(std::string("Host: localhost:80\r\nOrigin: ") + origin + "\r\n"), "403") << origin;
  EXPECT_EQ(get("Host: localhost:80\r\nOrigin: http://localhost:80\r\n"), "200");

  const auto put = [&](const std::string& headers) {
    const std::string body = "{\"up\": false}";
    return status("PUT /v1/adapters/VM-01/link HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" +
                  headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  for (const char* type :
       {"", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=x\r\n", "Content-Type: application/jsonp\r\n",
        "Content-Type: text/plain\r\nContent-Type: application/json\r\n",
        "(Content-Type): application/json\r\n"})
    EXPECT_EQ(put(type), "415") << type;
  EXPECT_EQ(put("Content-Type: application/json\r\nOrigin: http://evil.example\r\n"), "403");
  EXPECT_EQ(host_.links.link, adapters::Link::kUp) << "nothing was changed";
  EXPECT_EQ(put("Content-Type: Application/JSON; charset=utf-8\r\n"), "200");
  EXPECT_EQ(host_.links.link, adapters::Link::kDown);
}

TEST_F(ApiServerTest, RefusesHeadOfAStream) {
  const auto refused = unix_client(path_).Head("/v1/adapters/VM-01/capture");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 405);
  EXPECT_EQ(refused->get_header_value("Allow"), "POST");
  const auto head = unix_client(path_).Head("/v1/version");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->body, "");
}

TEST_F(ApiServerTest, RefusesUnknownParameters) {
  EXPECT_EQ(get("/v1/qps?adapter=VM-01")->status, 200);
  for (const char* path :
       {"/v1/qps?vm=VM-01", "/v1/qps?adapter=VM-01&x", "/v1/version?%41", "/metrics?x=1"}) {
    EXPECT_EQ(get(path)->status, 400) << path;
  }
}

TEST_F(ApiServerTest, AnswersEachResource) {
  for (const char* path : {"/v1/version", "/v1/adapters", "/v1/adapters/VM-01", "/v1/qps",
                           "/v1/qps?adapter=VM-01", "/v1/stats", "/v1/stats?adapter=VM-01"}) {
    const auto answer = get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 200) << path;
    EXPECT_EQ(answer->get_header_value("Content-Type"), "application/json") << path;
  }
  EXPECT_THAT(get("/v1/version")->body,
              testing::StartsWith("{\"version\":\"1.2.3\",\"api\":\"v1\",\"host\":null,"
                                  "\"role\":\"administrator\",\"features\":["));
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
    EXPECT_EQ(answer->body, R"({"error":"there is no adapter \"VM-09\": pvrdmactl adapter list shows them"})"
                            "\n")
        << path;
  }
}

TEST_F(ApiServerTest, TakesALinkDownAndUp) {
  const auto down = client().Put("/v1/adapters/VM-01/link", "{\"up\": false}", "application/json");
  ASSERT_TRUE(down);
  EXPECT_EQ(down->status, 200);
  EXPECT_EQ(host_.links.link, adapters::Link::kDown);
  EXPECT_NE(down->body.find("VM-01"), std::string::npos);
  ASSERT_TRUE(client().Put("/v1/adapters/VM-01/link", "{\"up\": true}", "application/json"));
  EXPECT_EQ(host_.links.link, adapters::Link::kUp);
}

TEST_F(ApiServerTest, MovesAnAdapterToAnotherShard) {
  const auto move = [this](const std::string& adapter, const std::string& body) {
    return client().Put("/v1/adapters/" + adapter + "/shard", body, "application/json");
  };
  const auto moved = move("VM-01", R"({"shard": 1})");
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->status, 200);
  EXPECT_EQ(moved->body, "{\"from\":0,\"to\":1,\"pause_us\":1234}\n");
  const auto refused = move("VM-01", R"({"shard": 7})");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 409);
  EXPECT_EQ(refused->body, "{\"error\":\"adapter VM-01 stays on its shard\"}\n");
  for (const char* body : {"", "{}", R"({"shard": -1})", R"({"shard": "1"})", R"({"shard": 1, "x": 1})"})
    EXPECT_EQ(move("VM-01", body)->status, 400) << body;
  EXPECT_EQ(move("VM-09", R"({"shard": 1})")->status, 404);
}

TEST_F(ApiServerTest, RefusesALinkThatIsNoLink) {
  for (const char* body : {"", "up", "{}", "{\"up\": 1}", "{\"up\": false, \"x\": 1}", "[false]"}) {
    const auto answer = client().Put("/v1/adapters/VM-01/link", body, "application/json");
    ASSERT_TRUE(answer) << body;
    EXPECT_EQ(answer->status, 400) << body;
    EXPECT_EQ(answer->body, "{\"error\":\"the body must be {\\\"up\\\": true} or {\\\"up\\\": false}\"}\n")
        << body;
  }
  EXPECT_EQ(host_.links.link, adapters::Link::kUp);
  const auto unknown = client().Put("/v1/adapters/VM-09/link", "{\"up\": false}", "application/json");
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->status, 404);
}

TEST_F(ApiServerTest, RefusesWhatItDoesNotKnow) {
  const auto unknown = get("/v2/adapters");
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->status, 404);
  EXPECT_EQ(unknown->body, "{\"error\":\"this API has no GET /v2/adapters: see pvrdmad(8)\"}\n");
  const auto post = client().Post("/v1/adapters", "{}", "application/json");
  ASSERT_TRUE(post);
  EXPECT_EQ(post->status, 404);
}

TEST_F(ApiServerTest, RefusesWhatIsTooLong) {
  const auto path = get("/v1/" + std::string(2000, 'a'));
  ASSERT_TRUE(path);
  EXPECT_EQ(path->status, 414);
  EXPECT_EQ(path->body, "{\"error\":\"the path is too long\"}\n");

  const std::string body(70'000, ' ');
  const auto announced = client().Put("/v1/adapters/VM-01/link", body, "application/json");
  ASSERT_TRUE(announced);
  EXPECT_EQ(announced->status, 413);
  const auto chunked = client().Put(
      "/v1/adapters/VM-01/link",
      // More than the socket's buffers hold: an answer that is sent before the whole body was read would be
      // lost.
      [&](std::size_t, httplib::DataSink& sink) {
        for (int i = 0; i < 10; ++i) sink.write(body.data(), body.size());
        sink.done();
        return true;
      },
      "application/json");
  ASSERT_TRUE(chunked);
  EXPECT_EQ(chunked->status, 413);
  EXPECT_EQ(chunked->body, "{\"error\":\"the body has more than 65536 bytes\"}\n");
}

TEST_F(ApiServerTest, AnswersWholeHoweverManyRangesAreAskedFor) {
  std::string ranges = "bytes=0-";
  for (int i = 0; i < 1000; ++i) ranges += ",0-";
  for (const std::string& path : {std::string("/v1/version"), "/v1/" + std::string(2000, 'a')}) {
    const auto answer = client().Get(path, {{"Range", ranges}});
    ASSERT_TRUE(answer);
    EXPECT_NE(answer->status, 206);
    EXPECT_LT(answer->body.size(), 200U);
  }
}

TEST_F(ApiServerTest, RefusesAPackedBodyLikeAnyThatIsNoJson) {
  for (const char* encoding : {"gzip", "br"}) {
    const auto answer = client().Put("/v1/adapters/VM-01/link", {{"Content-Encoding", encoding}}, "--x--\r\n",
                                     "application/json");
    ASSERT_TRUE(answer) << to_string(answer.error());
    EXPECT_EQ(answer->status, 400);
    EXPECT_EQ(answer->body, "{\"error\":\"the body must be {\\\"up\\\": true} or {\\\"up\\\": false}\"}\n");
  }
}

TEST_F(ApiServerTest, RefusesNobodyWhoIsStillWriting) {
  struct Case {
    std::string path;
    std::string type;
    std::size_t bytes;
    int status;
  };
  const std::string link = "/v1/adapters/VM-01/link";
  for (const Case& each :
       {Case{"/v1/" + std::string(2000, 'a'), "", 100, 414}, Case{"/v2/x", "application/json", 100, 404},
        Case{link, "multipart/form-data; boundary=x", 100, 415}, Case{link, "multipart/form-data", 100, 415},
        Case{link, "", 70'000, 413}}) {
    const std::string body(each.bytes, 'x');
    const auto answer = client().Put(each.path, body.size(), slowly(body), each.type);
    ASSERT_TRUE(answer) << each.status << ": " << to_string(answer.error());
    EXPECT_EQ(answer->status, each.status);
  }
}

TEST_F(ApiServerTest, AnswersOneRequestAConnection) {
  // A GET has no use for a body; its bytes must not be taken for requests.
  std::string body;
  for (int i = 0; i < 1000; ++i) body += "GET /v1/adapters HTTP/1.1\r\n\r\n";
  const std::string answers = answer_to(
      path_, "GET /v1/version HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
                 "\r\n\r\n" + body);
  EXPECT_THAT(answers, testing::HasSubstr("\"api\":\"v1\""));
  EXPECT_EQ(answers.find("HTTP/1.1 "), answers.rfind("HTTP/1.1 ")) << answers;
}

TEST_F(ApiServerTest, TellsThePathsOfConnectedQps) {
  const auto answer = get("/v1/paths");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(
      answer->body,
      "[{\"adapter\":\"VM-01\",\"qpn\":10,\"local_gid\":\"\",\"remote_gid\":\"fe80::2\",\"remote_qpn\":0,"
      "\"peer_host\":\"\",\"path\":\"local\",\"reason\":\"both are on host esx-01\"}]\n");
}

TEST_F(ApiServerTest, KnowsNoClusterWithoutAHost) {
  for (const char* path : {"/v1/cluster", "/v1/hosts", "/v1/hosts/self", "/v1/dvs", "/v1/vms/VM-01"}) {
    const auto answer = get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 404) << path;
    EXPECT_EQ(
        answer->body,
        "{\"error\":\"this daemon is not a member of a cluster: give its configuration a [host] table\"}\n");
  }
  EXPECT_THAT(get("/metrics")->body, testing::Not(testing::HasSubstr("pvrdma_store")));
}

TEST_F(ApiServerTest, AddsListsAndRemovesFaults) {
  const auto post = [this](const std::string& body) {
    return client().Post("/v1/faults", body, "application/json");
  };
  const std::string fault =
      R"({"id":1,"adapter":"VM-01","drop":0.01,"duplicate":0.0,"delay":0.5,"reorder":0.0,"corrupt":0.000001,)"
      R"("late_ms":20,"seed":7,"counts":{"messages":1000,"dropped":10,"duplicated":0,"delayed":0,"reordered":0,)"
      R"("corrupted":0}})";
  const auto added = post(
      R"({"adapter": "VM-01", "drop": 0.01, "delay": 0.5, "corrupt": 0.000001, "late_ms": 20, "seed": 7})");
  ASSERT_TRUE(added);
  EXPECT_EQ(Json::parse(added->body), Json::parse(fault)) << added->body;
  EXPECT_EQ(host_.faults.faults.at(0).corrupt_ppm, 1U);
  EXPECT_EQ(Json::parse(get("/v1/faults?adapter=VM-01")->body), Json::parse("[" + fault + "]"));
  EXPECT_EQ(get("/v1/faults?adapter=VM-02")->body, "[]\n");
  EXPECT_EQ(post(R"({"adapter": "VM-01", "drop": 1})")->status, 409);
  EXPECT_EQ(client().Delete("/v1/faults/2")->status, 404);
  EXPECT_EQ(client().Delete("/v1/faults/one")->status, 404);
  EXPECT_EQ(client().Delete("/v1/faults/1")->body, "{}\n");
  EXPECT_EQ(get("/v1/faults")->body, "[]\n");
  EXPECT_EQ(post(R"({"adapter": "VM-01", "drop": 1})")->status, 200);
  EXPECT_EQ(client().Delete("/v1/faults/all")->body, "{}\n");
  EXPECT_TRUE(host_.faults.faults.empty());

  EXPECT_EQ(post(R"({"adapter": "VM-09", "drop": 1})")->status, 404);
  for (const char* body :
       {R"({"adapter": "VM-01", "drop": 2})", R"({"adapter": "VM-01", "drop": -0.1})",
        R"({"adapter": "VM-01", "drop": NaN})", R"({"adapter": "VM-01", "drop": 1e999})",
        R"({"adapter": "VM-01", "drop": 1e-7})", R"({"adapter": "VM-01", "drop": "0.1"})",
        R"({"adapter": "VM-01", "drop": null})", R"({"adapter": "VM-01", "drop": 0.1, "late_ms": 0})",
        R"({"adapter": "VM-01", "drop": 0.1, "late_ms": 1001})", R"({"adapter": "VM-01", "lose": 0.1})",
        R"({"adapter": "VM-01", "drop": 0.1, "seed": -1})", R"({"drop": 0.1})", R"({"adapter": "VM-01"})",
        R"({"adapter": "VM-01", "drop": 0})"}) {
    EXPECT_EQ(post(body)->status, 400) << body;
  }
  EXPECT_TRUE(host_.faults.faults.empty());
}

TEST_F(ApiServerTest, ListsCapturesAndEndsThem) {
  adapters::CaptureState running{
      {.adapter = "VM-01", .filter = "op write", .snap_bytes = 96}, 7, 1000, 42, 5};
  host_.captures.listed = {running};
  EXPECT_EQ(
      get("/v1/captures")->body,
      "[{\"id\":7,\"adapter\":\"VM-01\",\"filter\":\"op write\",\"snaplen\":96,\"count\":0,\"duration\":0,"
      "\"started_s\":1000,\"sent_bytes\":42,\"dropped\":5}]\n");
  EXPECT_EQ(client().Delete("/v1/captures/8")->status, 404);
  EXPECT_EQ(client().Delete("/v1/captures/all")->status, 404);
  EXPECT_EQ(client().Delete("/v1/captures/7")->body, "{}\n");
  EXPECT_EQ(get("/v1/captures")->body, "[]\n");
}

TEST_F(ApiServerTest, TellsTheBudgetsOfEachAdapterAndOfTheHost) {
  EXPECT_EQ(
      get("/v1/budgets")->body,
      "{\"adapters\":[{\"name\":\"VM-01\",\"budgets\":{\"qps\":{\"use\":3,\"limit\":64,\"refused\":1}}}],"
      "\"totals\":{\"qps\":{\"use\":3,\"limit\":4096,\"refused\":0}}}\n");
}

TEST_F(ApiServerTest, TellsOfEachShardAndWhyThereIsOne) {
  EXPECT_EQ(get("/v1/shards")->body,
            "{\"shards\":[{\"number\":0,\"cpu\":5,\"cpu_us\":70,\"busy_percent\":12,\"is_ward\":false,"
            "\"trouble\":\"\","
            "\"adapters\":[\"VM-01\"],\"counters\":{\"shard\":{\"turns\":9}}}],\"why_one\":\"[daemon] shards "
            "is 1\"}\n");
  host_.source.stopping = true;
  EXPECT_EQ(get("/v1/shards")->status, 503);
}

TEST_F(ApiServerTest, SendsACaptureUntilItsEnd) {
  const auto post = [this](const std::string& adapter, const std::string& body) {
    return client().Post("/v1/adapters/" + adapter + "/capture", body, "application/json");
  };
  auto answer = post("VM-01", R"({"count": 3, "filter": "in", "snaplen": 96, "duration": 5})");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "xxx");
  EXPECT_EQ(answer->get_header_value("Content-Type"), "application/x-pcapng");
  answer = post("VM-01", "{}");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body.size(), 64 * 64 * 1024);
  EXPECT_EQ(post("VM-02", "{}")->status, 404);
  EXPECT_EQ(post("VM-01", R"({"filter": "bad"})")->body, "{\"error\":\"the filter, character 1\"}\n");
  for (const char* body : {R"({"filter": "bad"})", R"({"snaplen": 0})", R"({"snaplen": 262145})",
                           R"({"count": -1})", R"({"seconds": 1})", "[]"}) {
    EXPECT_EQ(post("VM-01", body)->status, 400) << body;
  }
  EXPECT_EQ(get("/v1/adapters/VM-01/capture")->status, 404);
  EXPECT_EQ(*host_.captures.running, 0);
}

TEST_F(ApiServerTest, TakesStateOfAnySizeThereIs) {
  const std::string path = "/v1/adapters/VM-01/restore";
  const std::string wish = R"({"file": "/VM-01.checkpoint"})";
  const std::string state(8u << 20, '\x7f');
  constexpr const char* kBytes = "application/octet-stream";
  const auto restored = client().Post(path, wish + "\n" + state, kBytes);
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->status, 200) << restored->body;
  EXPECT_TRUE(host_.checkpoints.restored == state);
  EXPECT_EQ(Json::parse(restored->body)["qemu"]["pid"], 18);

  const std::string refused(100'000, 'x');
  EXPECT_EQ(client().Post(path, wish + "\n" + refused, "application/json")->status, 415);
  EXPECT_EQ(client().Post(path, wish, kBytes)->status, 400) << "no state";
  EXPECT_EQ(client().Post(path, wish + "\n", kBytes)->status, 400) << "an empty one";
  EXPECT_EQ(client().Post(path, "{}\nx", kBytes)->status, 400) << "no file";
  EXPECT_EQ(client().Post("/v1/adapters/VM-02/restore", wish + "\nx", kBytes)->status, 404);
  EXPECT_EQ(client().Put("/v1/adapters/VM-01/link", refused, kBytes)->status, 413)
      << "no other request takes it";
}

TEST_F(ApiServerTest, RefusesStateThatIsLongerThanThereIs) {
  const Fd socket = connected_to(path_);
  const std::string head =
      "POST /v1/adapters/VM-01/restore HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/octet-stream\r\nContent-Length: " +
      std::to_string(kBinaryBodyBytesMax + 1) + "\r\n\r\n";
  ASSERT_EQ(::send(socket.get(), head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
  char answer[64] = {};
  ASSERT_GT(::recv(socket.get(), answer, sizeof answer - 1, 0), 0);
  EXPECT_TRUE(std::string_view(answer).starts_with("HTTP/1.1 413")) << answer;
}

TEST_F(ApiServerTest, SendsACheckpointAndHearsThatItWasKept) {
  EXPECT_EQ(client().Post("/v1/adapters/VM-01/checkpoint", R"({"file": "/a"})", "application/json")->status,
            200);
  EXPECT_EQ(client().Post("/v1/adapters/VM-01/checkpoint", "{}", "application/json")->status, 400);
  EXPECT_EQ(client().Post("/v1/adapters/VM-02/checkpoint", R"({"file": "/a"})", "application/json")->status,
            404);
  EXPECT_EQ(client().Post("/v1/adapters/VM-01/checkpoint/finish", "{}", "application/json")->status, 200);
  EXPECT_EQ(client().Post("/v1/adapters/VM-02/checkpoint/finish", "{}", "application/json")->status, 404);
}

TEST_F(ApiServerTest, EndsACaptureWhoseClientDoesNotRead) {
  const std::string request =
      "POST /v1/adapters/VM-01/capture HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 2\r\n\r\n{}";
  const Fd silent = connected_to(path_);
  ASSERT_EQ(::send(silent.get(), request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::array<char, 12> head;
  ASSERT_EQ(::recv(silent.get(), head.data(), head.size(), MSG_WAITALL), static_cast<ssize_t>(head.size()));
  EXPECT_EQ(std::string(head.data(), head.size()), "HTTP/1.1 200");
  const auto guard = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (*host_.captures.running != 0 && std::chrono::steady_clock::now() < guard) {
    EXPECT_EQ(get("/v1/version")->status, 200);
  }
  EXPECT_EQ(*host_.captures.running, 0);
}

TEST_F(ApiServerTest, SaysWhyWhenTheShardDoesNotAnswer) {
  host_.source.stopping = true;
  const auto answer = get("/v1/adapters");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 503);
  EXPECT_EQ(answer->body, "{\"error\":\"the shard takes no questions now\"}\n");
}

TEST_F(ApiServerTest, AnswersManyClientsAtOnce) {
  // The library initialises a static variable at the first request, and ThreadSanitizer does not see the
  // guard of that variable.
  ASSERT_TRUE(get("/v1/version"));
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
  std::thread silent([this] { EXPECT_EQ(answer_to(path_, "GET"), ""); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  server_.reset();
  silent.join();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ApiServerTest, RefusesAPathInUse) {
  const auto second = ApiServer::listen(path_, host_.parts());
  ASSERT_FALSE(second);
  EXPECT_EQ(
      second.error().message,
      "API socket " + path_ + ": another running server uses it: stop that server or choose another path");
  EXPECT_TRUE(get("/v1/version")) << "the first one goes on";
}

TEST_F(ApiServerTest, RefusesAPathWithoutADirectory) {
  const auto nowhere = ApiServer::listen("/nowhere/api.sock", host_.parts());
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().message,
            "API socket /nowhere/api.sock: there is no directory /nowhere: create it or choose another path");
}

TEST_F(ApiServerTest, LeavesNothingBehindWhenItNeverStarted) {
  const std::string other = path_ + "2";
  { const auto server = ApiServer::listen(other, host_.parts()).value(); }
  EXPECT_FALSE(std::filesystem::exists(other));
}

}  // namespace
}  // namespace pvrdma::api
