#include "pvrdma_run/services.h"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <sys/socket.h>
#include <sys/time.h>
#include <system_error>
#include <utility>

#include "base/ip_address.h"
#include "base/mapped_address.h"
#include "preload/wire.h"
#include "pvrdma_run/adapter_socket.h"
#include "pvrdma_run/background.h"
#include "pvrdma_run/runtime_folder.h"

namespace pvrdma::run {
namespace {

namespace fs = std::filesystem;

constexpr int kIdleEndS = 10;
// The daemon or the stand-in may end for lack of clients just when it was found.
constexpr int kAttempts = 3;
constexpr int kAnswerPatienceS = 5;

std::string standin_socket(const std::string& folder) {
  return folder + "/standin.sock";
}

// Whether the stand-in has taken the connection. One that is about to end for lack of programs takes no more.
bool is_taken(const Fd& connection) {
  const timeval patience{.tv_sec = kAnswerPatienceS, .tv_usec = 0};
  const pvrdma_wire_request hello{.type = PVRDMA_WIRE_HELLO,
                                  .file = 0,
                                  .value0 = PVRDMA_WIRE_MAGIC,
                                  .value1 = PVRDMA_WIRE_VERSION,
                                  .command_bytes = 0,
                                  .run_count = 0};
  pvrdma_wire_answer answer;
  return ::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
         ::send(connection.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello &&
         ::recv(connection.get(), &answer, sizeof answer, 0) == sizeof answer;
}

// While this file is there, the stand-in does not end for lack of programs.
std::string keep_file(const std::string& folder) {
  return folder + "/keep";
}

std::string api_socket(const std::string& runtime) {
  return runtime + "/api.sock";
}

Result<void> provide_daemon(const Installation& installation, const std::string& runtime) {
  const auto is_ready = [&] { return connect_to(api_socket(runtime), SOCK_STREAM).has_value(); };
  if (is_ready()) return {};
  return start_in_background(
      {installation.daemon, "--ci", std::to_string(kNodes), "--runtime", runtime, "--log-format", "text"},
      runtime + "/pvrdmad.log", is_ready);
}

// Whether the device has the address, by the GIDs in the stand-in's tree.
bool has_address(const std::string& folder, const std::string& text) {
  const auto address = IpAddress::parse(text);
  std::error_code error;
  for (const auto& each :
       fs::directory_iterator(folder + "/tree/sys/class/infiniband/vmw_pvrdma0/ports/1/gids", error)) {
    std::string gid;
    std::ifstream(each.path()) >> gid;
    const auto found = IpAddress::parse(gid);
    if (address && found && mapped_address(*found) == mapped_address(*address)) return true;
  }
  return false;
}

std::string name_of(const Wanted& wanted) {
  return wanted.adapter.empty() ? fmt::format("node{}", wanted.node) : "adapter-" + wanted.adapter;
}

std::vector<std::string> addresses_of(const Wanted& wanted) {
  if (!wanted.addresses.empty() || !wanted.adapter.empty()) return wanted.addresses;
  return {fmt::format("10.99.0.{}", wanted.node + 1)};
}

Result<StandIn> provide_standin(const Installation& installation, const std::string& runtime,
                                const Wanted& wanted, const std::string& adapter_socket) {
  const auto folder = make_folder(runtime + "/" + name_of(wanted) + ".standin");
  if (!folder) return Failure(folder.error());
  if (wanted.life == StandInLife::kUntilStopped && !std::ofstream(keep_file(*folder)))
    return fail(fmt::format("{} cannot be written", keep_file(*folder)));
  std::optional<Fd> connection;
  const auto is_ready = [&] {
    connection = connect_to(standin_socket(*folder), SOCK_SEQPACKET);
    return connection && is_taken(*connection);
  };
  if (!is_ready()) {
    std::vector<std::string> command{
        installation.standin,     "--socket", adapter_socket, "--folder", *folder, "--idle-end",
        std::to_string(kIdleEndS)};
    for (const std::string& address : addresses_of(wanted)) {
      command.insert(command.end(), {"--address", address});
    }
    if (!wanted.gateway_mac.empty()) command.insert(command.end(), {"--gateway-mac", wanted.gateway_mac});
    auto started = start_in_background(command, *folder + "/standin.log", is_ready);
    if (!started) return Failure(std::move(started).error());
  }
  for (const std::string& address : wanted.addresses) {
    if (!has_address(*folder, address)) {
      return fail(fmt::format("{} runs already, without the address {}: end it with pvrdma-run --stop",
                              name_of(wanted), address));
    }
  }
  return StandIn{*folder, *std::move(connection)};
}

Result<StandIn> attempt(const Installation& installation, const std::string& runtime, const Wanted& wanted) {
  std::string socket = fmt::format("{}/node{}.sock", runtime, wanted.node);
  if (wanted.adapter.empty()) {
    if (auto provided = provide_daemon(installation, runtime); !provided)
      return Failure(std::move(provided).error());
  } else {
    auto found = find_adapter_socket(wanted.api_socket, wanted.adapter);
    if (!found) return Failure(std::move(found).error());
    socket = *std::move(found);
  }
  return provide_standin(installation, runtime, wanted, socket);
}

}  // namespace

Result<StandIn> provide(const Installation& installation, const std::string& runtime, const Wanted& wanted) {
  const auto lock = lock_folder(runtime);
  if (!lock) return Failure(lock.error());
  auto standin = attempt(installation, runtime, wanted);
  for (int i = 1; i < kAttempts && !standin; ++i) standin = attempt(installation, runtime, wanted);
  return standin;
}

Running list_running(const std::string& runtime) {
  constexpr std::string_view kEnd = ".standin";
  Running running{listener_of(api_socket(runtime), SOCK_STREAM), {}};
  std::error_code error;
  for (const auto& each : fs::directory_iterator(runtime, error)) {
    const std::string name = each.path().filename();
    if (!name.ends_with(kEnd)) continue;
    const auto pid = listener_of(standin_socket(each.path()), SOCK_SEQPACKET);
    if (pid) running.nodes.push_back({name.substr(0, name.size() - kEnd.size()), *pid});
  }
  std::ranges::sort(running.nodes, {}, &Running::Node::name);
  return running;
}

Result<void> stop_all(const std::string& runtime) {
  const auto lock = lock_folder(runtime);
  if (!lock) return Failure(lock.error());
  const Running running = list_running(runtime);
  for (const Running::Node& node : running.nodes) {
    if (auto ended = end_process(node.pid); !ended) return ended;
  }
  std::error_code error;
  for (const auto& each : fs::directory_iterator(runtime, error)) {
    std::error_code ignored;
    fs::remove(keep_file(each.path()), ignored);
  }
  return running.daemon ? end_process(*running.daemon) : Result<void>();
}

}  // namespace pvrdma::run
