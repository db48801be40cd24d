// Fuzzes the API with the bytes of a client's connection: HTTP, paths, queries, bodies, and the changes that
// they request of the inventory.
//
// The input is the stream, with requests one after the other. The fuzzer checks that nothing crashes, that no
// handler throws, that each answer is HTTP whose body is the JSON or text that its header says, and that the
// inventory can still be shown afterwards.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "api/api_fixture.h"
#include "api/dispatcher.h"
#include "api/routes.h"
#include "base/check.h"
#include "base/log.h"

namespace pvrdma::api {
namespace {

constexpr int kRequestsMax = 8;

// A connection in memory.
class Connection final : public httplib::Stream {
 public:
  explicit Connection(std::string_view input) : input_(input) {}

  bool is_readable() const override { return !input_.empty(); }
  bool is_writable() const override { return true; }
  ssize_t read(char* data, std::size_t size) override {
    const std::size_t count = std::min(size, input_.size());
    if (count != 0) std::memcpy(data, input_.data(), count);
    input_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* data, std::size_t size) override {
    answer_.append(data, size);
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = "127.0.0.1";
    port = 1;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override { get_remote_ip_and_port(ip, port); }
  socket_t socket() const override { return INVALID_SOCKET; }

  std::string take_answer() { return std::exchange(answer_, {}); }

 private:
  std::string_view input_;
  std::string answer_;
};

class OneThreaded final : public Dispatcher {
 public:
  using Dispatcher::Dispatcher;
  // Serves one request of the connection. Returns false if the connection ends.
  bool serve(Connection& connection) {
    bool closed = false;
    const bool served = process(connection, /*close_connection=*/false, closed);
    return served && !closed && connection.is_readable();
  }
};

void check_answer(const std::string& answer) {
  if (answer.empty() || answer.starts_with("HTTP/1.1 100 ")) return;
  PVRDMA_CHECK(answer.starts_with("HTTP/1.1 "), "an answer is HTTP");
  const std::size_t end = answer.find("\r\n\r\n");
  PVRDMA_CHECK(end != std::string::npos, "an answer has a head");
  PVRDMA_CHECK(!answer.starts_with("HTTP/1.1 500"), "no handler throws");
  const std::string_view head(answer.data(), end);
  const std::string_view body = std::string_view(answer).substr(end + 4);
  // An answer to HEAD has a length and no body.
  if (body.empty() || head.find("application/json") == std::string_view::npos) return;
  PVRDMA_CHECK(nlohmann::json::accept(body), "JSON is JSON");
}

// The daemon, used for many inputs. After each input its cluster is restored.
class ServedHost {
 public:
  ServedHost()
      : before_(member_.cluster->records()),
        router_(make_router(host_.parts(member_.plane.get(), "/nonexistent"))),
        dispatcher_(router_, is_no_dns_name) {}

  void serve(std::string_view input) {
    Connection connection(input);
    for (int i = 0; i < kRequestsMax; ++i) {
      const bool more = dispatcher_.serve(connection);
      check_answer(connection.take_answer());
      if (!more) break;
    }
    if (member_.cluster->records() != before_) put_back();
  }

 private:
  void put_back() {
    for (const char* path : {"/v1/cluster", "/v1/hosts", "/v1/dvs", "/v1/vms", "/v1/adapters"}) {
      Call call{.method = "GET", .path = path, .query = {}, .body = {}, .names = {}};
      PVRDMA_CHECK(router_.answer(std::move(call)).status == 200, "the inventory can be shown");
    }
    for (const auto& [key, value] : member_.cluster->records()) {
      if (!before_.contains(key)) member_.cluster->erase(key);
    }
    for (const auto& [key, value] : before_) {
      if (member_.cluster->find(key) != value) member_.cluster->put(key, value);
    }
  }

  FakeHost host_;
  FakeMember member_;
  const control::FakeCluster::Records before_;
  const Router router_;
  OneThreaded dispatcher_;
};

}  // namespace
}  // namespace pvrdma::api

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pvrdma::log::set_level(pvrdma::log::Level::kError);
  // Makes a new one now and then, because a fake store remembers every transaction.
  static std::unique_ptr<pvrdma::api::ServedHost> host;
  static int inputs = 0;
  if (inputs++ % 4096 == 0) host = std::make_unique<pvrdma::api::ServedHost>();
  host->serve({reinterpret_cast<const char*>(data), size});
  return 0;
}
