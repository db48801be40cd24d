// Cores: the processors of this host, in the kernel's numbers, and binding threads to them. Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace pvrdma {

// Those that a thread of this process can be bound to, ascending: online and in its cpuset, whatever affinity
// the process was started with. Asks by a thread that it makes. Empty: the kernel does not tell.
std::vector<std::uint32_t> usable_cores();

// "0-3, 8". `cores` ascend.
std::string describe_cores(const std::vector<std::uint32_t>& cores);

// From now on `thread`, which runs, runs there only. Errors: EINVAL: none of usable_cores().
Result<void> bind_to_core(std::thread& thread, std::uint32_t core);

}  // namespace pvrdma
