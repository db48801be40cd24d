// GET /v1/watch: what a watcher is told, when, and how many watchers there may be.
#include "api/watch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "api/api_fixture.h"
#include "schema/object.h"

namespace pvrdma::api {
namespace {

using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr std::chrono::seconds kGuard{20};

struct Told {
  std::string event;
  Json data;
};

// Takes the events from the text of a stream, and leaves the rest.
std::vector<Told> events_in(std::string& text) {
  std::vector<Told> events;
  for (std::size_t end = text.find("\n\n"); end != std::string::npos; end = text.find("\n\n")) {
    const std::string event = text.substr(0, end);
    text.erase(0, end + 2);
    if (event.starts_with(':')) continue;
    const std::size_t line = event.find('\n');
    EXPECT_EQ(event.substr(0, 7), "event: ");
    EXPECT_EQ(event.substr(line, 7), "\ndata: ");
    events.push_back({event.substr(7, line - 7), Json::parse(event.substr(line + 7))});
  }
  return events;
}

// A stream as its reader sees it.
class Watcher {
 public:
  explicit Watcher(ByteStream& stream) : stream_(stream) {}
  // The next event of this name, whatever comes between.
  Json next(const std::string& event) {
    for (const auto end = steady_clock::now() + kGuard; steady_clock::now() < end;) {
      while (!events_.empty()) {
        const Told told = events_.front();
        events_.erase(events_.begin());
        if (told.event == event) return told.data;
      }
      stream_.read(text_);
      events_ = events_in(text_);
    }
    ADD_FAILURE() << "no event " << event;
    return {};
  }

 private:
  ByteStream& stream_;
  std::string text_;
  std::vector<Told> events_;
};

class WatchTest : public testing::Test {
 protected:
  std::shared_ptr<ByteStream> begin(std::multimap<std::string, std::string> query = {},
                                    const std::string& client = "uid 0") {
    Call call;
    call.client = client;
    call.method = "GET";
    call.path = "/v1/watch";
    call.query = std::move(query);
    call.watchers = &watchers_;
    Reply reply = router_.answer(call);
    status_ = reply.status;
    refusal_ = reply.text;
    return reply.stream;
  }
  void make_switch(const std::string& name) {
    EXPECT_TRUE(member_.plane->edit([&](control::Inventory& inventory) {
      return control::edits::create_dvs(inventory, {.name = name});
    }));
  }

  FakeMember member_;
  FakeHost host_;
  const Router router_ = make_router(host_.parts(member_.plane.get()));
  Places watchers_{kWatchersMax, kWatchersOfClientMax};
  int status_ = 0;
  std::string refusal_;
};

TEST_F(WatchTest, BeginsWithAllThereIs) {
  const auto stream = begin();
  ASSERT_NE(stream, nullptr);
  Watcher watcher(*stream);
  const Json hello = watcher.next("hello");
  EXPECT_EQ(hello["host"], "esx-01");
  EXPECT_EQ(hello["revision"], member_.plane->inventory()->revision);
  EXPECT_THAT(hello["features"].dump(), HasSubstr("\"watch\""));
  EXPECT_FALSE(hello["boot"].get<std::string>().empty());

  const auto answer = [&](const char* path) {
    Call call;
    call.method = "GET";
    call.path = path;
    return Json::parse(router_.answer(call).text);
  };
  const Json inventory = watcher.next("inventory");
  EXPECT_EQ(inventory["revision"], hello["revision"]);
  EXPECT_EQ(inventory["hosts"], answer("/v1/hosts")) << "the same as to a request";
  EXPECT_EQ(inventory["dvs"], answer("/v1/dvs"));
  EXPECT_EQ(inventory["vms"], answer("/v1/vms"));
  EXPECT_EQ(watcher.next("store"), Json::parse(R"({"connected": true, "trouble": ""})"));
  EXPECT_EQ(watcher.next("motions"), Json::array());
  const Json stats = watcher.next("stats");
  EXPECT_GT(stats["t"].get<std::uint64_t>(), 1'600'000'000'000U);
  EXPECT_EQ(stats["adapters"],
            Json::parse(R"([["VM-01", "", false, 0, 0, 0, 0, 0, 0, {"tcp": [3, 300]}, {"qps": [3, 1]}]])"));
}

TEST_F(WatchTest, TellsAChangeWithin200Ms) {
  const auto stream = begin();
  Watcher watcher(*stream);
  watcher.next("stats");
  make_switch("DSwitch");
  // The bound is by looks and not by the clock: a busy machine may sleep longer.
  std::string text;
  for (int look = 0; look < 3 && text.find("event: inventory") == std::string::npos; ++look)
    stream->read(text);
  EXPECT_THAT(text, HasSubstr("\"name\":\"DSwitch\"")) << "two waits of at most 100 ms";
}

TEST_F(WatchTest, TellsTheEventsFromItsBeginningOn) {
  const std::uint64_t before = events::newest().last();
  events::tell(log::Level::kInfo, {events::Type::kStore}, "earlier");
  const auto stream = begin();
  const auto since = begin({{"after", std::to_string(before)}});
  events::tell(log::Level::kInfo, {events::Type::kStore}, "later");
  const Json page = Watcher(*stream).next("events");
  ASSERT_EQ(page["events"].size(), 1U);
  EXPECT_EQ(page["events"][0]["text"], "later");
  EXPECT_EQ(page["last"], before + 2);
  EXPECT_EQ(page["lost"], 0);
  Watcher second(*since);
  EXPECT_EQ(second.next("events")["events"].size(), 2U);
  events::tell(log::Level::kInfo, {events::Type::kStore}, "last");
  const Json next = second.next("events");
  ASSERT_EQ(next["events"].size(), 1U) << "each is told once";
  EXPECT_EQ(next["events"][0]["text"], "last");
  begin({{"after", "x"}});
  EXPECT_EQ(status_, 400);
}

TEST_F(WatchTest, TellsWhatChangesWithoutARevision) {
  const auto stream = begin();
  Watcher watcher(*stream);
  const Json before = watcher.next("inventory");
  control::LiveHost live;
  live.name = "esx-02";
  live.instance = "i-2";
  live.version = "1.2.3";
  member_.cluster->put(control::live_host_key("esx-02"), control::live_host_value(live));
  const Json after = watcher.next("inventory");
  EXPECT_EQ(after["revision"], before["revision"]);
  EXPECT_EQ(before["hosts"][1]["alive"], false);
  EXPECT_EQ(after["hosts"][1]["alive"], true);
}

TEST_F(WatchTest, TellsOfMotionsAndOfAdaptersThatAreNotServed) {
  const auto stream = begin();
  Watcher watcher(*stream);
  watcher.next("stats");
  ASSERT_TRUE(host_.motions.start({.vm = "VM-01", .to = "esx-02"}));
  EXPECT_EQ(watcher.next("motions")[0]["to"], "esx-02");
  watcher.next("stats");
  EXPECT_TRUE(member_.plane->edit([](control::Inventory& inventory) -> Result<void> {
    using namespace control::edits;
    if (auto made = create_dvs(inventory, {.name = "DSwitch"}); !made) return made;
    if (auto made = add_portgroup(inventory, "DSwitch", "pg1", {}); !made) return made;
    if (auto made = add_dvs_host(inventory, "DSwitch", "esx-01"); !made) return made;
    if (auto made = create_vm(inventory, {.name = "VM-01", .host = "esx-01", .memory_mib = 512}); !made)
      return made;
    return add_adapter(inventory, "VM-01", {.dvs = "DSwitch", .portgroup = "pg1"});
  }));
  const Json served = watcher.next("inventory")["vms"][0];
  EXPECT_EQ(served["name"], "VM-01");
  EXPECT_EQ(served["not_served"], "");
  host_.source.not_served = {{"VM-01", "its socket is in use"}};
  EXPECT_EQ(watcher.next("inventory")["vms"][0]["not_served"], "its socket is in use");
  host_.source.not_served.clear();
  EXPECT_EQ(watcher.next("inventory")["vms"][0]["not_served"], "");
}

TEST_F(WatchTest, GoesOnWhileTheShardDoesNotAnswer) {
  host_.source.stopping = true;
  const auto stream = begin();
  Watcher watcher(*stream);
  EXPECT_EQ(watcher.next("inventory")["dvs"], Json::array());
  make_switch("DSwitch");
  EXPECT_EQ(watcher.next("inventory")["dvs"][0]["name"], "DSwitch");
  host_.source.stopping = false;
  watcher.next("stats");
}

TEST_F(WatchTest, TellsOnlyOfALongInventoryThatItIsThere) {
  EXPECT_TRUE(member_.plane->edit([](control::Inventory& inventory) -> Result<void> {
    for (int i = 0; i < 2000; ++i) {
      auto made = control::edits::create_vm(
          inventory, {.name = "VM-" + std::to_string(i), .host = "esx-01", .memory_mib = 512});
      if (!made) return made;
    }
    return {};
  }));
  const auto stream = begin();
  Watcher watcher(*stream);
  EXPECT_EQ(watcher.next("changed"), Json::parse(R"({"what": "inventory"})"));
  make_switch("DSwitch");
  EXPECT_EQ(watcher.next("changed"), Json::parse(R"({"what": "inventory"})"));
}

TEST_F(WatchTest, AllWatchersShareOneSnapshotASecond) {
  Sampler sampler(host_.parts(member_.plane.get()));
  const Sampler::Events first = sampler.newest();
  for (int i = 0; i < 6; ++i) {
    const Sampler::Events again = sampler.newest();
    for (std::size_t topic = 0; topic < Sampler::kTopics; ++topic) {
      if (again[topic].version == first[topic].version) {
        EXPECT_EQ(again[topic].text, first[topic].text);
      }
    }
  }
  EXPECT_LE(host_.source.snapshots_taken, 2) << "two if a second ended in between";
}

TEST_F(WatchTest, AClientHasFourAndAListenerSixAtMost) {
  std::vector<std::shared_ptr<ByteStream>> streams;
  for (std::size_t i = 0; i < kWatchersOfClientMax; ++i) streams.push_back(begin({}, "uid 1000"));
  EXPECT_EQ(status_, 200);
  EXPECT_EQ(begin({}, "uid 1000"), nullptr);
  EXPECT_EQ(status_, 503);
  EXPECT_EQ(refusal_,
            "{\"error\":\"uid 1000 gets no further watcher of this listener, which has at most 4 of one "
            "client and 6 of all (uid 1000: 4): end one, or ask for the objects from time to time\"}\n");
  streams.push_back(begin({}, "uid 0"));
  streams.push_back(begin({}, "fd00::1"));
  EXPECT_NE(streams.back(), nullptr) << "others find a place";
  EXPECT_EQ(begin({}, "uid 0"), nullptr);
  EXPECT_THAT(refusal_, HasSubstr("uid 0 gets no further watcher"));
  EXPECT_THAT(refusal_, HasSubstr("(fd00::/64: 1, uid 0: 1, uid 1000: 4)"));
  streams.erase(streams.begin());
  EXPECT_NE(begin({}, "uid 1000"), nullptr) << "one has left";
}

TEST_F(WatchTest, AllAddressesOfAnIpv6NetworkAreOneClient) {
  std::vector<std::shared_ptr<ByteStream>> streams;
  for (std::size_t i = 0; i < kWatchersOfClientMax; ++i)
    streams.push_back(begin({}, "fd00::" + std::to_string(i)));
  EXPECT_EQ(begin({}, "fd00::ffff"), nullptr);
  EXPECT_NE(begin({}, "fd01::1"), nullptr);
}

TEST(WatchAlone, ADaemonWithoutAClusterTellsItsCounters) {
  FakeHost host;
  const Router router = make_router(host.parts());
  Call call;
  call.method = "GET";
  call.path = "/v1/watch";
  const Reply reply = router.answer(call);
  ASSERT_NE(reply.stream, nullptr);
  Watcher watcher(*reply.stream);
  EXPECT_EQ(watcher.next("hello")["host"], nullptr);
  EXPECT_EQ(watcher.next("stats")["adapters"][0][0], "VM-01");
}

// --- Over the socket ---

class WatchServer : public testing::Test {
 protected:
  void SetUp() override {
    server_ = ApiServer::listen(path_, host_.parts(member_.plane.get())).value();
    server_->start();
  }
  Fd watch() {
    Fd connection = connected_to(path_);
    const std::string request = "GET /v1/watch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(::send(connection.get(), request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    return connection;
  }
  // Waits for the first bytes of an answer.
  static std::string status(const Fd& connection) {
    std::array<char, 12> head;
    EXPECT_EQ(::recv(connection.get(), head.data(), head.size(), MSG_WAITALL),
              static_cast<ssize_t>(head.size()));
    return {head.data() + 9, 3};
  }

  const std::string path_ = test_path(".sock");
  FakeMember member_;
  FakeHost host_;
  std::unique_ptr<ApiServer> server_;
};

TEST_F(WatchServer, IsAStreamOfEventsThatABrowserDoesNotKeep) {
  httplib::Client client = unix_client(path_);
  std::string got;
  const auto answer = client.Get(
      "/v1/watch", httplib::Headers{{"Accept-Encoding", "gzip"}},
      [](const httplib::Response& head) {
        EXPECT_EQ(head.get_header_value("Content-Type"), "text/event-stream");
        EXPECT_EQ(head.get_header_value("Cache-Control"), "no-store");
        EXPECT_FALSE(head.has_header("Content-Encoding"));
        return true;
      },
      [&](const char* data, std::size_t size) {
        got.append(data, size);
        return got.find("event: stats\n") == std::string::npos;
      });
  EXPECT_EQ(got.substr(0, 13), "event: hello\n");
}

TEST_F(WatchServer, LeavesThreadsForOtherRequests) {
  std::vector<Fd> watchers;
  for (std::size_t i = 0; i < kWatchersOfClientMax; ++i) {
    watchers.push_back(watch());
    EXPECT_EQ(status(watchers.back()), "200");
  }
  EXPECT_EQ(status(watch()), "503");
  EXPECT_EQ(unix_client(path_).Get("/v1/version")->status, 200);
  watchers.clear();
  // The threads notice it at their next write.
  std::string again;
  for (const auto end = steady_clock::now() + kGuard; again != "200" && steady_clock::now() < end;)
    again = status(watch());
  EXPECT_EQ(again, "200");
}

TEST_F(WatchServer, TheEndOfTheServerEndsThem) {
  const Fd watcher = watch();
  EXPECT_EQ(status(watcher), "200");
  server_.reset();
  std::array<char, 4096> rest;
  ssize_t got = 0;
  while ((got = ::recv(watcher.get(), rest.data(), rest.size(), 0)) > 0) {
  }
  EXPECT_LE(got, 0);
}

// The reader's events fill its socket, and then the server closes the stream. A second watcher tells when
// each change was sent.
TEST_F(WatchServer, AReaderThatTakesNothingLosesTheStream) {
  EXPECT_TRUE(member_.plane->edit([](control::Inventory& inventory) -> Result<void> {
    for (int i = 0; i < 150; ++i) {
      auto made = control::edits::create_vm(
          inventory, {.name = "VM-" + std::to_string(i), .host = "esx-01", .memory_mib = 512});
      if (!made) return made;
    }
    return {};
  }));
  const Fd lazy = watch();
  EXPECT_EQ(status(lazy), "200");
  const Fd eager = watch();
  const timeval guard{20, 0};
  ::setsockopt(eager.get(), SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof(guard));
  std::array<char, 65536> piece;
  std::size_t sent_bytes = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string name = "dvs" + std::to_string(i);
    EXPECT_TRUE(member_.plane->edit([&](control::Inventory& inventory) {
      return control::edits::create_dvs(inventory, {.name = name});
    }));
    for (std::string seen; seen.find("\"name\":\"" + name + "\"") == std::string::npos;) {
      const ssize_t got = ::recv(eager.get(), piece.data(), piece.size(), 0);
      ASSERT_GT(got, 0) << "it gets " << name << " although the other one does not read";
      seen.append(piece.data(), static_cast<std::size_t>(got));
      sent_bytes += static_cast<std::size_t>(got);
    }
  }
  pollfd ended{lazy.get(), POLLRDHUP, 0};
  ASSERT_EQ(::poll(&ended, 1, 20'000), 1) << "the server has given it up";
  std::size_t bytes = 0;
  for (ssize_t got = 1; got > 0; bytes += static_cast<std::size_t>(std::max<ssize_t>(got, 0)))
    got = ::recv(lazy.get(), piece.data(), piece.size(), 0);
  EXPECT_LT(bytes, sent_bytes);
}

}  // namespace
}  // namespace pvrdma::api
