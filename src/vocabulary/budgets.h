// Budgets: how much of a host one adapter may use, and how much all adapters of a daemon may use together.
//
// The defaults are for a host with 100 VMs; the sums are in pvrdmad.toml(5). Each budget has one name, which
// is also its key in the configuration. Thread: values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/words.h"

namespace pvrdma {

enum class Budget : std::uint8_t {
  kQps,
  kCqs,
  kSrqs,
  kMrs,
  kRegistered,
  kRings,
  kMapped,
  kMappings,
  kNatives,
  kCommands,
  kDoorbells
};
inline constexpr std::size_t kBudgetCount = 11;

template <>
inline constexpr std::array kWords<Budget>{Word{"qps", Budget::kQps},
                                           Word{"cqs", Budget::kCqs},
                                           Word{"srqs", Budget::kSrqs},
                                           Word{"mrs", Budget::kMrs},
                                           Word{"registered_mib", Budget::kRegistered},
                                           Word{"rings_mib", Budget::kRings},
                                           Word{"mapped_mib", Budget::kMapped},
                                           Word{"mappings", Budget::kMappings},
                                           Word{"native_connections", Budget::kNatives},
                                           Word{"commands_per_s", Budget::kCommands},
                                           Word{"doorbells_per_s", Budget::kDoorbells}};
static_assert(kWords<Budget>.size() == kBudgetCount);

inline constexpr std::uint64_t kNoBudget = std::numeric_limits<std::uint64_t>::max();

// The budgets of one adapter.
struct Budgets {
  std::uint64_t qps = 32768;  // these four are an ESXi adapter's limits
  std::uint64_t cqs = 4096;
  std::uint64_t srqs = 256;
  std::uint64_t mrs = 262144;
  std::uint64_t registered_mib = 262144;    // named by MRs
  std::uint64_t rings_mib = 8192;           // named by QPs, CQs and SRQs
  std::uint64_t mapped_mib = 2097152;       // RAM that the VMM shares
  std::uint64_t mappings = 16384;           // of that RAM: twice its maps, as those before a reboot go late
  std::uint64_t native_connections = 1024;  // RC connections to native endpoints
  std::uint64_t commands_per_s = 20'000;
  std::uint64_t doorbells_per_s = 4'000'000;

  // For tests and benches that are not about budgets.
  static constexpr Budgets none() {
    return {kNoBudget, kNoBudget, kNoBudget, kNoBudget, kNoBudget, kNoBudget,
            kNoBudget, kNoBudget, kNoBudget, kNoBudget, kNoBudget};
  }
  friend bool operator==(const Budgets&, const Budgets&) = default;
};

// The budgets of all adapters together.
struct TotalBudgets {
  std::uint64_t qps = 262144;
  std::uint64_t mrs = 2097152;
  std::uint64_t registered_mib = 1048576;
  std::uint64_t rings_mib = 65536;
  std::uint64_t mapped_mib = 16777216;
  std::uint64_t mappings = 24576;
  std::uint64_t native_connections = 4096;  // each takes about 1 KiB if there are RoCE links
  friend bool operator==(const TotalBudgets&, const TotalBudgets&) = default;
};

// A host's budgets: `each` applies to every adapter without budgets of its own, `total` to all adapters
// together.
struct HostBudgets {
  Budgets each;
  TotalBudgets total;
};

// What one adapter, or all adapters together, use of one budget. Numbers are in the unit of the budget's key;
// a MiB that is used in part counts as a whole one.
struct BudgetUse {
  Budget budget{};
  std::uint64_t use = 0;
  std::uint64_t limit = kNoBudget;
  std::uint64_t refused = 0;  // how often the budget made a request fail; for a rate: how often it slowed one
};

}  // namespace pvrdma
