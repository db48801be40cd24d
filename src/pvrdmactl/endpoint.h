// Endpoint: the address of the daemon's API: a UNIX socket of this host, or a server reached by TLS. Thread:
// values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

struct Endpoint {
  std::string socket;  // empty: the server below

  std::string host;  // a name, or an address without brackets
  std::uint16_t port = 0;
  std::string token_file;
  std::string ca;  // empty: the system's trusted certificates

  std::string to_string() const;  // the socket's path, or https://HOST:PORT
};

// Returns a variable's value; empty if it is not set.
using Environment = std::function<std::string(const char* name)>;

// Chooses by the global options, then the environment (PVRDMA_SERVER before PVRDMA_API), then
// /run/pvrdma/api.sock. Errors, all mistakes of the caller: both a socket and a server; not
// https://HOST:PORT; no token for a server; --token-file or --ca without a server.
Result<Endpoint> choose_endpoint(const Values& globals, const Environment& environment);

}  // namespace pvrdma::ctl
