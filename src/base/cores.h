// Cores: the processors of this host, in the kernel's numbers, and binding threads to them. Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace pvrdma {

// The cores to which a thread of this process can be bound, ascending: those that are online and in its
// cpuset, whatever affinity the process was started with. Asks the kernel from a new thread. Empty: the
// kernel gave no answer.
std::vector<std::uint32_t> usable_cores();

// "0-3, 8". `cores` ascend.
std::string describe_cores(const std::vector<std::uint32_t>& cores);

// Binds the running `thread` to `core`. Errors: EINVAL: `core` is not in usable_cores().
Result<void> bind_to_core(std::thread& thread, std::uint32_t core);

}  // namespace pvrdma
