// The etcd store in trouble: cut off, compacted unexpectedly, killed, stalled, unauthenticated, or with false
// answers.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <thread>

#include "control/store/etcd_testbed.h"
#include "control/store/store.h"
#include "control/store/store_testing.h"
#include "support/must.h"
#include "support/open_fds.h"

namespace pvrdma::control::test {
namespace {

using pvrdma::test::code_of;
using pvrdma::test::kind_of;
using pvrdma::test::must;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// A store and its observer. The recorder outlives the store.
struct Member {
  Recorder recorder;
  std::unique_ptr<Store> store;

  explicit Member(const EtcdConfig& config) : store(make_etcd_store(config)) { must(store->start(recorder)); }
  bool wait_has(const std::string& key, const std::string& value) {
    return recorder.wait([&](const auto& told) {
      const auto at = told.mirror.find(key);
      return at != told.mirror.end() && at->second == value;
    });
  }
  bool wait_gone(const std::string& key) {
    return recorder.wait([&](const auto& told) { return !told.has(key); });
  }
  bool wait_trouble(const std::string& part) {
    return recorder.wait([&](const auto& told) {
      return std::ranges::any_of(told.connections, [&](const auto& one) {
        return !one.first && one.second.find(part) != std::string::npos;
      });
    });
  }
  std::string trouble() { return recorder.told().connections.back().second; }
  Commit commit(Transaction transaction) { return must(store->commit(transaction)); }
};

EtcdConfig config_of(std::vector<std::string> endpoints, std::uint32_t lease_seconds = 10) {
  EtcdConfig config;
  config.endpoints = std::move(endpoints);
  config.lease_seconds = lease_seconds;
  return config;
}

const Transaction kPutA{{}, {put("a", "1")}};

TEST(EtcdStore, TellsHowItFaresAndForgetsOldRevisions) {
  EtcdServer etcd;
  Member one(config_of({etcd.url()}));
  EXPECT_FALSE(one.store->forgets_by_itself());
  for (int i = 0; i < 20; ++i) one.commit({{}, {put("a", std::to_string(i))}});
  const StoreHealth health = must(one.store->health()).value();
  EXPECT_EQ(health.revision, static_cast<std::uint64_t>(etcd.revision()));
  EXPECT_GT(health.size_bytes, 0U);
  EXPECT_GT(health.used_bytes, 0U);
  EXPECT_EQ(health.alarms, "");
  must(one.store->forget_before(health.revision - 1));
  must(one.store->forget_before(health.revision - 1));
  EXPECT_ANY_THROW(etcd.ctl({"get", "/pvrdma/v1/a", "--rev", std::to_string(health.revision - 5)}));
  EXPECT_NO_THROW(etcd.ctl({"get", "/pvrdma/v1/a", "--rev", std::to_string(health.revision - 1)}));
  EXPECT_TRUE(one.wait_has("a", "19"));
  one.commit({{}, {put("a", "more")}});
  EXPECT_TRUE(one.wait_has("a", "more"));
}

TEST(EtcdStore, SaysThatItsQuotaIsUsedUp) {
  EtcdServer etcd;
  etcd.kill();
  etcd.set_quota(16 * 1024 * 1024);
  etcd.restart();
  Member one(config_of({etcd.url()}));
  const std::string large(1024 * 1024, 'x');
  for (int i = 0; i < 20; ++i) static_cast<void>(one.store->commit({{}, {put("a", large)}}));
  EXPECT_THAT(must(one.store->health()).value().alarms, HasSubstr("NOSPACE"));
}

TEST(EtcdStore, TwoStoresSeeEachOther) {
  EtcdServer etcd;
  etcd.ctl({"put", "/other/a", "not ours"});
  Member one(config_of({etcd.url()}));
  EXPECT_EQ(one.store->description(), "etcd:" + etcd.url());
  EXPECT_EQ(one.store->lease(), std::chrono::seconds(10));
  ASSERT_TRUE(one.recorder.wait_connected());
  EXPECT_EQ(one.commit({{}, {put("config", "1"), put_leased("live/one", "x")}}), Commit::kCommitted);
  {
    Member two(config_of({etcd.url()}));
    ASSERT_TRUE(two.recorder.wait_connected());
    EXPECT_THAT(two.recorder.told().mirror,
                ElementsAre(std::pair("config", "1"), std::pair("live/one", "x")));
    EXPECT_EQ(two.commit({{{"config", "1"}},
                          {put("config", "2"), put_leased("live/two", "y"), put_leased("live/2", "z")}}),
              Commit::kCommitted);
    EXPECT_EQ(one.commit({{{"config", "1"}}, {put("config", "3")}}), Commit::kConflict);
    ASSERT_TRUE(one.wait_has("live/two", "y"));
    EXPECT_EQ(one.recorder.told().mirror["config"], "2");
  }
  // When it stops, its leased records vanish together, and the others stay.
  ASSERT_TRUE(one.wait_gone("live/two"));
  EXPECT_EQ(one.recorder.told().changes.back().size(), 2U);
  EXPECT_THAT(one.recorder.told().mirror, ElementsAre(std::pair("config", "2"), std::pair("live/one", "x")));
  EXPECT_THAT(etcd.ctl({"get", "--prefix", "/"}),
              AllOf(HasSubstr("/pvrdma/v1/config\n2\n"), HasSubstr("not ours")));
}

// Each change uses a fresh connection, and the one before must be closed.
TEST(EtcdStore, HoldsNoMoreConnectionsHoweverManyChangesItMakes) {
  EtcdServer etcd;
  Member one(config_of({etcd.url()}));
  ASSERT_TRUE(one.recorder.wait_connected());
  EXPECT_EQ(one.commit(kPutA), Commit::kCommitted);
  const std::size_t before = pvrdma::test::count_open_fds();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(one.commit(kPutA), Commit::kCommitted);
  EXPECT_LE(pvrdma::test::count_open_fds(), before + 1);  // its lease may be renewed just then
}

TEST(EtcdStore, GoesOnWhereItWasAfterACutAndReadsAllAfterACompaction) {
  EtcdServer etcd;
  Relay relay(etcd.port());
  Member cut(config_of({relay.url()}, 60));
  Member other(config_of({etcd.url()}));
  ASSERT_TRUE(cut.recorder.wait_connected());
  ASSERT_TRUE(other.recorder.wait_connected());
  cut.commit({{}, {put("gone", "1"), put("b", "1")}});
  ASSERT_TRUE(cut.wait_has("b", "1"));

  relay.set(Relay::Mode::kCut);
  ASSERT_TRUE(cut.recorder.wait_away());
  EXPECT_THAT(cut.trouble(), StartsWith("etcd " + relay.url() + ": "));
  other.commit(kPutA);
  other.commit({{}, {put("a", "2"), put("c", "3")}});
  EXPECT_EQ(kind_of(cut.store->commit(kPutA)), ErrorKind::kUnavailable);
  relay.set(Relay::Mode::kForward);
  ASSERT_TRUE(cut.wait_has("c", "3"));
  EXPECT_EQ(cut.recorder.told().alls.size(), 1U);
  EXPECT_EQ(cut.recorder.told().changes.size(), 3U);  // each transaction once
  ASSERT_TRUE(cut.recorder.wait_connected());

  relay.set(Relay::Mode::kCut);
  ASSERT_TRUE(cut.recorder.wait_away());
  other.commit({{}, {erase("gone"), put("b", "2")}});
  other.commit({{}, {put("d", "4")}});
  etcd.ctl({"compaction", std::to_string(etcd.revision())});
  relay.set(Relay::Mode::kForward);
  ASSERT_TRUE(cut.wait_has("d", "4"));
  ASSERT_TRUE(other.wait_has("d", "4"));
  EXPECT_EQ(cut.recorder.told().alls.size(), 2U);
  EXPECT_EQ(cut.recorder.told().mirror, other.recorder.told().mirror);
  ASSERT_TRUE(cut.recorder.wait_connected());
  other.commit({{}, {put("e", "5")}});
  EXPECT_TRUE(cut.wait_has("e", "5"));
}

TEST(EtcdStore, SaysWhenItCannotKnowWhetherAChangeWasMade) {
  EtcdServer etcd;
  Relay relay(etcd.port());
  Member member(config_of({relay.url()}, 60));
  ASSERT_TRUE(member.recorder.wait_connected());
  relay.set(Relay::Mode::kSwallow);
  const auto unknown = member.store->commit(kPutA);
  ASSERT_EQ(kind_of(unknown), ErrorKind::kUnavailable);
  EXPECT_EQ(unknown.error().message,
            "etcd " + relay.url() + ": it did not answer in time; the change may or may not have been made");
  relay.set(Relay::Mode::kCut);
  relay.set(Relay::Mode::kForward);
  EXPECT_TRUE(member.wait_has("a", "1"));  // the change was made
}

TEST(EtcdStore, CatchesUpWithAnEtcdThatWasKilled) {
  EtcdServer etcd;
  Member member(config_of({etcd.url()}, 60));
  ASSERT_TRUE(member.recorder.wait_connected());
  member.commit({{}, {put("a", "1"), put_leased("live", "1")}});
  ASSERT_TRUE(member.wait_has("live", "1"));
  etcd.kill();
  ASSERT_TRUE(member.recorder.wait_away());
  const auto refused = member.store->commit(kPutA);
  ASSERT_EQ(kind_of(refused), ErrorKind::kUnavailable);
  EXPECT_THAT(refused.error().message, AllOf(StartsWith("etcd " + etcd.url() + ": "), HasSubstr("onnect"),
                                             testing::EndsWith("; nothing was changed")));
  EXPECT_EQ(kind_of(member.store->read_all()), ErrorKind::kUnavailable);
  etcd.restart();
  etcd.ctl({"put", "/pvrdma/v1/meanwhile", "2"});
  ASSERT_TRUE(member.wait_has("meanwhile", "2"));
  ASSERT_TRUE(member.recorder.wait_connected());
  EXPECT_EQ(member.recorder.told().alls.size(), 1U);
  EXPECT_THAT(must(member.store->read_all()),
              ElementsAre(KeyValue{"a", "1"}, KeyValue{"live", "1"}, KeyValue{"meanwhile", "2"}));
  EXPECT_EQ(member.commit({{{"a", "1"}}, {put("a", "2")}}), Commit::kCommitted);

  // Another etcd takes its place, so all earlier observations are invalid.
  etcd.kill();
  ASSERT_TRUE(member.recorder.wait_away());
  etcd.wipe();
  etcd.restart();
  for (int i = 0; i < 10; ++i) etcd.ctl({"put", "/pvrdma/v1/fresh", "3"});
  ASSERT_TRUE(member.wait_has("fresh", "3"));
  EXPECT_THAT(must(member.store->read_all()), ElementsAre(KeyValue{"fresh", "3"}));
  EXPECT_TRUE(member.wait_gone("a"));
  EXPECT_GE(member.recorder.told().alls.size(), 2U);
}

TEST(EtcdStore, ReadsEverythingFromAnEtcdThatLooksLikeTheOldOneButDoesNotKnowItsLease) {
  EtcdServer etcd;
  Relay relay(etcd.port());
  Member member(config_of({relay.url()}));
  ASSERT_TRUE(member.recorder.wait_connected());
  member.commit({{}, {put("a", "1")}});
  ASSERT_TRUE(member.wait_has("a", "1"));
  relay.set(Relay::Mode::kCut);
  ASSERT_TRUE(member.recorder.wait_away());
  etcd.kill();
  etcd.wipe();
  etcd.restart();
  // The new etcd passes the old one's last seen revision. It has the old one's identity: the same name and
  // ports.
  for (int i = 0; i < 10; ++i) etcd.ctl({"put", "/pvrdma/v1/fresh", "3"});
  relay.set(Relay::Mode::kForward);
  ASSERT_TRUE(member.wait_has("fresh", "3"));
  EXPECT_TRUE(member.wait_gone("a"));
}

TEST(EtcdStore, GetsANewLeaseWhenEtcdStalledForLongerThanTheOldOne) {
  EtcdServer etcd;
  Member member(config_of({etcd.url()}, 2));
  ASSERT_TRUE(member.recorder.wait_connected());
  member.commit({{}, {put_leased("live", "1"), put("kept", "1")}});
  ASSERT_TRUE(member.wait_has("live", "1"));
  const std::string old_lease = etcd.ctl({"lease", "list"});
  etcd.pause();
  ASSERT_TRUE(member.recorder.wait_away());  // although no connection broke
  EXPECT_THAT(member.trouble(), StartsWith("etcd " + etcd.url() + ": "));
  // Longer than the lease: without a lease, the store does not even try a leased put.
  Result<Commit> refused = Commit::kCommitted;
  while (kind_of(refused = member.store->commit({{}, {put_leased("live", "2")}})) !=
             ErrorKind::kUnavailable ||
         refused.error().message.find("lease") == std::string::npos) {
    ASSERT_FALSE(refused);
  }
  etcd.resume();
  ASSERT_TRUE(member.recorder.wait([](const auto& told) { return told.leases_lost >= 1; }));
  ASSERT_TRUE(member.recorder.wait_connected());
  EXPECT_EQ(member.commit({{}, {put_leased("live", "3")}}), Commit::kCommitted);
  while (etcd.ctl({"lease", "list"}).find(old_lease.substr(old_lease.find('\n'))) != std::string::npos) {
  }
  EXPECT_THAT(must(member.store->read_all()), ElementsAre(KeyValue{"kept", "1"}, KeyValue{"live", "3"}));
}

TEST(EtcdStore, NoticesThatItsLeaseWasRevoked) {
  EtcdServer etcd;
  Member member(config_of({etcd.url()}, 3));
  ASSERT_TRUE(member.recorder.wait_connected());
  member.commit({{}, {put_leased("live", "1")}});
  ASSERT_TRUE(member.wait_has("live", "1"));
  const std::string listed = etcd.ctl({"lease", "list"});  // "found 1 leases\nID\n"
  const std::size_t line = listed.find('\n') + 1;
  etcd.ctl({"lease", "revoke", listed.substr(line, listed.find('\n', line) - line)});
  ASSERT_TRUE(member.wait_gone("live"));
  ASSERT_TRUE(member.recorder.wait([](const auto& told) { return told.leases_lost >= 1; }));
  EXPECT_EQ(member.commit({{}, {put_leased("live", "2")}}), Commit::kCommitted);
}

TEST(EtcdStore, AuthenticatesAndAgainWhenEtcdForgot) {
  EtcdServer etcd;
  const std::string root = "root:secret";
  etcd.ctl({"user", "add", root});
  etcd.ctl({"user", "grant-role", "root", "root"});
  etcd.ctl({"role", "add", "ours"});
  etcd.ctl({"role", "grant-permission", "--prefix=true", "ours", "readwrite", "/pvrdma/v1/"});
  etcd.ctl({"user", "add", "daemon:its password"});
  etcd.ctl({"user", "grant-role", "daemon", "ours"});
  EtcdConfig config = config_of({etcd.url()}, 60);
  config.user = "daemon";
  config.password = "its password";
  Member early(config);  // before etcd demands authentication
  ASSERT_TRUE(early.recorder.wait_connected());
  etcd.ctl({"auth", "enable"});
  EXPECT_EQ(early.commit(kPutA), Commit::kCommitted);

  Member member(config);
  ASSERT_TRUE(member.recorder.wait_connected());
  EXPECT_EQ(member.commit({{{"a", "1"}}, {put("a", "2"), put_leased("live", "1")}}), Commit::kCommitted);
  ASSERT_TRUE(early.wait_has("live", "1"));

  Member nobody(config_of({etcd.url()}));
  ASSERT_TRUE(nobody.wait_trouble("user name is empty"));
  EXPECT_EQ(kind_of(nobody.store->commit(kPutA)), ErrorKind::kUnavailable);
  config.password = "wrong";
  Member wrong(config);
  ASSERT_TRUE(wrong.wait_trouble("invalid user ID or password"));
  config.password = "its password";
  config.prefix = "/elsewhere/";
  Member elsewhere(config);
  ASSERT_TRUE(elsewhere.wait_trouble("permission denied"));
  const auto denied = elsewhere.store->commit(kPutA);
  ASSERT_EQ(code_of(denied), EACCES);
  EXPECT_EQ(denied.error().message,
            "etcd " + etcd.url() + ": etcdserver: permission denied; nothing was changed");

  etcd.kill();  // the tokens are lost, too
  ASSERT_TRUE(member.recorder.wait_away());
  etcd.restart();
  etcd.ctl({"put", "/pvrdma/v1/meanwhile", "2"}, root);
  ASSERT_TRUE(member.wait_has("meanwhile", "2"));
  ASSERT_TRUE(member.recorder.wait_connected());
  EXPECT_EQ(member.recorder.told().alls.size(), 1U);
  EXPECT_EQ(member.commit({{}, {put("a", "3")}}), Commit::kCommitted);
}

TEST(EtcdStore, SpeaksTlsAndChecksWhoIsThere) {
  const TempFolder folder;
  const auto make_ca = [&](const std::string& name) {
    run_program({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-days", "2", "-subj", "/CN=" + name, "-keyout", folder.file(name + ".key"), "-out",
                 folder.file(name + ".pem")});
  };
  const auto make_certificate = [&](const std::string& name, const std::string& ca) {
    std::ofstream(folder.file("ext"))
        << "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";
    run_program({"openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                 "/CN=" + name, "-keyout", folder.file(name + ".key"), "-out", folder.file(name + ".csr")});
    run_program({"openssl", "x509", "-req", "-days", "2", "-in", folder.file(name + ".csr"), "-CA",
                 folder.file(ca + ".pem"), "-CAkey", folder.file(ca + ".key"), "-CAcreateserial", "-extfile",
                 folder.file("ext"), "-out", folder.file(name + ".pem")});
  };
  make_ca("ca");
  make_ca("stranger");
  make_certificate("server", "ca");
  make_certificate("client", "ca");
  make_certificate("intruder", "stranger");

  EtcdConfig config;
  config.ca_file = folder.file("ca.pem");
  config.cert_file = folder.file("client.pem");
  config.key_file = folder.file("client.key");
  EtcdServer etcd(EtcdTls{config.ca_file,
                          folder.file("server.pem"),
                          folder.file("server.key"),
                          {config.ca_file, config.cert_file, config.key_file}});
  config.endpoints = {etcd.url()};
  Member member(config);
  ASSERT_TRUE(member.recorder.wait_connected());
  EXPECT_EQ(member.commit({{}, {put("a", "1"), put_leased("live", "1")}}), Commit::kCommitted);
  EXPECT_TRUE(member.wait_has("live", "1"));

  EtcdConfig stranger = config;
  stranger.ca_file = folder.file("stranger.pem");
  EtcdConfig intruder = config;
  intruder.cert_file = folder.file("intruder.pem");
  intruder.key_file = folder.file("intruder.key");
  EtcdConfig nobody = config;
  nobody.cert_file = nobody.key_file = "";
  EtcdConfig elsewhere = config;  // the certificate is only for the address
  elsewhere.endpoints = {fmt::format("https://localhost:{}", etcd.port())};
  EtcdConfig plain = config;
  plain.endpoints = {fmt::format("http://127.0.0.1:{}", etcd.port())};
  for (const EtcdConfig& wrong : {stranger, intruder, nobody, elsewhere, plain}) {
    Member refused(wrong);
    ASSERT_TRUE(refused.recorder.wait_away());
    EXPECT_THAT(refused.trouble(), StartsWith("etcd " + wrong.endpoints[0] + ": "));
    EXPECT_EQ(kind_of(refused.store->commit({{}, {put("evil", "1")}})), ErrorKind::kUnavailable);
    EXPECT_TRUE(refused.recorder.told().alls.empty());
  }
  EXPECT_FALSE(member.recorder.told().has("evil"));
}

std::string http(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

TEST(EtcdStore, FindsTheEndpointThatWorks) {
  EtcdServer dead;
  dead.kill();
  NonsenseServer nonsense([](const std::string&) { return http("<html>welcome</html>"); });
  EtcdServer etcd;
  Member member(config_of({dead.url(), nonsense.url(), etcd.url()}));
  ASSERT_TRUE(member.recorder.wait_connected());
  EXPECT_EQ(member.commit({{}, {put("a", "1"), put_leased("live", "1")}}), Commit::kCommitted);
  EXPECT_TRUE(member.wait_has("live", "1"));
}

// Etcd answers a grant only after 1.7 of the lease's 2 seconds.
TEST(EtcdStore, RefreshesALeaseInTimeThatWasGrantedLate) {
  std::atomic<int> grants = 0;
  std::atomic<int> refreshes = 0;
  NonsenseServer server([&](const std::string& path) {
    if (path == "/v3/lease/grant") {
      ++grants;
      std::this_thread::sleep_for(std::chrono::milliseconds(1700));
      return http(R"({"header":{},"ID":"5","TTL":"2"})");
    }
    if (path == "/v3/lease/keepalive") ++refreshes;
    return http(R"({"result":{"header":{},"ID":"5","TTL":"2"}})");
  });
  const Member member(config_of({server.url()}, 2));
  while (refreshes < 3 && grants < 3) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(grants, 1);
}

TEST(EtcdStore, SurvivesAServerThatAnswersNonsense) {
  const std::string range = R"({"header":{"cluster_id":"1","revision":"7"}})";
  const std::string lease = R"({"header":{},"ID":"5","TTL":"60"})";
  const std::string created = R"({"result":{"header":{"cluster_id":"1","revision":"7"},"created":true}})"
                              "\n";
  struct Case {
    std::string watch;    // the answer to a watch
    std::string others;   // the answer to everything else
    std::string trouble;  // a part of the sentence
  };
  // Small, so that the time limits of the store are enough for what is too long.
  constexpr std::size_t kAnswerMib = 2;
  constexpr std::size_t kEventMib = 1;
  const std::vector<Case> cases = {
      {"", "", ""},
      {"", "SSH-2.0-OpenSSH_9.2\r\n", ""},
      {"", std::string("\x00\xff\x15\x03\x01", 5), ""},
      {"", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{", ""},
      {"", "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "HTTP status 502"},
      {"", http("{}"), "is it an etcd?"},
      {"", http(std::string(1 << 20, '[')), "is it an etcd?"},
      {"", http(R"({"header":{"revision":"7"},"kvs":[{"key":"eA=="}]})"),
       "has a record that is not understood"},
      {"", "HTTP/1.1 200 OK\r\n\r\n" + std::string((kAnswerMib << 20) + 1, 'x'), "longer than 2 MiB"},
      {http("what?\n"), http(range), "to a watch is not understood"},
      {http(created + R"({"result":{"header":{},"events":[{"kv":{}}]}})"
                      "\n"),
       http(range), "has an event that is not"},
      {"HTTP/1.1 200 OK\r\n\r\n" + created + std::string((kEventMib << 20) + 1, 'x'), http(range),
       "event longer than 1 MiB"},
      {http(R"({"error":{"grpc_code":14,"http_code":503,"message":"I am tired"}})"), http(range),
       "I am tired"},
      {http(created), http(range), "it ended the watch"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.trouble.empty() ? one.others.substr(0, 40) : one.trouble);
    NonsenseServer server([&](const std::string& path) {
      if (one.watch.empty()) return one.others;
      // A valid answer, because the lease's trouble would otherwise come first.
      if (path.starts_with("/v3/lease/")) return http(lease);
      return path == "/v3/watch" ? one.watch : one.others;
    });
    EtcdConfig config = config_of({server.url()});
    config.answer_mib = kAnswerMib;
    config.event_mib = kEventMib;
    Member member(config);
    ASSERT_TRUE(member.wait_trouble("etcd " + server.url() + ": "));
    ASSERT_TRUE(member.wait_trouble(one.trouble));
    EXPECT_NE(member.store->commit(kPutA).value_or(Commit::kConflict), Commit::kCommitted);
    EXPECT_TRUE(member.recorder.told().changes.empty());
    member.store->stop(LeasedRecords::kGiveBack);
  }
}

TEST(EtcdStore, RefusesAConfigurationThatCannotWork) {
  const TempFolder folder;
  const std::string text = folder.file("text");
  std::ofstream(text) << "no certificate";
  const auto refusal = [](const EtcdConfig& config) {
    Recorder recorder;
    const auto store = make_etcd_store(config);
    const auto started = store->start(recorder);
    const auto refused = store->commit(kPutA);
    EXPECT_EQ(kind_of(refused), started ? ErrorKind::kUnavailable : ErrorKind::kInternal);
    EXPECT_EQ(code_of(refused), started ? 0 : ENOTCONN);
    return started ? std::string() : started.error().message;
  };
  EXPECT_THAT(refusal(config_of({})), StartsWith("etcd has no endpoint"));
  for (const char* endpoint :
       {"10.0.0.1:2379", "ftp://10.0.0.1", "http://", "http://a/path", "http://u:p@a", "http://a?b"}) {
    EXPECT_THAT(refusal(config_of({endpoint})), StartsWith(fmt::format("etcd endpoint '{}': ", endpoint)));
  }
  EtcdConfig config = config_of({"https://127.0.0.1:1"});
  config.ca_file = folder.file("missing");
  EXPECT_EQ(refusal(config), "etcd CA file " + config.ca_file + " cannot be read: No such file or directory");
  config.ca_file = text;
  EXPECT_EQ(refusal(config), "etcd CA file " + text + " has nothing in PEM format: name another file");
  config.ca_file = "";
  config.cert_file = text;
  EXPECT_THAT(refusal(config), HasSubstr("belong together"));
}

}  // namespace
}  // namespace pvrdma::control::test
