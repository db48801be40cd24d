#include "pvrdmad/sandbox.h"

#include <cstdint>
#include <fcntl.h>
#include <initializer_list>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/rules.h"

namespace pvrdma::daemon {
namespace {

using sandbox::is;
using sandbox::is_masked;
using sandbox::Rules;

constexpr int kFileWriters[] = {SCMP_SYS(fsync),     SCMP_SYS(fdatasync), SCMP_SYS(sync_file_range),
                                SCMP_SYS(flock),     SCMP_SYS(rename),    SCMP_SYS(renameat),
                                SCMP_SYS(renameat2), SCMP_SYS(rmdir),     SCMP_SYS(utimensat)};

constexpr int kOwnersAndModes[] = {SCMP_SYS(chmod),  SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(chown),
                                   SCMP_SYS(fchown), SCMP_SYS(lchown), SCMP_SYS(fchownat), SCMP_SYS(umask)};

constexpr int kFolderMakers[] = {SCMP_SYS(mkdir), SCMP_SYS(mkdirat)};

constexpr std::uint64_t kMakesFiles = O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);
constexpr std::uint64_t kIdMask = 0xffffffff;   // of users and groups
constexpr std::uint64_t kSocketTypeMask = 0xf;  // the other bits of the type argument are flags

void allow_sockets(Rules& rules) {
  for (const auto family : std::initializer_list<std::uint64_t>{AF_INET, AF_INET6}) {
    for (const std::uint64_t type : {SOCK_STREAM, SOCK_DGRAM}) {
      rules.allow_if(SCMP_SYS(socket), {is(0, family), is_masked(1, kSocketTypeMask, type)});
    }
  }
  // NETLINK_ROUTE: resolving host names (which addresses this host has). NETLINK_RDMA: RDMA devices.
  for (const auto protocol : std::initializer_list<std::uint64_t>{NETLINK_ROUTE, NETLINK_RDMA}) {
    rules.allow_if(SCMP_SYS(socket), {is(0, AF_NETLINK), is(2, protocol)});
  }
}

void allow_opening(Rules& rules, const SandboxNeeds& needs) {
  if (!needs.write_files && !needs.open_devices) return;  // what it reads is allowed already
  const std::uint64_t must_be_clear = needs.write_files ? 0 : kMakesFiles;
  rules.allow_if(SCMP_SYS(open), {is_masked(1, must_be_clear, 0)});
  rules.allow_if(SCMP_SYS(openat), {is_masked(2, must_be_clear, 0)});
}

void allow_ioctls(Rules& rules, const SandboxNeeds& needs) {
  if (needs.find_links) {
    rules.allow_if(SCMP_SYS(ioctl), {is(1, SIOCGIFFLAGS)});
    rules.allow_if(SCMP_SYS(ioctl), {is(1, SIOCGIFMTU)});
  }
  if (needs.take_taps) rules.allow_if(SCMP_SYS(ioctl), {is(1, TUNSETIFF)});
  if (!needs.open_devices) return;
  for (const std::uint64_t request : {std::uint64_t{SIOCGIFNAME}, std::uint64_t{SIOCGIFINDEX},
                                      std::uint64_t{SIOCGIFFLAGS}, std::uint64_t{RDMA_VERBS_IOCTL}}) {
    rules.allow_if(SCMP_SYS(ioctl), {is(1, request)});
  }
}

// The daemon makes itself the owner of the monitor of a VMM that runs as another user (base/unix_client.h).
void allow_own_files(Rules& rules) {
  rules.allow_if(SCMP_SYS(fchownat),
                 {is_masked(2, kIdMask, ::geteuid()), is_masked(3, kIdMask, ~gid_t{}), is(4, AT_EMPTY_PATH)});
}

void add_rules(Rules& rules, const SandboxNeeds& needs) {
  sandbox::allow_serving(rules);
  allow_sockets(rules);
  allow_opening(rules, needs);
  allow_ioctls(rules, needs);
  allow_own_files(rules);
  if (needs.write_files) rules.allow(kFileWriters);
  if (!needs.write_files && !needs.bind_sockets) return;
  rules.allow(kOwnersAndModes);
  rules.allow(kFolderMakers);
}

}  // namespace

Result<sandbox::Confinement> enter_sandbox(const SandboxNeeds& needs) {
  return sandbox::enter(
      {.refusal = "pvrdmad: sandbox: refused system call", .way_out = "see sandbox in [daemon]"},
      [&needs](Rules& rules) { add_rules(rules, needs); });
}

}  // namespace pvrdma::daemon
