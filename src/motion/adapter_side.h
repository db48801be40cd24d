// AdapterSide: what a change of QEMU, a checkpoint and a motion ask of the thread that serves the VM's
// adapter.
//
// Every call blocks for a bounded time. Errors of all of them: ENOENT: no such adapter; otherwise the shard
// is stopping or did not answer in time.
//
// Thread: any but the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "vmm/pci.h"

namespace pvrdma::motion {

class AdapterSide {
 public:
  virtual ~AdapterSide() = default;

  enum class Successor : std::uint8_t {
    kNone,
    kExpected,
    kIsHere,  // and has agreed upon the version
  };
  struct Clients {
    bool has_vmm = false;    // the adapter's VMM has not closed its end
    bool awaits_vm = false;  // the adapter's VM is to come from another host,
                             // and its VMM is here
    Successor successor = Successor::kNone;
  };
  virtual Result<Clients> clients(const std::string& adapter) = 0;

  // --- The PCI state, which the VMM keeps ---

  enum class Vmm : bool { kOwn, kSuccessor };
  // The adapter's PCI state as its VMM has it. It lacks the MSI-X table while the guest has memory decoding
  // or bus mastering off: the VMM lets nobody read the table then.
  virtual Result<vmm::PciImage> pci_image(const std::string& adapter) = 0;
  virtual Result<void> write_msix_table(const std::string& adapter, Vmm vmm, const vmm::PciImage& image) = 0;
  // Whether that VMM has this PCI state. The adapter's own must have assigned a vector for each that is not
  // masked; the successor as many vectors as the adapter has. Error: the first difference.
  virtual Result<void> check_pci(const std::string& adapter, Vmm vmm, const vmm::PciImage& image) = 0;

  // --- Another VMM on this host ---

  // From now on the next client of the adapter's socket becomes its successor. Errors: EPERM: the VM is off,
  // or no client is let in; EBUSY: a successor is expected, or here.
  virtual Result<void> expect_successor(const std::string& adapter) = 0;
  struct SwitchedOver {
    std::uint64_t state_bytes = 0;
    Duration took{};
  };
  // The guest's adapter, with all connections, becomes the successor's, and the VMM that had it becomes the
  // successor: a second call undoes the first. The guest does not run. After an error all is as before.
  virtual Result<SwitchedOver> switch_over(const std::string& adapter) = 0;
  // Disconnects the successor, whichever of the two VMMs it is.
  virtual Result<void> end_successor(const std::string& adapter) = 0;

  // --- A VM that is paused ---

  // From now on nothing of the guest's changes here. The guest sees its link as before; its peers repeat.
  // Errors: EPERM: the VM is off; EBUSY: the VMM moves it, or has a successor.
  virtual Result<void> stop(const std::string& adapter) = 0;
  // A stopped adapter works again.
  virtual Result<void> go_on(const std::string& adapter) = 0;
  // The guest runs in another VMM now, and is told to look at what came meanwhile.
  virtual Result<void> resume(const std::string& adapter) = 0;

  static constexpr std::size_t kStateBytesMax = 64u << 20;
  enum class Save : bool {
    kState,  // of a stopped adapter
    kDraft,  // of one that works, and goes on working: like the state that it
             // will have
  };
  // The adapter as bytes, with that PCI state. Errors: EPIPE: it is not stopped; E2BIG: it has more than
  // kStateBytesMax.
  virtual Result<std::vector<std::byte>> save(const std::string& adapter, Save what,
                                              const vmm::PciImage& image) = 0;
  // The adapter of a VM that has not begun becomes the saved one, and is stopped. Returns the PCI state that
  // was saved. Errors, after which all is as before: EINVAL: what device::Adapter::load() refuses; as stop().
  virtual Result<vmm::PciImage> load(const std::string& adapter, std::vector<std::byte> state) = 0;
  // Undoes load(): the adapter is again that of a VM that has not begun.
  virtual Result<void> unload(const std::string& adapter) = 0;

  // --- A VM that leaves this host ---

  // From now on the pages that the adapter writes are logged. EBUSY: its VMM has them logged.
  virtual Result<void> begin_log(const std::string& adapter) = 0;
  virtual Result<void> end_log(const std::string& adapter) = 0;
  // Of the logged pages.
  virtual Result<std::uint64_t> logged_bytes(const std::string& adapter) = 0;
  // Has the VMM write the logged pages, each with what it holds, and empties the log. Neither the guest nor
  // the adapter runs. Returns when the VMM has written all of them.
  virtual Result<void> mark_pages(const std::string& adapter) = 0;
  struct Pages {
    std::uint64_t address = 0;  // guest-physical
    std::vector<std::byte> bytes;
  };
  static constexpr std::size_t kPagesBytesMax = 1u << 20;
  using TakePages = std::function<Result<void>(const Pages& pages)>;
  // Gives the logged pages to `take` instead, neighbours together, and empties the log. Errors, besides: what
  // `take` returns; EFAULT: some are no RAM any more.
  virtual Result<void> give_pages(const std::string& adapter, const TakePages& take) = 0;
  // For a VMM that another program leads. When the VMM goes, the adapter is stopped and keeps its state and
  // the VMM's memory. A stopped adapter goes on when the guest does. stop() may find it stopped.
  virtual Result<void> outlive_vmm(const std::string& adapter) = 0;
  // Undoes outlive_vmm(): an adapter whose VMM has gone ends.
  virtual Result<void> end_with_vmm(const std::string& adapter) = 0;
  // The VM is the other host's.
  virtual Result<void> depart(const std::string& adapter) = 0;

  // --- A VM that comes to this host ---

  // Writes what the adapter had written on the other host. EFAULT: there is no such RAM here.
  virtual Result<void> put_pages(const std::string& adapter, Pages pages) = 0;
  // The VM is this host's: its adapter works.
  virtual Result<void> arrive(const std::string& adapter) = 0;
  // Sends again what is not answered: it may have reached a peer before the news of where the VM is.
  virtual Result<void> nudge(const std::string& adapter) = 0;
};

}  // namespace pvrdma::motion
