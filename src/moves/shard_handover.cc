#include "moves/shard_handover.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <fmt/core.h>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "guestmem/copy.h"
#include "moves/logged_pages.h"
#include "moves/page_marks.h"
#include "shard/ask.h"
#include "state/writer.h"
#include "vfio_user/session.h"

namespace pvrdma::moves {
namespace {

constexpr Duration kPatience = std::chrono::seconds(2);

static_assert(sizeof(device::MsixTable) == vmm::kMsixTableBytes);

// What the shard is told by a VMM, and who asked waits for.
struct Reply {
  std::mutex mutex;
  std::condition_variable arrived;
  bool is_there = false;  // guarded by mutex, as what follows
  int error = 0;
  device::MsixTable table{};
};

vmm::PciImage image_of(const device::PciState& pci) {
  return {pci.config, pci.has_msix_table, pci.msix_table};
}

device::PciState state_of(const vmm::PciImage& image) {
  return {image.config, image.has_msix_table, image.msix_table};
}

// What is left in the log at the end is what the VMM has taken away since.
Result<motion::MovingSide::Pages> next_pages(adapters::ServedAdapter& served, LoggedPages& logged) {
  if (!served.adapter().is_stopped())
    return fail(EPIPE, fmt::format("adapter {} works again: its guest goes on", served.port().name()));
  guestmem::AddressSpace& memory = served.seated().adapter().memory();
  const auto vanished = [&] {
    return fail(EFAULT,
                fmt::format("adapter {}: memory that it has written has vanished", served.port().name()));
  };
  const auto run = logged.next(memory, motion::MovingSide::kPagesBytesMax);
  if (!run) return Failure(run.error());
  motion::MovingSide::Pages pages;
  if (!*run) return memory.logged_pages() == 0 ? Result<motion::MovingSide::Pages>(pages) : vanished();
  pages.address = (*run)->begin.value;
  pages.bytes.resize((*run)->page_count * guestmem::kPageBytes);
  if (!guestmem::read(memory, (*run)->begin, pages.bytes)) return vanished();
  return pages;
}

}  // namespace

template <typename Work>
auto ShardHandover::on_adapter(const std::string& adapter, Work work) {
  using Answer = std::invoke_result_t<Work, adapters::ServedAdapter&>;
  auto answer = shard::ask(
      loop_, kPatience,
      [&adapters = adapters_, adapter, work = std::move(work)]() mutable -> Answer {
        const auto& all = adapters.adapters();
        const auto it =
            std::ranges::find_if(all, [&](const auto& each) { return each->port().name() == adapter; });
        if (it == all.end())
          return fail(ENOENT, "there is no adapter " + adapter + " on this host: see the list of adapters");
        return work(**it);
      },
      "a hand-over");
  return answer ? *std::move(answer) : Answer(Failure(std::move(answer).error()));
}

Result<std::string> ShardHandover::socket(const std::string& adapter) {
  return on_adapter(adapter,
                    [](adapters::ServedAdapter& served) -> Result<std::string> { return served.socket(); });
}

Result<void> ShardHandover::expect_successor(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) { return served.expect_successor(); });
}

Result<bool> ShardHandover::successor_is_here(const std::string& adapter) {
  return on_adapter(adapter, [adapter](adapters::ServedAdapter& served) -> Result<bool> {
    if (served.successor() == nullptr)
      return fail(EPIPE, fmt::format("the VMM of adapter {} has left: the VM is off", adapter));
    return served.successor()->seat().established();
  });
}

Result<device::PciState> ShardHandover::pci_state(const std::string& adapter, Who who) {
  auto pci = on_adapter(adapter, [adapter, who](adapters::ServedAdapter& served) -> Result<device::PciState> {
    if (who == Who::kAdapter) return served.adapter().pci_state(std::nullopt);
    if (served.successor() == nullptr)
      return fail(EPIPE, fmt::format("adapter {}: the new VMM has left", adapter));
    return served.successor()->adapter().pci_state(std::nullopt);
  });
  if (!pci || !device::msix_table_address(*pci)) return pci;
  const auto table = exchange_table(adapter, who, nullptr);
  if (!table) return Failure(table.error());
  pci->has_msix_table = true;
  pci->msix_table = *table;
  return pci;
}

// The VMM answers accesses to the guest-physical address of a BAR as the guest's.
Result<device::MsixTable> ShardHandover::exchange_table(const std::string& adapter, Who who,
                                                        const device::MsixTable* written) {
  auto reply = std::make_shared<Reply>();
  const auto done = [reply](int error, std::span<const std::byte> data) {
    {
      const std::lock_guard lock(reply->mutex);
      reply->is_there = true;
      reply->error = error;
      std::copy_n(data.begin(), std::min(data.size(), reply->table.size()),
                  std::as_writable_bytes(std::span(reply->table)).begin());
    }
    reply->arrived.notify_one();
  };
  const std::optional<device::MsixTable> table = written != nullptr ? std::optional(*written) : std::nullopt;
  const auto asked =
      on_adapter(adapter, [adapter, who, table, done](adapters::ServedAdapter& served) -> Result<void> {
        adapters::SeatedAdapter* const seated = who == Who::kAdapter ? &served.seated() : served.successor();
        if (seated == nullptr) return fail(EPIPE, fmt::format("adapter {}: the new VMM has left", adapter));
        const auto address = device::msix_table_address(seated->adapter().pci_state(std::nullopt));
        if (!address)
          return fail(EIO, fmt::format("adapter {}: its VMM has the MSI-X table nowhere", adapter));
        auto sent = table ? seated->seat().dma_write(*address, std::as_bytes(std::span(*table)), done)
                          : seated->seat().dma_read(*address, vmm::kMsixTableBytes, done);
        seated->follow();
        return sent;
      });
  if (!asked) return Failure(asked.error());
  std::unique_lock lock(reply->mutex);
  const bool came = reply->arrived.wait_for(lock, vfio_user::Session::kRequestTimeLimit + kPatience,
                                            [&reply] { return reply->is_there; });
  lock.unlock();
  if (!came) return fail(ETIMEDOUT, "the shard did not answer in time: it is overloaded or stuck");
  if (reply->error != 0) {  // nobody writes it any more
    return fail(reply->error, fmt::format("adapter {}: its VMM does not let the MSI-X table be {}: {}",
                                          adapter, written != nullptr ? "written" : "read",
                                          std::generic_category().message(reply->error)));
  }
  return reply->table;
}

Result<vmm::PciImage> ShardHandover::pci_image(const std::string& adapter) {
  const auto pci = pci_state(adapter, Who::kAdapter);
  if (!pci) return Failure(pci.error());
  return image_of(*pci);
}

Result<void> ShardHandover::write_msix_table(const std::string& adapter, const vmm::PciImage& image) {
  const auto written = exchange_table(adapter, Who::kSuccessor, &image.msix_table);
  if (!written) return Failure(written.error());
  return {};
}

Result<void> ShardHandover::check(const std::string& adapter, Who who, const vmm::PciImage& image) {
  const auto here = pci_state(adapter, who);
  if (!here) return Failure(here.error());
  if (const auto other = device::difference(*here, state_of(image)))
    return fail(EIO, fmt::format("adapter {}: the new VMM has another PCI state: {}", adapter, *other));
  return {};
}

Result<void> ShardHandover::check_successor(const std::string& adapter, const vmm::PciImage& image) {
  if (auto same = check(adapter, Who::kSuccessor, image); !same) return same;
  return on_adapter(adapter, [adapter](adapters::ServedAdapter& served) -> Result<void> {
    if (served.successor() == nullptr)
      return fail(EPIPE, fmt::format("adapter {}: the new VMM has left", adapter));
    const std::uint32_t has = served.successor()->adapter().vectors_assigned();
    const std::uint32_t had = served.adapter().vectors_assigned();
    if (has == had) return {};
    return fail(EIO, fmt::format("adapter {}: the new VMM has given {} interrupt vectors, the old one {}",
                                 adapter, has, had));
  });
}

Result<motion::AdapterSide::SwitchedOver> ShardHandover::switch_over(const std::string& adapter) {
  return on_adapter(adapter, [now = &clock_](adapters::ServedAdapter& served) -> Result<SwitchedOver> {
    const auto switched = served.switch_over(now->now());
    if (!switched) return Failure(switched.error());
    return SwitchedOver{switched->state_bytes, switched->took};
  });
}

Result<void> ShardHandover::resume(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.seated().adapter().resume(device::Adapter::Vmm::kAnother);
    return {};
  });
}

Result<void> ShardHandover::end_successor(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.end_successor();
    return {};
  });
}

Result<void> ShardHandover::stop(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) { return served.stop(); });
}

Result<void> ShardHandover::go_on(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.go_on();
    return {};
  });
}

Result<std::vector<std::byte>> ShardHandover::save(const std::string& adapter, const vmm::PciImage& image) {
  return saved(adapter, image, Works::kStands);
}

Result<std::vector<std::byte>> ShardHandover::draft(const std::string& adapter, const vmm::PciImage& image) {
  return saved(adapter, image, Works::kMay);
}

Result<std::vector<std::byte>> ShardHandover::saved(const std::string& adapter, const vmm::PciImage& image,
                                                    Works works) {
  using Bytes = std::vector<std::byte>;
  const auto table = image.has_msix_table ? std::optional(image.msix_table) : std::nullopt;
  auto saved =
      on_adapter(adapter, [now = &clock_, table, works](adapters::ServedAdapter& served) -> Result<Bytes> {
        if (works == Works::kStands && !served.adapter().is_stopped())
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

Result<vmm::PciImage> ShardHandover::load(const std::string& adapter, std::vector<std::byte> state) {
  return on_adapter(adapter,
                    [state = std::move(state)](adapters::ServedAdapter& served) -> Result<vmm::PciImage> {
                      if (auto stopped = served.stop(); !stopped) return Failure(std::move(stopped).error());
                      const auto pci = served.seated().adapter().load_stopped(state);
                      if (!pci) {
                        served.go_on();
                        return fail(EINVAL, fmt::format("adapter {} cannot go on from this state: {}",
                                                        served.port().name(), pci.error().message));
                      }
                      return image_of(*pci);
                    });
}

Result<void> ShardHandover::write_own_msix_table(const std::string& adapter, const vmm::PciImage& image) {
  const auto written = exchange_table(adapter, Who::kAdapter, &image.msix_table);
  if (!written) return Failure(written.error());
  return {};
}

Result<void> ShardHandover::check_own(const std::string& adapter, const vmm::PciImage& image) {
  if (auto same = check(adapter, Who::kAdapter, image); !same) return same;
  return on_adapter(
      adapter,
      [open = device::vectors_open(state_of(image))](adapters::ServedAdapter& served) -> Result<void> {
        const std::uint32_t assigned = served.adapter().vectors_assigned();
        if (assigned >= open) return {};
        return fail(EIO,
                    fmt::format("adapter {}: the new VMM has given {} interrupt vectors, the guest uses {}",
                                served.port().name(), assigned, open));
      });
}

Result<void> ShardHandover::begin_log(const std::string& adapter) {
  return on_adapter(adapter, [adapter](adapters::ServedAdapter& served) -> Result<void> {
    auto begun = served.seated().adapter().memory().start_log();
    if (begun || begun.error().code != EBUSY) return begun;
    return fail(EBUSY,
                fmt::format("adapter {}: its VMM follows what it writes: wait until that is over", adapter));
  });
}

Result<void> ShardHandover::end_log(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.seated().adapter().memory().stop_log();
    return {};
  });
}

Result<std::uint64_t> ShardHandover::logged_bytes(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<std::uint64_t> {
    return served.seated().adapter().memory().logged_pages() * guestmem::kPageBytes;
  });
}

// A write that is still under way when the guest goes on would put old bytes over its new ones.
Result<void> ShardHandover::mark_pages(const std::string& adapter) {
  const auto marks = std::make_shared<PageMarks>();
  auto marked = send_marks(adapter, marks);
  const Instant until = Instant::now() + vfio_user::Session::kRequestTimeLimit + kPatience;
  if (marked || marks->drain(until)) return marked;
  static_cast<void>(on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.drop_client("it does not answer, and would write old pages over new ones");
    return {};
  }));
  return marked;
}

Result<void> ShardHandover::send_marks(const std::string& adapter, const std::shared_ptr<PageMarks>& marks) {
  while (true) {
    const auto state = on_adapter(
        adapter, [marks](adapters::ServedAdapter& served) { return marks->step(served.seated()); });
    if (!state) return Failure(state.error());
    const bool sent = *state == PageMarks::State::kSent;
    const Instant until = Instant::now() + vfio_user::Session::kRequestTimeLimit + kPatience;
    if (auto done = marks->wait(sent, until); !done) return done;
    if (sent) return {};
  }
}

Result<void> ShardHandover::give_pages(const std::string& adapter, const TakePages& take) {
  const auto logged = std::make_shared<LoggedPages>();
  while (true) {
    const auto pages = on_adapter(
        adapter, [logged](adapters::ServedAdapter& served) { return next_pages(served, *logged); });
    if (!pages) return Failure(pages.error());
    if (pages->bytes.empty()) return {};
    if (auto taken = take(*pages); !taken) return taken;
  }
}

Result<void> ShardHandover::outlive_vmm(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.outlive_client(true);
    return {};
  });
}

Result<void> ShardHandover::end_with_vmm(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.outlive_client(false);
    return {};
  });
}

Result<bool> ShardHandover::has_vmm(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<bool> {
    return served.has_client() && !served.seated().seat().client_hung_up();
  });
}

Result<void> ShardHandover::unload(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    if (served.adapter().is_stopped()) served.seated().adapter().unload();
    served.go_on();
    return {};
  });
}

Result<void> ShardHandover::put_pages(const std::string& adapter, std::uint64_t address,
                                      std::vector<std::byte> bytes) {
  return on_adapter(
      adapter, [address, bytes = std::move(bytes)](adapters::ServedAdapter& served) -> Result<void> {
        const guestmem::AddressSpace& memory = served.seated().adapter().memory();
        if (guestmem::write(memory, guestmem::GuestPhys{address}, bytes)) return {};
        return fail(EFAULT, fmt::format("adapter {}: its VM has no memory here for {} bytes at {:#x}",
                                        served.port().name(), bytes.size(), address));
      });
}

Result<void> ShardHandover::depart(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.depart();
    return {};
  });
}

Result<bool> ShardHandover::is_expected(const std::string& adapter) {
  auto expected = on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<bool> {
    return served.port().waits() && served.seated().seat().established();
  });
  if (!expected && expected.error().code == ENOENT) return false;
  return expected;
}

Result<void> ShardHandover::arrive(const std::string& adapter) {
  return on_adapter(adapter, [](adapters::ServedAdapter& served) -> Result<void> {
    served.arrive();
    return {};
  });
}

Result<void> ShardHandover::nudge(const std::string& adapter) {
  return on_adapter(adapter, [now = &clock_](adapters::ServedAdapter& served) -> Result<void> {
    served.seated().adapter().engine().on_all_paths_restored(now->now());
    return {};
  });
}

}  // namespace pvrdma::moves
