#include "adapters/served_adapter.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <new>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/events.h"
#include "base/log.h"
#include "state/reader.h"
#include "state/writer.h"
#include "vmm/vm_monitors.h"

namespace pvrdma::adapters {

Result<std::unique_ptr<ServedAdapter>> ServedAdapter::create(const AdapterSetup& setup,
                                                             fabric::Switch& fabric_switch,
                                                             const ServingParts& parts,
                                                             const GivenBack* given) {
  std::unique_ptr<ServedAdapter> served(new ServedAdapter(setup, fabric_switch, parts));
  if (parts.keeping != nullptr) {
    if (auto begun = served->begin_keeping(given); !begun) return Failure(std::move(begun).error());
  }
  auto seated = served->make_seated(given);
  if (!seated) return Failure(std::move(seated).error());
  served->seated_ = *std::move(seated);
  if (setup.is_arriving) {
    served->port_.wait();
    served->move_home(device::LifeEvent::kAwait);
  }
  served->port_.attach(served->seated_->adapter().engine());
  auto server =
      vfio_user::Server::listen(setup.socket, served->seated_->handler(),
                                {.seat = served->seat_options(*served->seated_),
                                 .owner = setup.owner,
                                 .listener = given != nullptr ? given->copy(given->record.listener) : Fd()});
  if (!server) return Failure(std::move(server).error());
  served->server_ = *std::move(server);
  // Made after the socket: the daemon that could bind the socket owns the folder, too.
  std::string path = vmm::monitors_beside(setup.socket).folder;
  if (setup.predecessor) {
    served->vmm_folder_ = vmm::VmmFolder::take_over(std::move(path));
  } else {
    auto folder = vmm::VmmFolder::make(std::move(path), setup.owner);
    if (!folder) return Failure(std::move(folder).error());
    served->vmm_folder_ = *std::move(folder);
  }
  served->seated_->sit(served->server_->seat());
  return served;
}

ServedAdapter::ServedAdapter(const AdapterSetup& setup, fabric::Switch& fabric_switch,
                             const ServingParts& parts)
    : Party(parts.loop.blame()),
      parts_(parts),
      config_(setup.device),
      port_(setup.device.name,
            {.mac = setup.device.mac,
             .addresses = setup.addresses,
             .may_reach_natives = setup.may_reach_natives},
            fabric_switch),
      is_moving_(setup.predecessor.has_value()) {
  if (setup.predecessor) port_.follow(*setup.predecessor);
}

ServedAdapter::~ServedAdapter() {
  if (started_) parts_.loop.remove(*this);
  if (listener_watched_) parts_.loop.unwatch(server_->listen_fd());
  // An adapter that did not start may have found the folder of a VMM that runs.
  if (vmm_folder_ != nullptr && (!started_ || has_client())) vmm_folder_->leave_sockets();
  if (is_moving_) leave();
  server_.reset();
  end_fault("the adapter is removed, or the daemon stops");
  port_.detach();
}

// Memory and descriptors use separate queues, so memory is freed even if a descriptor cannot be closed.
std::shared_ptr<ReaperQueue> ServedAdapter::open_queue() {
  return parts_.reaper != nullptr ? parts_.reaper->open_queue() : nullptr;
}

Result<std::unique_ptr<SeatedAdapter>> ServedAdapter::make_seated(const GivenBack* given) {
  KeptId doorbells = given != nullptr ? given->record.doorbells : 0;
  auto adapter = device::Adapter::create(config_, port_, parts_.clock, open_queue(),
                                         doorbells != 0 ? given->copy(doorbells) : Fd());
  if (!adapter && doorbells != 0) {  // the kept memory is of an adapter with another configuration
    doorbells = 0;
    adapter = device::Adapter::create(config_, port_, parts_.clock, open_queue());
  }
  if (!adapter) return Failure(std::move(adapter).error());
  std::unique_ptr<ClientRecord> record;
  if (parts_.keeping != nullptr) {
    record = std::make_unique<ClientRecord>(**adapter, *parts_.keeping, open_queue(), doorbells,
                                            [this] { note_change(); });
  }
  Blame::Party& party = *this;
  auto seated = std::make_unique<SeatedAdapter>(*std::move(adapter), std::move(record), parts_.loop,
                                                parts_.clock, party);
  seated->on_followed([this, &seated = *seated] { on_followed(seated); });
  return seated;
}

vfio_user::SeatOptions ServedAdapter::seat_options(SeatedAdapter& seated) {
  return {.queue = open_queue(), .clock = &parts_.clock, .before_close = [&seated] { seated.unwatch(); }};
}

Result<void> ServedAdapter::start() {
  if (!is_moving_) {
    auto watched = parts_.loop.watch(server_->listen_fd(), shard::Interest::kRead, *this);
    if (!watched) return watched;
    listener_watched_ = true;
  }
  parts_.loop.add(*this);
  started_ = true;
  call_keeper();
  return {};
}

void ServedAdapter::set_link(bool up) {
  port_.set_link(up);
  seated_->adapter().set_link(up);
  note_change();
}

bool ServedAdapter::inject(std::shared_ptr<AdapterFault> fault) {
  if (fault_ != nullptr) return false;
  fault_ = std::move(fault);
  try {
    fault_->install(port_, seated_->adapter().engine(), parts_.loop);
  } catch (const std::bad_alloc&) {
    stop_injecting();
    throw;
  }
  return true;
}

void ServedAdapter::stop_injecting() {
  if (fault_ == nullptr) return;
  fault_->remove(port_, seated_->adapter().engine(), parts_.loop);
  fault_.reset();
}

void ServedAdapter::end_fault(std::string_view why) {
  if (fault_ == nullptr) return;
  const std::uint64_t id = fault_->id();
  const FaultCounts counts = fault_->counts();
  stop_injecting();
  events::tell(log::Level::kWarn, fault_of(port_.name()),
               "adapter {}: fault {} ends, which dropped {} of {} messages: {}", port_.name(), id,
               counts.dropped, counts.messages, why);
}

Failure ServedAdapter::is_being_moved() const {
  return fail(ErrorKind::kConflict,
              fmt::format("adapter {} is stopped: its VM is being moved, or written to a file: wait until "
                          "that is over",
                          port_.name()));
}

Failure ServedAdapter::has_faults() const {
  return fail(ErrorKind::kConflict, fmt::format("adapter {}: faults are injected: pvrdmactl fault remove {}",
                                                port_.name(), fault_->id()));
}

Failure ServedAdapter::is_off() const {
  return fail(ErrorKind::kConflict,
              fmt::format("adapter {}: its VM is off: no VMM is connected", port_.name()));
}

Result<void> ServedAdapter::expect_successor() {
  if (!has_client()) return is_off();
  if (is_moving_) return is_being_moved();
  if (!server_->refusal().empty())
    return fail(ErrorKind::kConflict,
                fmt::format("adapter {} accepts no other VMM: {}", port_.name(), server_->refusal()));
  if (successor_ != nullptr) {
    return fail(
        ErrorKind::kConflict,
        fmt::format("adapter {}: another VMM is expected already: wait until that is over", port_.name()));
  }
  auto made = make_seated();
  if (!made) return Failure(std::move(made).error());
  (*made)->adapter().stand_by();
  (*made)->sit(server_->expect_successor((*made)->handler(), seat_options(**made)));
  successor_ = *std::move(made);
  return {};
}

// Loads the successor first: if it refuses, or memory runs out, nothing has changed. For a moment both
// adapters have the GIDs bound, so no other port can bind them, and other hosts are told nothing.
Result<SwitchedOver> ServedAdapter::switch_over(Instant now) {
  if (successor_ == nullptr || !server_->successor()->established())
    return fail(ENOTCONN, fmt::format("adapter {}: no other VMM is connected", port_.name()));
  if (fault_ != nullptr) return has_faults();
  device::Adapter& from = seated_->adapter();
  if (from.is_stopped()) return is_being_moved();
  device::Adapter& to = successor_->adapter();
  state::Writer writer;
  from.save(writer, std::nullopt, now);
  const std::vector<std::byte> bytes = writer.finish();
  state::Reader reader(bytes);
  if (const auto loaded = to.load(reader, now); !loaded) return Failure(loaded.error());
  try {
    port_.replace(to.engine(), [&from] { from.stand_by(); });
  } catch (const std::bad_alloc&) {
    to.stand_by();
    throw;
  }
  std::swap(seated_, successor_);
  server_->swap_seats();
  note_change();
  return SwitchedOver{bytes.size(), parts_.clock.now() - now};
}

void ServedAdapter::end_successor() {
  if (successor_ == nullptr) return;
  server_->end_successor();
  parts_.on_engine_gone(successor_->adapter().engine());
  successor_.reset();
  watch_listener();
}

Result<void> ServedAdapter::stop() {
  if (!has_client()) return is_off();
  if (successor_ != nullptr) {
    return fail(ErrorKind::kConflict,
                fmt::format("adapter {}: another VMM is expected: wait until that is over", port_.name()));
  }
  if (is_moving_) return is_being_moved();
  device::Adapter& adapter = seated_->adapter();
  // An adapter that outlives its VMM may already be stopped; the call then succeeds.
  if (adapter.is_stopped()) return adapter.outlives_client() ? Result<void>() : is_being_moved();
  move_home(device::LifeEvent::kClaim);
  adapter.stop();
  return {};
}

void ServedAdapter::go_on() {
  device::Adapter& adapter = seated_->adapter();
  if (adapter.is_stopped()) adapter.go_on();
  note_change();  // it may have changed since it was stopped
}

void ServedAdapter::arrive() {
  if (home_ == device::Home::kThisHost) return;
  port_.arrive();
  move_home(device::LifeEvent::kArrive);
  go_on();
  if (has_client()) parts_.on_client(*this, true);
}

void ServedAdapter::depart() {
  if (has_client()) parts_.on_client(*this, false);
  end_fault("its VM is on another host now; add a fault there if you want one");
  port_.depart();
  move_home(device::LifeEvent::kDepart);
}

void ServedAdapter::move_home(device::LifeEvent event) {
  home_.on(event);
  PVRDMA_CHECK(port_.waits() == (home_ != device::Home::kThisHost), "a port waits for a VM that is away");
}

bool ServedAdapter::run(Instant now) {
  const bool more = seated_->run(now);
  return successor_ != nullptr && successor_->run(now) ? true : more;
}

Instant ServedAdapter::next_deadline() const {
  const Instant next = std::min(seated_->next_deadline(), server_->accept_again_at());
  return successor_ != nullptr ? std::min(next, successor_->next_deadline()) : next;
}

void ServedAdapter::on_time(Instant now) {
  seated_->on_time(now);
  if (successor_ != nullptr) successor_->on_time(now);
  if (now >= server_->accept_again_at()) {
    server_->accept_again();
    watch_listener();
  }
}

void ServedAdapter::on_blamed(Duration took) {
  seated_->adapter().count_offence(took);
  if (parts_.offences != nullptr) parts_.offences->on_offence(port_.name(), took);
}

void ServedAdapter::on_fd_ready(int /*fd*/, shard::Readiness /*ready*/) {
  server_->on_listen_ready();
  if (successor_ != nullptr) successor_->follow();
  seated_->follow();
  follow_client();
}

// When the successor leaves, its seat stays free for another VMM. It must not be destroyed here, inside its
// own call.
void ServedAdapter::on_followed(const SeatedAdapter& seated) {
  if (&seated == seated_.get()) follow_client();
}

void ServedAdapter::follow_client() {
  watch_listener();
  if (has_client() == had_client_) return;
  had_client_ = has_client();
  if (!had_client_) {
    move_home(device::LifeEvent::kDisconnected);
    end_successor();
  }
  try {
    parts_.on_client(*this, had_client_);
  } catch (const std::bad_alloc&) {  // only for a new client; no observer was told
    seated_->seat().drop_client("no memory");
    seated_->follow();
    had_client_ = false;
  }
}

void ServedAdapter::drop_client(const std::string& reason) {
  seated_->seat().drop_client(reason);
  seated_->follow();
  follow_client();
}

void ServedAdapter::watch_listener() {
  const bool wanted = !is_moving_ && server_->accept_again_at() == Instant::never();
  if (wanted == listener_watched_) return;
  if (!wanted) parts_.loop.unwatch(server_->listen_fd());
  listener_watched_ =
      wanted && parts_.loop.watch(server_->listen_fd(), shard::Interest::kRead, *this).has_value();
  if (wanted && !listener_watched_) server_->pause_accepting("the kernel refuses to watch its socket");
}

}  // namespace pvrdma::adapters
