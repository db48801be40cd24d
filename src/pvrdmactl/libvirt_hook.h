// "vm libvirt-hook": what libvirt's hook does before a domain starts. Thread: one; blocks.
#pragma once

#include <chrono>
#include <string>

#include "base/result.h"
#include "pvrdmactl/request.h"

namespace pvrdma::ctl {

// How long the daemon may take to start, as at boot or after an upgrade, and to serve an adapter that it has
// just been given.
inline constexpr std::chrono::seconds kServedWithin{10};

// Makes sure that the daemon serves the adapter of the VM that the domain's metadata names. Makes the VM, or
// its adapter, if there is none. Does nothing for a domain without such metadata. `domain` is the XML that
// libvirt gives to a hook. Each request has a time limit of some seconds.
//
// Errors, each one sentence for the person who starts the domain: those of vm_of_domain(); the daemon cannot
// be reached, is of another version, or refuses to make the VM; the VM is on another host, or may not be
// powered on; its adapter is not served, or has a MAC that no interface of the domain has.
Result<void> prepare_domain(const SendRequest& send, const std::string& domain,
                            std::chrono::milliseconds patience = kServedWithin);

}  // namespace pvrdma::ctl
