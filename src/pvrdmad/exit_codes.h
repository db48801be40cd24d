// The daemon's exit codes, documented in pvrdmad(8).
#pragma once

namespace pvrdma::daemon {

inline constexpr int kExitStopped = 0;  // stopped by a signal, or --check found no mistake
inline constexpr int kExitMistake =
    2;  // a mistake in the command line, the configuration or a socket: nothing was started
inline constexpr int kExitMistakeWithVms = 3;  // a mistake while VMs' adapters are kept for this service

}  // namespace pvrdma::daemon
