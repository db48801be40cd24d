#include "moves/shard_side.h"

#include <cerrno>
#include <fmt/core.h>
#include <memory>
#include <utility>

#include "guestmem/copy.h"
#include "moves/logged_pages.h"
#include "state/writer.h"
#include "vfio_user/session.h"
#include "vmm/vm_monitors.h"

namespace pvrdma::moves {
namespace {

// Pages that are still in the log at the end belong to memory that the VMM has unmapped since.
Result<motion::AdapterSide::Pages> next_pages(adapters::ServedAdapter& served, LoggedPages& logged) {
  if (!served.adapter().is_stopped())
    return fail(EPIPE, fmt::format("adapter {} works again: its guest goes on", served.port().name()));
  guestmem::AddressSpace& memory = served.seated().adapter().memory();
  const auto vanished = [&] {
    return fail(EFAULT,
                fmt::format("adapter {}: memory that it has written has vanished", served.port().name()));
  };
  const auto run = logged.next(memory, motion::AdapterSide::kPagesBytesMax);
  if (!run) return Failure(run.error());
  motion::AdapterSide::Pages pages;
  if (!*run) return memory.logged_pages() == 0 ? Result<motion::AdapterSide::Pages>(pages) : vanished();
  pages.address = (*run)->begin.value;
  pages.bytes.resize((*run)->page_count * guestmem::kPageBytes);
  if (!guestmem::read(memory, (*run)->begin, pages.bytes)) return vanished();
  return pages;
}

}  // namespace

Result<std::string> ShardSide::socket(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) -> Result<std::string> { return served.socket(); });
}

Result<std::string> ShardSide::monitor(const std::string& adapter) {
  const auto path = socket(adapter);
  if (!path) return Failure(path.error());
  return vmm::monitors_in_use(vmm::monitors_beside(*path)).current;
}

Result<ShardSide::Clients> ShardSide::clients(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) -> Result<Clients> {
    Clients clients{.has_vmm = served.has_client() && !served.seated().seat().client_hung_up(),
                    .awaits_vm = served.port().waits() && served.seated().seat().established()};
    if (served.successor() != nullptr)
      clients.successor =
          served.successor()->seat().established() ? Successor::kIsHere : Successor::kExpected;
    return clients;
  });
}

Result<vmm::PciImage> ShardSide::pci_image(const std::string& adapter) {
  return pci_.image(adapter, Vmm::kOwn);
}

Result<void> ShardSide::write_msix_table(const std::string& adapter, Vmm vmm, const vmm::PciImage& image) {
  return pci_.write_msix_table(adapter, vmm, image);
}

Result<void> ShardSide::check_pci(const std::string& adapter, Vmm vmm, const vmm::PciImage& image) {
  return pci_.check(adapter, vmm, image);
}

Result<void> ShardSide::expect_successor(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) { return served.expect_successor(); });
}

Result<SwitchedOver> ShardSide::switch_over(const std::string& adapter) {
  return on(adapter,
            [now = &clock_](adapters::ServedAdapter& served) { return served.switch_over(now->now()); });
}

Result<void> ShardSide::end_successor(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.end_successor();
    return {};
  });
}

Result<void> ShardSide::stop(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) { return served.stop(); });
}

Result<void> ShardSide::go_on(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.go_on();
    return {};
  });
}

Result<void> ShardSide::resume(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.seated().adapter().resume(device::Adapter::Vmm::kAnother);
    return {};
  });
}

Result<std::vector<std::byte>> ShardSide::save(const std::string& adapter, Save what,
                                               const vmm::PciImage& image) {
  using Bytes = std::vector<std::byte>;
  auto saved =
      on(adapter,
         [now = &clock_, table = image.msix_table, what](adapters::ServedAdapter& served) -> Result<Bytes> {
           if (what == Save::kState && !served.adapter().is_stopped())
             return fail(EPIPE, fmt::format("adapter {} works again: its VMM has left, or resumed it",
                                            served.port().name()));
           state::Writer writer;
           served.adapter().save(writer, table, now->now());
           return writer.finish();
         });
  if (saved && saved->size() > kStateBytesMax) {
    return fail(E2BIG, fmt::format("the state of adapter {} has {} bytes, more than {}", adapter,
                                   saved->size(), kStateBytesMax));
  }
  return saved;
}

Result<vmm::PciImage> ShardSide::load(const std::string& adapter, std::vector<std::byte> state) {
  return on(adapter, [state = std::move(state)](adapters::ServedAdapter& served) -> Result<vmm::PciImage> {
    if (auto stopped = served.stop(); !stopped) return Failure(std::move(stopped).error());
    const auto pci = served.seated().adapter().load_stopped(state);
    if (!pci) {
      served.go_on();
      return fail(ErrorKind::kInvalid, fmt::format("adapter {} cannot go on from this state: {}",
                                                   served.port().name(), pci.error().message));
    }
    return image_of(*pci);
  });
}

Result<void> ShardSide::unload(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    if (served.adapter().is_stopped()) served.seated().adapter().unload();
    served.go_on();
    return {};
  });
}

Result<void> ShardSide::begin_log(const std::string& adapter) {
  return on(adapter, [adapter](adapters::ServedAdapter& served) -> Result<void> {
    auto begun = served.seated().adapter().memory().start_log();
    if (begun || begun.error().code != EBUSY) return begun;
    return fail(
        ErrorKind::kConflict,
        fmt::format("adapter {}: its VMM already logs the pages that it writes: wait until that is over",
                    adapter));
  });
}

Result<void> ShardSide::end_log(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.seated().adapter().memory().stop_log();
    return {};
  });
}

Result<std::uint64_t> ShardSide::logged_bytes(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) -> Result<std::uint64_t> {
    return served.seated().adapter().memory().logged_pages() * guestmem::kPageBytes;
  });
}

// If a write were still under way when the guest runs again, it would put old bytes over the guest's new
// ones.
Result<void> ShardSide::mark_pages(const std::string& adapter) {
  const auto marks = std::make_shared<PageMarks>();
  auto marked = send_marks(adapter, marks);
  const Instant until = Instant::now() + vfio_user::Session::kRequestTimeLimit + adapters::kShardPatience;
  if (marked || marks->drain(until)) return marked;
  static_cast<void>(on(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.drop_client("it does not answer, and would write old pages over new ones");
    return {};
  }));
  return marked;
}

Result<void> ShardSide::send_marks(const std::string& adapter, const std::shared_ptr<PageMarks>& marks) {
  while (true) {
    const auto state =
        on(adapter, [marks](adapters::ServedAdapter& served) { return marks->step(served.seated()); });
    if (!state) return Failure(state.error());
    const bool sent = *state == PageMarks::State::kSent;
    const Instant until = Instant::now() + vfio_user::Session::kRequestTimeLimit + adapters::kShardPatience;
    if (auto done = marks->wait(sent, until); !done) return done;
    if (sent) return {};
  }
}

Result<void> ShardSide::give_pages(const std::string& adapter, const TakePages& take) {
  const auto logged = std::make_shared<LoggedPages>();
  while (true) {
    const auto pages =
        on(adapter, [logged](adapters::ServedAdapter& served) { return next_pages(served, *logged); });
    if (!pages) return Failure(pages.error());
    if (pages->bytes.empty()) return {};
    if (auto taken = take(*pages); !taken) return taken;
  }
}

Result<void> ShardSide::outlive_vmm(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.outlive_client(true);
    return {};
  });
}

Result<void> ShardSide::end_with_vmm(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.outlive_client(false);
    return {};
  });
}

Result<void> ShardSide::depart(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.depart();
    return {};
  });
}

Result<void> ShardSide::put_pages(const std::string& adapter, Pages pages) {
  return on(adapter, [pages = std::move(pages)](adapters::ServedAdapter& served) -> Result<void> {
    const guestmem::AddressSpace& memory = served.seated().adapter().memory();
    if (guestmem::write(memory, guestmem::GuestPhys{pages.address}, pages.bytes)) return {};
    return fail(EFAULT, fmt::format("adapter {}: its VM has no memory here for {} bytes at {:#x}",
                                    served.port().name(), pages.bytes.size(), pages.address));
  });
}

Result<void> ShardSide::arrive(const std::string& adapter) {
  return on(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.arrive();
    return {};
  });
}

Result<void> ShardSide::nudge(const std::string& adapter) {
  return on(adapter, [now = &clock_](adapters::ServedAdapter& served) -> Result<void> {
    served.seated().adapter().engine().on_all_paths_restored(now->now());
    return {};
  });
}

}  // namespace pvrdma::moves
