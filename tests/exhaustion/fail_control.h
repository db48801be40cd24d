// FailControl: how the test and fail_nth.cc inside the daemon communicate: a file that both map. Thread: all
// members are atomics.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pvrdma::test {

// The kinds of calls that can fail. Bits of FailControl::kinds.
enum class Call : std::uint32_t {
  kAllocation = 1,   // malloc and related functions, and so operator new
  kMapping = 2,      // mmap
  kDescriptor = 4,   // calls that make one: eventfd, memfd_create, socket, open
  kRegistering = 8,  // epoll_ctl to add a watch
  kMessage = 16,     // recvmsg, sendmsg
  kAccept = 32,      // accept4
};
inline constexpr std::uint32_t kAllCalls = 63;

// The threads whose calls fail. Bits of FailControl::threads.
enum class Thread : std::uint32_t { kShard = 1, kApi = 2, kCluster = 4, kPlane = 8, kStore = 16 };
// A thread and the beginning of its name.
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
  std::atomic<std::uint64_t> sites;    // calls of those kinds in those threads since it was armed
  std::atomic<std::uint64_t> fail_at;  // the first call that fails; 0: none
  std::atomic<std::uint64_t> fail_count;
  std::atomic<std::uint64_t> failed;       // number of failed calls
  std::atomic<std::uint32_t> failed_kind;  // kind of the first failed call
  // Return addresses of the first failed call, innermost first.
  std::atomic<std::uintptr_t> failed_frames[kSiteFrames];
};

}  // namespace pvrdma::test
