// The adapter's side of the protocol's migration and dirty-log messages: its VMM stops, saves, loads and
// resumes it; the log of written pages. Reference 8.7, ADR 16.
#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "device/adapter.h"
#include "device/adapter_loading.h"
#include "verbs/engine_saving.h"
#include "verbs/saved_size.h"

namespace pvrdma::device {
namespace {

using vfio_user::MigrationState;

// Saving and loading for this long, or this many bytes, is charged as a command.
constexpr Duration kCommandTime = std::chrono::microseconds(50);
constexpr std::uint64_t kBytesPerCommand = 10'000;
// Searching this many QPs for those that wait for this adapter takes as long as a command.
constexpr std::uint64_t kQpsPerCommand = 2'000;

// How long one turn saves or loads, unless a single record takes longer.
constexpr Duration kTurnTime = std::chrono::microseconds(200);

// The size of all records except the engine's, and the additional bytes for each CQ and context.
constexpr std::uint64_t kDeviceBytes = 64u << 10;
constexpr std::uint64_t kCqBytes = 4;
constexpr std::uint64_t kContextBytes = 12;

std::uint64_t pages_within(std::uint64_t budget_mib, Budget budget, std::uint64_t ram_bytes) {
  const std::uint64_t within_budget = verbs::to_units(budget, budget_mib);
  if (ram_bytes == 0) return within_budget;
  return std::min(within_budget, ram_bytes / guestmem::kPageBytes * verbs::Account::kPagesPerRamPage);
}

std::optional<LifeEvent> event_of(MigrationState next) {
  switch (next) {
    case MigrationState::kRunning:
      return LifeEvent::kRun;
    case MigrationState::kStop:
      return LifeEvent::kStop;
    case MigrationState::kStopCopy:
      return LifeEvent::kOfferState;
    case MigrationState::kResuming:
      return LifeEvent::kTakeState;
    case MigrationState::kPreCopy:
    case MigrationState::kError:
      break;
  }
  return std::nullopt;
}

// The largest state that is possible with these limits and budgets and the guest's memory.
std::uint64_t state_bytes_max(const verbs::Limits& limits, const Budgets& budgets, std::uint64_t ram_bytes) {
  const std::uint64_t mrs = pages_within(budgets.registered_mib, Budget::kRegistered, ram_bytes);
  const std::uint64_t rings = pages_within(budgets.rings_mib, Budget::kRings, ram_bytes);
  const std::uint64_t pages = mrs > kNoBudget - rings ? kNoBudget : mrs + rings;
  const std::uint64_t engine = verbs::saved_bytes_max(limits, pages);
  const std::uint64_t device = kDeviceBytes + limits.max_cq * kCqBytes + limits.max_context * kContextBytes;
  return engine > kNoBudget - device ? kNoBudget : engine + device;
}

}  // namespace

// PRE_COPY is not offered, because the state of a QP's requests changes with each message. (The regions'
// lists of pages, which are the larger part of a large state, do not change so often.)
std::uint64_t Adapter::migration_flags() const {
  return vfio_user::kMigrationStopCopy;
}

vfio_user::StateChange Adapter::set_migration_state(MigrationState next) {
  if (work_ == Work::kStandsBy) return {EBUSY};  // the guest runs in another VMM and uses the port there
  const std::optional<LifeEvent> event = event_of(next);
  if (!event || !work_.allows(*event)) return {EINVAL};
  switch (*event) {
    case LifeEvent::kRun:
      go_on();
      return {0};
    case LifeEvent::kStop:
      if (work_ == Work::kTakesState) {
        if (const int error = load_written(); error != 0) return {error};
      }
      stop();
      return {0};
    case LifeEvent::kOfferState:
      if (const int error = offer_state(); error != 0) return {error};
      break;
    default:  // kTakeState
      if (failed() || state_ != AdapterState::kDetached) return {EBUSY};
  }
  work_.on(*event);
  return {0};
}

// From here on the guest's state does not change: no turn, time limit, message or doorbell is processed.
void Adapter::stop_at(LifeEvent event) {
  drop_stream();
  port_.set_stopped(true);
  work_.on(event);
}

void Adapter::client_hung_up() {
  if (work_ == Work::kWorks)
    stop_at(LifeEvent::kHungUp);
  else
    work_.on(LifeEvent::kHungUp);
  client_.on(LifeEvent::kHungUp);
}

// The client's next message waits until what it has written is loaded, and what it may read is saved.
bool Adapter::is_busy() const {
  if (work_ == Work::kOffersState) return stream_.is_behind();
  return work_ == Work::kTakesState && (arrival_ == nullptr || arrival_->has_more) &&
         state::Reader::holds_record(stream_.written());
}

// A turn of a stopped adapter.
bool Adapter::run_stopped() {
  if (!is_busy()) return false;
  const Instant begin = clock_.now();
  try {
    while (is_busy()) {
      if (work_ == Work::kOffersState)
        stream_.write_ahead();
      else
        load_next();
      if (clock_.now() - begin >= kTurnTime) break;
    }
  } catch (const std::bad_alloc&) {
    drop_stream();
  }
  stream_time_ += clock_.now() - begin;
  return is_busy();
}

// What a save or load took is charged when it is over, so a long one is not made longer: the guest is
// stopped.
void Adapter::drop_stream() {
  const std::uint64_t bytes = stream_.saved_bytes() + stream_.written_bytes();
  const auto times = static_cast<std::uint64_t>(std::exchange(stream_time_, Duration(0)) / kCommandTime);
  rates_.count_for_client(std::max(bytes / kBytesPerCommand, times), clock_.now());
  arrival_.reset();
  stream_.clear();
}

int Adapter::offer_state() {
  const Instant now = clock_.now();
  drop_stream();
  try {
    if (!stream_.begin()) return EBUSY;
    state::Writer writer;
    save_device(writer, std::nullopt, rings_.save(now), poller_.save(), now);
    stream_.offer(std::move(writer), [saving = verbs::Engine::Saving(engine_, now)](
                                         state::Writer& into) mutable { return saving.write_next(into); });
    rates_.count_for_client(1, now);
  } catch (const std::bad_alloc&) {
    stream_.clear();
    return ENOMEM;
  }
  return 0;
}

// Reads the next record, which is complete or invalid. The first is the stream's head.
void Adapter::load_next() {
  const std::span<const std::byte> bytes = stream_.written();
  if (arrival_ == nullptr) {
    begin_arrival();
    arrival_->has_more = !arrival_->reader.failed();
  } else {
    arrival_->reader.go_on(bytes);
    arrival_->has_more = arrival_->loading.read_next(arrival_->reader);
  }
  stream_.drop_front(arrival_->has_more ? bytes.size() - arrival_->reader.unread().size() : bytes.size());
}

void Adapter::begin_arrival() {
  arrival_.reset(
      new Arrival{.reader = state::Reader(stream_.written()), .loading = Loading(*this, clock_.now())});
}

// If the load is refused, the written bytes are dropped, so that they can be written again. The VMM may
// restore the PCI function whenever it likes, so the PCI state is not compared.
int Adapter::load_written() {
  const std::uint64_t bytes = stream_.written_bytes();
  int error = 0;
  try {
    if (arrival_ == nullptr)
      begin_arrival();
    else
      arrival_->reader.go_on(stream_.written());
    const Result<PciState> loaded = load_rest(arrival_->loading, arrival_->reader);
    if (!loaded) {
      error = EINVAL;
      log_.state_refused(bytes, loaded.error().message);
    }
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
  }
  drop_stream();
  rates_.count_for_client(1, clock_.now());
  return error;
}

Result<PciState> Adapter::load_stopped(std::span<const std::byte> bytes) {
  drop_stream();
  state::Reader reader(bytes);
  Loading loading(*this, clock_.now());
  return load_rest(loading, reader);
}

Result<PciState> Adapter::load_rest(Loading& loading, state::Reader& reader) {
  PVRDMA_CHECK(is_stopped(), "the caller has stopped the adapter");
  while (loading.read_next(reader)) {
  }
  const bool link_here = commands_.link_is_up();
  Result<PciState> loaded = loading.finish(reader, DoorbellPoller::Words::kSaved);
  if (loaded && !link_meanwhile_) link_meanwhile_ = link_here;
  return loaded;
}

void Adapter::unload() {
  PVRDMA_CHECK(is_stopped(), "the caller has stopped the adapter");
  drop_driver();
  registers_.reset();
}

void Adapter::go_on() {
  end_migration(LifeEvent::kRun);
  obey_bus_master();
  if (state_ != AdapterState::kActive) return;
  engine_.on_all_paths_restored(clock_.now());
  resume();
}

// After `event` the adapter is not stopped.
void Adapter::end_migration(LifeEvent event) {
  drop_stream();
  const bool was_stopped = is_stopped();
  work_.on(event);
  if (!was_stopped) return;
  rates_.count_for_client(port_.set_stopped(false) / kQpsPerCommand, clock_.now());
  if (const auto link = std::exchange(link_meanwhile_, std::nullopt)) set_link(*link);
}

tl::expected<std::size_t, int> Adapter::migration_read(std::span<std::byte> out) {
  // A state that was cut off must not look as if it ended.
  if (failed() || stream_.saved_bytes() == 0) return tl::unexpected(EIO);
  try {
    return stream_.read(out);
  } catch (const std::bad_alloc&) {
    drop_stream();
    return tl::unexpected(ENOMEM);
  }
}

int Adapter::migration_write(std::span<const std::byte> data) {
  try {
    const int error =
        stream_.write(data, state_bytes_max(identity_.limits, config_.budgets, memory_.ram_bytes()));
    // The end was read, or the state is refused, which the client learns when it stops the load.
    if (error == 0 && arrival_ != nullptr && !arrival_->has_more) load_next();
    return error;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
}

// Logs all RAM: nobody asks for pages outside `ranges`. Reports convert to larger pages if the client wants
// them.
int Adapter::log_start(std::uint64_t& page_size, std::span<const vfio_user::LogRange> /*ranges*/) {
  rates_.count_for_client(1, clock_.now());
  if (const auto started = memory_.start_log(); !started) {
    log_.write_log_refused(started.error().message);
    return started.error().code;
  }
  page_size = guestmem::kPageBytes;
  return 0;
}

int Adapter::log_stop() {
  memory_.stop_log();
  return 0;
}

int Adapter::log_report(const vfio_user::LogRange& range, std::uint64_t page_size,
                        std::span<std::byte> bitmap) {
  const auto reported = memory_.report_log(guestmem::GuestPhys(range.iova), range.length, page_size, bitmap);
  return reported ? 0 : reported.error().code;
}

}  // namespace pvrdma::device
