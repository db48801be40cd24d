// The state of the transport hca, for people. Thread: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pvrdma::transport {

// A shard of another host that has an HCA, as this transport sees it.
struct HcaPeerState {
  std::string name;  // the host's
  bool is_up = false;
  std::uint32_t pipes = 0;  // that this host has dialled and that are up
  std::uint64_t falls = 0;  // how often it ceased to be up
  std::string trouble;      // why it is not up; empty: it is, or no pipe to it is needed
};

struct HcaState {
  std::string device;   // its name in libibverbs; empty: no device that may be used
  std::string trouble;  // why it does not work; empty: it works
  std::vector<HcaPeerState> peers = {};
  std::uint64_t pinned_bytes = 0;  // of VMs' memory, registered with the device
};

}  // namespace pvrdma::transport
