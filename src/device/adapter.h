// Adapter: one PVRDMA adapter, from the vfio-user messages of its VM to its own verbs engine.
//
// It owns the guest's memory map, the engine (one for the adapter's whole life), registers, rings and
// interrupts. Every action happens inside the call that causes it. A doorbell is executed when it arrives,
// and a command is complete when its write is acknowledged. When dma_unmap() or a reset returns, nothing
// accesses the guest's memory any more, because there is no other thread and no deferred work.
//
// A driver's life: DSRHIGH (attached), CTL ACTIVATE (active), commands and doorbells, CTL RESET (detached). A
// new DSRHIGH, a reset of either kind and a disconnect drop all state of the driver before. Until ACTIVATE
// the adapter writes only the capabilities to guest memory (reference 1.6).
//
// Thread: shard-owned; create() on any thread before that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/reaper.h"
#include "base/result.h"
#include "base/time.h"
#include "device/adapter_config.h"
#include "device/adapter_info.h"
#include "device/adapter_log.h"
#include "device/adapter_rates.h"
#include "device/command_executor.h"
#include "device/counters.h"
#include "device/doorbell_memory.h"
#include "device/doorbell_poller.h"
#include "device/doorbells.h"
#include "device/event_rings.h"
#include "device/interrupts.h"
#include "device/life.h"
#include "device/migration_stream.h"
#include "device/pci_config.h"
#include "device/pci_state.h"
#include "device/registers.h"
#include "device/saved.h"
#include "device/shared_region.h"
#include "guestmem/address_space.h"
#include "state/reader.h"
#include "state/writer.h"
#include "verbs/account.h"
#include "verbs/engine.h"
#include "verbs/events.h"
#include "verbs/wire.h"
#include "vfio_user/handler.h"

namespace pvrdma::device {

// Reads the identity of the saved adapter, whose records follow. Errors: what is wrong with the stream.
Result<SavedIdentity> read_identity(state::Reader& reader);

class Adapter final : public vfio_user::Handler, private verbs::EventSink, private RegisterActions {
 public:
  // `port` and `clock` are borrowed and outlive the adapter. `memory_queue` releases guest memory (null: it
  // is released in place). `doorbell_memory` is that of another process whose client continues here; empty:
  // there is none. Errors: those of identity_of(), or no memory for BAR 2's mappable part.
  static Result<std::unique_ptr<Adapter>> create(const AdapterConfig& config, verbs::SwitchPort& port,
                                                 const Clock& clock,
                                                 std::shared_ptr<ReaperQueue> memory_queue = nullptr,
                                                 Fd doorbell_memory = {});
  ~Adapter() override;
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  // For transports, which deliver messages to the engine.
  verbs::Engine& engine() { return engine_; }
  // For the log of written pages.
  guestmem::AddressSpace& memory() { return memory_; }
  const std::string& name() const { return config_.name; }

  // Gives waiting work a turn. True: there is more to do at once.
  bool run(Instant now);
  // Fires the timers that are due. Call it when now >= next_deadline().
  void on_time(Instant now);
  Instant next_deadline() const;
  // Whether run() looks for doorbells that nothing announces.
  bool polls() const { return !is_stopped() && poller_.any_open(); }

  // Sets the link as the guest sees it. A change raises PORT_ACTIVE or PORT_ERR. While the VMM has stopped
  // the adapter, the guest sees the change only when it continues.
  void set_link(bool up);

  // --- Its life: life.h ---

  bool is_stopped() const { return device::is_stopped(work_); }
  // Like a client's migration messages STOP and RUNNING, except that stop() drops a state that a client has
  // written. Not for an adapter that stands by.
  void stop() { stop_at(LifeEvent::kStop); }
  void go_on();
  // Whether the adapter outlives its client. If so, a stopped adapter resumes at the guest's first write to
  // registers or doorbells, because somebody may resume the guest without telling this adapter. Otherwise
  // such writes are ignored.
  void outlive_client(bool outlives) {
    client_.on(outlives ? LifeEvent::kOutlive : LifeEvent::kEndWithClient);
  }
  bool outlives_client() const { return is_outlived(client_); }
  // The client that it outlives has left. May be called repeatedly.
  void client_hung_up();
  bool client_is_gone() const { return client_ == ClientState::kOutlivedGone; }

  // While it is over its rate of commands or doorbells, read nothing from its client until then. Instant{}:
  // it is within its rates.
  Instant held_until() const { return rates_.held_until(); }

  // --- Saving and loading (ADR 16): between two calls. See adapter_{state,loading}.cc. ---

  // Saves everything except guest memory, DMA maps, eventfds and counters of this host alone. The guest must
  // be paused; otherwise its stores into mapped doorbell pages meanwhile are lost. `table` is the VMM's MSI-X
  // table, if it is known. Time and memory grow with the number of objects.
  void save(state::Writer& writer, const std::optional<MsixTable>& table, Instant now) const;
  // As save(), but without the driver's objects. This state outlives the process even if nobody saves the
  // adapter at its end. It is small, whatever the number of objects.
  void save_without_objects(state::Writer& writer, Instant now) const;
  // Whether a write there may change the state of save_without_objects(). Commands and doorbells, which are
  // frequent, do not change it.
  static bool may_change_device(std::uint32_t region, std::uint64_t offset);
  // Loads the saved adapter into this one, which must have no driver. The client may have mapped memory and
  // assigned eventfds before. Returns the saved PCI state, which is not applied (pci_state.h). The record
  // must be the stream's last. Refused are another identity, limit or rule, a value out of its range, a
  // driver in this adapter, and what Engine::Loading refuses; the adapter is unchanged then. After a load it
  // no longer stands by. The link is as the guest last saw it; after resume() the caller sets the real one by
  // set_link().
  Result<PciState> load(state::Reader& reader, Instant now);
  // load() for a stopped adapter. When it continues, it has this host's link.
  Result<PciState> load_stopped(std::span<const std::byte> bytes);
  // A stopped adapter drops the state that it has loaded, and can load again. This is for a load that was
  // only a check.
  void unload();
  // Removes the driver as a reset does, but keeps the PCI state: the driver's state lives on elsewhere, or
  // will come by load(). Until then the adapter ignores the guest's accesses to registers and doorbells, and
  // counts them.
  void stand_by();
  enum class Vmm : bool { kSame, kAnother };
  // Call it once after a load, when the guest continues and its eventfds are assigned. The last interrupts
  // may have been lost, so it raises one for the event rings. In another VMM it also raises one for the
  // response slot: its interrupt may have been lost with the old VMM. Linux's driver ignores a response for
  // which it does not wait.
  void resume(Vmm vmm = Vmm::kSame);
  // Turns the adapter into the one that another process saved, for the same client. As load(), but it also
  // applies the PCI state, takes the doorbells that the guest has stored into mapped pages meanwhile, and
  // continues. kLost: the saved state lacks objects that the driver had, so the guest is told that its device
  // has failed (DEVICE_FATAL).
  enum class Objects : bool { kSaved, kLost };
  Result<void> take_back(state::Reader& reader, Objects objects, Instant now);
  bool link_is_up() const { return commands_.link_is_up(); }
  int doorbell_fd() const { return doorbell_memory_->fd(); }  // borrowed
  PciState pci_state(const std::optional<MsixTable>& table) const;
  std::uint32_t vectors_assigned() const { return interrupts_.assigned(); }

  // It made a turn of its shard long by that much.
  void count_offence(Duration took) {
    ++counters_.offences;
    counters_.offences_us += microseconds_of(took);
  }

  AdapterInfo info() const;
  std::uint32_t mtu_bytes() const { return abi::mtu_bytes(identity_.limits.mtu); }  // the port's active MTU

  // vfio_user::Handler.
  std::uint32_t region_count() const override { return 9; }
  std::uint32_t irq_index_count() const override { return 5; }
  vfio_user::RegionInfo region_info(std::uint32_t region) const override;
  std::uint32_t irq_count(std::uint32_t index) const override;
  int region_read(std::uint32_t region, std::uint64_t offset, std::span<std::byte> out) override;
  int region_write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> data,
                   bool posted) override;
  int set_irq_eventfd(std::uint32_t index, std::uint32_t vector, ClientFd eventfd) override;
  int disable_irqs(std::uint32_t index) override;
  int dma_map(const vfio_user::DmaMapRequest& request, ClientFd fd) override;
  int dma_unmap(std::uint64_t iova, std::uint64_t size) override;
  void dma_unmap_all() override;
  void reset() override;
  // adapter_migration.cc.
  std::uint64_t migration_flags() const override;
  vfio_user::StateChange set_migration_state(vfio_user::MigrationState next) override;
  tl::expected<std::size_t, int> migration_read(std::span<std::byte> out) override;
  int migration_write(std::span<const std::byte> data) override;
  bool can_log_writes() const override { return true; }
  int log_start(std::uint64_t& page_size, std::span<const vfio_user::LogRange> ranges) override;
  int log_stop() override;
  int log_report(const vfio_user::LogRange& range, std::uint64_t page_size,
                 std::span<std::byte> bitmap) override;
  bool is_busy() const override;
  void connected() override;
  void disconnected(std::string_view reason) override;

 private:
  Adapter(const AdapterConfig& config, const SavedIdentity& identity,
          std::unique_ptr<DoorbellMemory> doorbell_memory, verbs::SwitchPort& port, const Clock& clock,
          std::shared_ptr<ReaperQueue> memory_queue);

  // verbs::EventSink.
  void completion_event(verbs::CqHandle cq) override;
  void async_event(abi::EventType type, std::uint32_t info) override;
  void qp_failed(verbs::Qpn qpn, std::string_view why) override;

  // RegisterActions.
  std::uint32_t load_shared_region(std::uint64_t address) override;
  std::uint32_t activate() override;
  std::uint32_t unquiesce() override;
  std::uint32_t reset_by_driver() override;
  std::uint32_t execute_command() override;

  void save_device(state::Writer& writer, const std::optional<MsixTable>& table, const SavedEventRings& rings,
                   const SavedDoorbells& doorbells, Instant now) const;
  class Loading;  // adapter_loading.h
  struct Arrival;
  Result<PciState> load(state::Reader& reader, DoorbellPoller::Words words, Instant now);
  bool failed();
  bool look_at_doorbells(Instant now);
  void take_doorbells(std::uint32_t count, Instant now) {
    counters_.doorbells += count;
    rates_.count_doorbells(count, now);
  }
  void write_register(std::uint64_t offset, std::span<const std::byte> data, bool posted);
  void ignore_access(std::uint64_t offset, std::span<const std::byte> data, std::string_view why);
  std::vector<BudgetUse> budget_uses() const;
  std::uint32_t try_load_shared_region(std::uint64_t address);
  void drop_driver();
  void obey_bus_master();
  void power_on(LifeEvent event);

  void stop_at(LifeEvent event);
  bool run_stopped();
  int offer_state();
  void drop_stream();
  void load_next();
  void begin_arrival();
  int load_written();
  Result<PciState> load_rest(Loading& loading, state::Reader& reader);
  void end_migration(LifeEvent event);

  const AdapterConfig config_;
  const SavedIdentity identity_;  // what the guest is told
  const abi::Caps caps_;
  const Clock& clock_;
  const std::unique_ptr<DoorbellMemory> doorbell_memory_;
  verbs::SwitchPort& port_;

  guestmem::AddressSpace memory_;
  verbs::Account account_;

  Counters counters_;
  AdapterLog log_;
  AdapterRates rates_;
  PciConfig pci_config_;
  Interrupts interrupts_{clock_, log_};
  EventRings rings_;
  verbs::Engine engine_;
  Doorbells doorbells_;
  DoorbellPoller poller_;
  CommandExecutor commands_;
  Registers registers_;

  AdapterState state_ = AdapterState::kDetached;
  std::optional<SharedRegion> region_;
  std::optional<RegionDefect> region_defect_;  // of the last region, if it was refused
  std::string map_trouble_;  // why the first map of memory was refused since power-on; empty: none was

  LifeColumn<Work> work_{Work::kWorks};
  LifeColumn<ClientState> client_{ClientState::kNone};
  MigrationStream stream_;              // the state, as the client reads or writes it
  std::unique_ptr<Arrival> arrival_;    // what was loaded of it; null: nothing
  Duration stream_time_{0};             // the time of its turns, which is not charged yet
  std::optional<bool> link_meanwhile_;  // while stopped: the link for the guest when it continues
};

}  // namespace pvrdma::device
