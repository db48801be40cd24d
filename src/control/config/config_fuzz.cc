// Fuzzes the configuration: the texts that a person or a tool puts into the file and the flags.
//
// Input: texts separated by NUL: the file, then one for each --adapter, or for each --roce-link if it
// contains no '='. The fuzzer checks: nothing crashes, a refusal has a reason, and a Config satisfies
// config.h, because nobody checks it again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <variant>

#include "base/check.h"
#include "base/fd.h"
#include "control/config/config.h"
#include "support/fuzz_input.h"
#include "vocabulary/name.h"

namespace pvrdma::control {
namespace {

constexpr std::size_t kFlagsMax = 8;
constexpr std::size_t kSocketBytesMax = 107;

std::string take_text(std::string_view& input) {
  const std::size_t end = std::min(input.find('\0'), input.size());
  std::string text(input.substr(0, end));
  input.remove_prefix(std::min(end + 1, input.size()));
  return text;
}

// A file without a name, so that one input cannot read another's.
Fd file_of(const std::string& text) {
  Fd file(::memfd_create("pvrdmad.toml", MFD_CLOEXEC));
  PVRDMA_CHECK(file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()),
               "a file with the text");
  return file;
}

void check(const Config& config) {
  PVRDMA_CHECK(config.cluster || !config.adapters.empty(), "there is something to serve");
  std::set<std::string> names;
  std::set<std::string> sockets;
  std::set<Mac> macs;
  for (const AdapterConfig& adapter : config.adapters) {
    PVRDMA_CHECK(is_name(adapter.name) && names.insert(adapter.name).second, "names are names, and unique");
    PVRDMA_CHECK(!adapter.socket.empty() && adapter.socket.size() <= kSocketBytesMax &&
                     sockets.insert(adapter.socket).second,
                 "sockets fit an address, and are unique");
    PVRDMA_CHECK(adapter.mac.is_unicast() && macs.insert(adapter.mac).second, "MACs are unicast, and unique");
  }
  if (const auto& cluster = config.cluster) {
    PVRDMA_CHECK(is_name(cluster->host_name), "a host has a name");
    PVRDMA_CHECK(cluster->tcp_lanes >= 1 && cluster->tcp_lanes <= 16, "1 to 16 lanes");
    if (const auto* etcd = std::get_if<EtcdConfig>(&cluster->store)) {
      PVRDMA_CHECK(!etcd->endpoints.empty(), "etcd is somewhere");
      PVRDMA_CHECK(etcd->lease_seconds >= 3 && etcd->lease_seconds <= 600, "a lease of 3 to 600 s");
    }
  }
  std::set<std::string> links;
  std::set<std::pair<std::string, std::uint16_t>> segments;
  for (const RoceConfig& roce : config.roce) {
    PVRDMA_CHECK(links.insert(roce.link.name).second && segments.emplace(roce.dvs, roce.vlan).second,
                 "each segment has one link, and each link one segment");
    PVRDMA_CHECK(roce.dvs.empty() ? !config.adapters.empty() && roce.vlan == 0
                                  : config.cluster && roce.vlan <= 4094 && roce.peers.empty(),
                 "a link is of the daemon's own adapters or of a cluster's switch");
  }
  if (config.api) {
    PVRDMA_CHECK(config.api->token.size() >= 16 && config.api->token.size() <= 256, "a token worth the name");
    PVRDMA_CHECK(config.api->read_token != config.api->token && config.api->read_token.size() <= 256,
                 "the token for reading is another one");
  }
}

}  // namespace
}  // namespace pvrdma::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pvrdma;
  using namespace pvrdma::control;
  std::string_view input{reinterpret_cast<const char*>(data), size};
  const Fd file = file_of(take_text(input));
  ConfigSources sources{.file = "/proc/self/fd/" + std::to_string(file.get())};
  for (std::size_t i = 0; i < kFlagsMax && !input.empty(); ++i) {
    std::string text = take_text(input);
    auto& flags = text.find('=') == std::string::npos ? sources.roce_links : sources.adapter_flags;
    flags.push_back(std::move(text));
  }
  const auto config = load_config(sources);
  if (config) {
    check(*config);
  } else {
    PVRDMA_CHECK(!config.error().message.empty(), "a refusal says why");
  }
  return 0;
}
