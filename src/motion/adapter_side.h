// AdapterSide: the requests that an upgrade of QEMU, a checkpoint and a motion make to the thread that serves
// the VM's adapter.
//
// Every call blocks for a bounded time. Errors of every call: kNotFound: there is no such adapter;
// kUnavailable: the shard is stopping or did not answer in time.
//
// Thread: any but the shard's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "vmm/pci.h"
#include "vocabulary/switched_over.h"

namespace pvrdma::motion {

class AdapterSide {
 public:
  virtual ~AdapterSide() = default;

  enum class Successor : std::uint8_t {
    kNone,
    kExpected,
    kIsHere,  // and has agreed on the protocol version
  };
  struct Clients {
    bool has_vmm = false;    // the adapter's VMM has not closed its connection
    bool awaits_vm = false;  // the adapter waits for a VM from another host, and a VMM has connected
    Successor successor = Successor::kNone;
  };
  virtual Result<Clients> clients(const std::string& adapter) = 0;

  // --- The PCI state, which the VMM keeps ---

  enum class Vmm : bool { kOwn, kSuccessor };
  // The adapter's PCI state as its VMM has it. It lacks the MSI-X table while the guest has switched memory
  // decoding or bus mastering off, because the VMM lets nobody read the table then.
  virtual Result<vmm::PciImage> pci_image(const std::string& adapter) = 0;
  virtual Result<void> write_msix_table(const std::string& adapter, Vmm vmm, const vmm::PciImage& image) = 0;
  // Checks that this VMM has the PCI state `image`. The adapter's own VMM must have assigned a vector for
  // each entry that is not masked; the successor must have as many vectors as the adapter. The error names
  // the first difference.
  virtual Result<void> check_pci(const std::string& adapter, Vmm vmm, const vmm::PciImage& image) = 0;

  // --- Another VMM on this host ---

  // From now on the next client of the adapter's socket becomes the successor of its VMM. kConflict: the VM
  // is off, no client is let in, or a successor is expected already or connected.
  virtual Result<void> expect_successor(const std::string& adapter) = 0;
  // Gives the guest's adapter, with all connections, to the successor. The VMM that had it becomes the
  // successor, so a second call undoes the first. The guest must be paused. After an error nothing has
  // changed.
  virtual Result<SwitchedOver> switch_over(const std::string& adapter) = 0;
  // Disconnects the VMM that is the successor now.
  virtual Result<void> end_successor(const std::string& adapter) = 0;

  // --- A paused VM ---

  // From now on the daemon changes nothing that belongs to the guest. The guest's link does not change; its
  // peers retransmit.
  // kConflict: the VM is off, or its VMM migrates the adapter itself or has a successor.
  virtual Result<void> stop(const std::string& adapter) = 0;
  // Lets a stopped adapter work again.
  virtual Result<void> go_on(const std::string& adapter) = 0;
  // The guest runs in another VMM now. Tells it to look for completions and events that came in the meantime.
  virtual Result<void> resume(const std::string& adapter) = 0;

  static constexpr std::size_t kStateBytesMax = 64u << 20;
  enum class Save : bool {
    kState,  // of a stopped adapter
    kDraft,  // of a working adapter, which goes on working: a trial version of its later state
  };
  // The adapter as bytes, including the PCI state `image`. Errors: EPIPE: it is not stopped; E2BIG: the state
  // is larger than kStateBytesMax.
  virtual Result<std::vector<std::byte>> save(const std::string& adapter, Save what,
                                              const vmm::PciImage& image) = 0;
  // Loads the saved state into the adapter of a VM that has not started; the adapter is stopped then. Returns
  // the PCI state that was saved. After an error nothing has changed. kInvalid: device::Adapter::load()
  // refuses the state; other errors as for stop().
  virtual Result<vmm::PciImage> load(const std::string& adapter, std::vector<std::byte> state) = 0;
  // Undoes load(): the adapter is again that of a VM that has not started.
  virtual Result<void> unload(const std::string& adapter) = 0;

  // --- A VM that leaves this host ---

  // From now on the pages that the adapter writes are logged. kConflict: its VMM logs them already.
  virtual Result<void> begin_log(const std::string& adapter) = 0;
  virtual Result<void> end_log(const std::string& adapter) = 0;
  // The size of the logged pages together.
  virtual Result<std::uint64_t> logged_bytes(const std::string& adapter) = 0;
  // Has the VMM write each logged page with its own contents, so that QEMU copies it, and empties the log.
  // Neither the guest nor the adapter may run. Returns when the VMM has written all of them.
  virtual Result<void> mark_pages(const std::string& adapter) = 0;
  struct Pages {
    std::uint64_t address = 0;  // guest-physical
    std::vector<std::byte> bytes;
  };
  static constexpr std::size_t kPagesBytesMax = 1u << 20;
  using TakePages = std::function<Result<void>(const Pages& pages)>;
  // Gives the logged pages to `take` instead, adjacent ones together, and empties the log. Further errors:
  // those that `take` returns; EFAULT: some pages are not RAM any more.
  virtual Result<void> give_pages(const std::string& adapter, const TakePages& take) = 0;
  // For a VMM that libvirt leads. If the VMM ends, the adapter is stopped and keeps its state and the VMM's
  // memory. A stopped adapter starts again when the guest does. A later stop() may find it stopped already.
  virtual Result<void> outlive_vmm(const std::string& adapter) = 0;
  // Undoes outlive_vmm(): if the VMM has ended, the adapter ends too.
  virtual Result<void> end_with_vmm(const std::string& adapter) = 0;
  // The VM belongs to the other host now.
  virtual Result<void> depart(const std::string& adapter) = 0;

  // --- A VM that comes to this host ---

  // Writes pages that the adapter had written on the other host. EFAULT: there is no such RAM here.
  virtual Result<void> put_pages(const std::string& adapter, Pages pages) = 0;
  // The VM belongs to this host now: its adapter works.
  virtual Result<void> arrive(const std::string& adapter) = 0;
  // Sends all unanswered packets again: the first ones may have reached a peer before the peer knew where the
  // VM is.
  virtual Result<void> nudge(const std::string& adapter) = 0;
};

}  // namespace pvrdma::motion
