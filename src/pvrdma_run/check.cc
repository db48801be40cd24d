#include "pvrdma_run/check.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fmt/core.h>
#include <string>
#include <sys/wait.h>

namespace pvrdma::run {
namespace {

struct Step {
  const char* what;
  const char* command;  // of a shell
  const char* remedy;
};

// The port is above those that the kernel gives to clients by itself.
constexpr std::array kSteps{
    Step{"the provider of the device is installed", "cat /etc/libibverbs.d/vmw_pvrdma.driver",
         "install the package ibverbs-providers"},
    Step{"programs to test with are installed", "command -v ibv_devinfo && command -v ibv_rc_pingpong",
         "install the package ibverbs-utils"},
    Step{"libibverbs lists the device", "ibv_devices | grep -q vmw_pvrdma0",
         "set PVRDMA_LOG=1 and run pvrdma-run ibv_devices"},
    Step{"the device opens, and its port is active", "ibv_devinfo | grep -q PORT_ACTIVE",
         "set PVRDMA_LOG=1 and run pvrdma-run ibv_devinfo"},
    Step{"two processes exchange messages",
         "port=$((61000 + $$ % 4000)); ibv_rc_pingpong -g 0 -p $port & "
         "for i in 1 2 3 4 5 6 7 8 9 10; do "
         "ibv_rc_pingpong -g 0 -p $port 127.0.0.1 && break; sleep 0.2; done && wait $!",
         "set PVRDMA_LOG=1 and run ibv_rc_pingpong by hand"},
};

}  // namespace

bool check_device() {
  for (const Step& step : kSteps) {
    const std::string command = fmt::format("timeout 20 sh -c '{}' >/dev/null 2>&1", step.command);
    const int status = std::system(command.c_str());
    if (status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      fmt::print("failed  {}: {}\n", step.what, step.remedy);
      return false;
    }
    fmt::print("ok      {}\n", step.what);
    std::fflush(stdout);
  }
  return true;
}

}  // namespace pvrdma::run
