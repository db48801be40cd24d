// ConnectionPool: the connections of a Roce, found by engine and QP number. The constructor allocates all
// memory.
//
// Each connection counts against the budget of its adapter (Budget::kNatives). The budget of all adapters
// together is at most the size of the pool, so no adapter finds the pool full because of another one.
//
// A connection has several holders: its path, the next path of the same connection, which takes it over, and
// the code that hands it a packet. The last is necessary because the connection's path may be opened again
// while it answers.
//
// Thread: shard-owned.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "roce/connection_state.h"
#include "verbs/account.h"
#include "verbs/engine.h"
#include "verbs/queue_link.h"

namespace pvrdma::transport::roce {

class ConnectionPool {
 public:
  struct Entry {
    std::optional<pvrdma::roce::ConnectionState> connection;
    verbs::Account::Holding held;
    std::uint32_t holders = 0;
    Entry* next = nullptr;  // in its bucket, or in the free list
    verbs::QueueLink<Entry> busy_link{this};
  };

  explicit ConnectionPool(std::size_t connections_max)
      : entries_(connections_max), buckets_(std::bit_ceil(connections_max)) {
    for (std::size_t i = connections_max; i != 0; --i) {
      entries_[i - 1].next = free_;
      free_ = &entries_[i - 1];
    }
  }

  // Holds the connection between these ends: the existing one, or a new one. Null: a budget is used up, and
  // the account of the engine names it, or the pool is full.
  Entry* hold(verbs::Engine& engine, const verbs::Connection& ends, const Mac& mac,
              pvrdma::roce::Counters& counters) {
    Entry* entry = find(engine, ends.local.qpn);
    if (entry != nullptr && entry->connection->ends.connection == ends) {
      ++entry->holders;
      return entry;
    }
    auto held = engine.account().take(Budget::kNatives, 0);
    if (!held || free_ == nullptr) return nullptr;
    entry = free_;
    free_ = entry->next;
    Entry*& bucket = bucket_of(engine, ends.local.qpn);
    entry->next = bucket;
    bucket = entry;
    entry->connection.emplace(engine, ends, mac, counters);
    entry->held = *std::move(held);
    entry->holders = 1;
    return entry;
  }
  static void hold(Entry& entry) { ++entry.holders; }
  void let_go(Entry& entry) {
    if (--entry.holders != 0) return;
    entry.busy_link.unlink();
    Entry** at = &bucket_of(entry.connection->ends.engine, entry.connection->ends.connection.local.qpn);
    while (*at != &entry) at = &(*at)->next;
    *at = entry.next;
    entry.connection.reset();
    entry.held = {};
    entry.next = free_;
    free_ = &entry;
  }
  // The newest connection of that QP; null: the QP has no connection.
  Entry* find(const verbs::Engine& engine, verbs::Qpn qpn) {
    Entry* entry = bucket_of(engine, qpn);
    while (entry != nullptr && (&entry->connection->ends.engine != &engine ||
                                entry->connection->ends.connection.local.qpn != qpn)) {
      entry = entry->next;
    }
    return entry;
  }

 private:
  Entry*& bucket_of(const verbs::Engine& engine, verbs::Qpn qpn) {
    const std::uint64_t mixed =
        (reinterpret_cast<std::uintptr_t>(&engine) ^ qpn.value) * 0x9e37'79b9'7f4a'7c15ULL;
    return buckets_[mixed >> 32 & (buckets_.size() - 1)];
  }

  std::vector<Entry> entries_;
  std::vector<Entry*> buckets_;
  Entry* free_ = nullptr;
};

}  // namespace pvrdma::transport::roce
