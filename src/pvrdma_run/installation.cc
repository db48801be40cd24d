#include "pvrdma_run/installation.h"

#include <dlfcn.h>
#include <filesystem>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <initializer_list>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace pvrdma::run {
namespace {

namespace fs = std::filesystem;

// Searches folders relative to this program's own.
Result<std::string> find(const fs::path& own, const char* name, std::initializer_list<const char*> folders) {
  std::vector<std::string> tried;
  for (const char* folder : folders) {
    const fs::path path = (own / folder / name).lexically_normal();
    if (::access(path.c_str(), R_OK) == 0) return path.string();
    tried.push_back(path.string());
  }
  return fail(fmt::format("{} is missing: it should be one of {}", name, fmt::join(tried, ", ")));
}

// by-libc/$LIB has a library for each libc (preload/CMakeLists.txt) if the one for musl was built. dlopen()
// replaces $LIB as glibc's loader does for LD_PRELOAD.
std::string for_each_libc(const fs::path& library) {
  const std::string path = library.parent_path() / "by-libc/$LIB" / library.filename();
  return ::dlopen(path.c_str(), RTLD_LAZY) != nullptr ? path : library.string();
}

}  // namespace

Result<Installation> find_installation() {
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (error) return fail_errno(error.value(), "reading /proc/self/exe");
  auto daemon = find(own, "pvrdmad", {"../sbin", "../pvrdmad", "."});
  if (!daemon) return Failure(daemon.error());
  auto standin = find(own, "pvrdma-standin", {"../sbin", "../pvrdma_standin", "."});
  if (!standin) return Failure(standin.error());
  auto library = find(own, "libpvrdma-preload.so", {"../" PVRDMA_LIBRARY_FOLDER, "../preload", "."});
  if (!library) return Failure(library.error());
  if (library->find_first_of(" :") != std::string::npos)
    return fail(fmt::format(
        "LD_PRELOAD cannot name {}, because of a space or colon in its path: put this installation into "
        "another folder",
        *library));
  return Installation{*std::move(daemon), *std::move(standin), for_each_libc(*library)};
}

}  // namespace pvrdma::run
