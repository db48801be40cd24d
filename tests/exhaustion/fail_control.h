// FailControl: what the test and fail_nth.cc inside the daemon tell each other, in a file that both map.
// Thread: all members are atomics.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pvrdma::test {

// What can fail at a site. Bits of FailControl::kinds.
enum class Call : std::uint32_t {
  kAllocation = 1,   // malloc and its like, and so operator new
  kMapping = 2,      // mmap
  kDescriptor = 4,   // what makes one: eventfd, memfd_create, socket, open
  kRegistering = 8,  // epoll_ctl to add a watch
  kMessage = 16,     // recvmsg, sendmsg
  kAccept = 32,      // accept4
};
inline constexpr std::uint32_t kAllCalls = 63;

// Whose calls fail. Bits of FailControl::threads.
enum class Thread : std::uint32_t { kShard = 1, kApi = 2, kCluster = 4, kPlane = 8, kStore = 16 };
// As a thread names itself: what its name begins with.
struct NamedThread {
  std::string_view name;
  Thread thread;
};
inline constexpr NamedThread kThreads[] = {{"shard", Thread::kShard},
                                           {"api", Thread::kApi},
                                           {"cluster", Thread::kCluster},
                                           {"plane", Thread::kPlane},
                                           {"store", Thread::kStore}};

inline constexpr std::size_t kSiteFrames = 24;

struct FailControl {
  std::atomic<std::uint32_t> armed;
  std::atomic<std::uint32_t> threads;
  std::atomic<std::uint32_t> kinds;
  std::atomic<std::uint64_t> sites;    // calls of those kinds that they made since it was armed
  std::atomic<std::uint64_t> fail_at;  // the first that fails; 0: none
  std::atomic<std::uint64_t> fail_count;
  std::atomic<std::uint64_t> failed;                       // how many failed
  std::atomic<std::uint32_t> failed_kind;                  // of the first
  std::atomic<std::uintptr_t> failed_frames[kSiteFrames];  // return addresses of the first, innermost first
};

}  // namespace pvrdma::test
