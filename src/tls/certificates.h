// Certificates: the certificates that this daemon presents: when they end, and taking new files.
//
// Thread: add() first; then any but the shard's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tls/context.h"

namespace pvrdma::tls {

struct CertificateState {
  std::string use;  // the table of the configuration: "tcp", "api"
  std::string file;
  std::uint64_t not_after_s = 0;  // when it expires, in seconds since the epoch
};

class Certificates {
 public:
  static constexpr std::uint64_t kWarnBeforeS = 14 * 86400;

  void add(std::string use, std::shared_ptr<Context> context) {
    used_.push_back({std::move(use), std::move(context)});
  }

  std::vector<CertificateState> states() const;

  // Reads all files again. The log says of each certificate whether the new files are used.
  void reload() const;

  // Warns in the log of each certificate that has expired, or will within kWarnBeforeS. `now_s`: since the
  // epoch.
  void warn_of_end(std::uint64_t now_s) const;

 private:
  struct Use {
    std::string name;
    std::shared_ptr<Context> context;
  };
  std::vector<Use> used_;
};

}  // namespace pvrdma::tls
