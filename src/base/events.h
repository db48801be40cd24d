// Events: what happens to the objects that the daemon serves, for operators: a link went down, a host was
// lost, somebody changed a VM. tell() writes one sentence, into the log and into the ring of the newest
// events (event_ring.h), from where the API shows it.
//
// Whoever calls tell() where a guest, a VMM or a peer decides how often bounds the rate, as for the log.
//
// Thread: any. tell() does not throw, does not allocate, and waits at most while another thread copies one
// event.
#pragma once

#include <array>
#include <cstdint>
#include <fmt/core.h>
#include <string_view>

#include "base/log.h"
#include "base/words.h"

namespace pvrdma {
namespace events {

enum class Type : std::uint8_t {
  kAdapter,
  kCertificate,
  kEdit,
  kFault,
  kHost,
  kLink,
  kMotion,
  kPath,
  kPower,
  kShard,
  kStore
};

// What kind of object an event is about. The adapter of a VM has the VM's name and counts as the VM.
enum class Kind : std::uint8_t { kDaemon, kDvs, kHost, kVm };

struct Subject {
  Type type{};
  Kind kind = Kind::kDaemon;
  std::string_view object = {};     // its name; empty: the daemon itself
  std::string_view initiator = {};  // the client that asked for it; empty: no client did
};

void tell_formatted(log::Level level, const Subject& subject, fmt::string_view format,
                    fmt::format_args args) noexcept;

template <typename... Args>
void tell(log::Level level, const Subject& subject, fmt::format_string<Args...> format,
          Args&&... args) noexcept {
  tell_formatted(level, subject, format, fmt::make_format_args(args...));
}

}  // namespace events

template <>
inline constexpr std::array kWords<events::Type>{
    Word{"adapter", events::Type::kAdapter}, Word{"certificate", events::Type::kCertificate},
    Word{"edit", events::Type::kEdit},       Word{"fault", events::Type::kFault},
    Word{"host", events::Type::kHost},       Word{"link", events::Type::kLink},
    Word{"motion", events::Type::kMotion},   Word{"path", events::Type::kPath},
    Word{"power", events::Type::kPower},     Word{"shard", events::Type::kShard},
    Word{"store", events::Type::kStore}};
template <>
inline constexpr std::array kWords<events::Kind>{
    Word{"daemon", events::Kind::kDaemon}, Word{"dvs", events::Kind::kDvs}, Word{"host", events::Kind::kHost},
    Word{"vm", events::Kind::kVm}};

}  // namespace pvrdma
