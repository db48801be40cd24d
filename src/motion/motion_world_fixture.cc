#include "motion/motion_world_fixture.h"

#include <algorithm>
#include <atomic>
#include <concepts>
#include <fmt/core.h>
#include <string_view>

#include "motion/fake_adapter_side.h"

namespace pvrdma::motion {
namespace {

using calls::Conversation;
using vmm::FakeQemu;
using vmm::Json;

const Motion kMotion{"m1", "VM-01", "esx-01", "esx-02"};

Host other(Host host) {
  return host == Host::kSource ? Host::kDestination : Host::kSource;
}

Json one_device() {
  return Json::array({{{"bus", 0},
                       {"devices", Json::array({{{"bus", 0},
                                                 {"slot", 16},
                                                 {"function", 1},
                                                 {"id", {{"vendor", 0x15ad}, {"device", 0x0820}}}}})}}});
}

}  // namespace

// The AdapterSide of one host.
class MotionWorld::Side final : public FakeAdapterSide {
 public:
  Side(MotionWorld& world, Host host) : world_(world), host_(host) {}

  Result<void> act(std::string_view) override {
    return act([](Party&) {});
  }
  Result<Clients> clients(const std::string&) override {
    Clients clients;
    const auto look = [&](Party& party) {
      clients.has_vmm = !party.qemu_dead;
      clients.awaits_vm = host_ == Host::kDestination && world_.store_ == Store::kMoving && !party.qemu_dead;
      world_.is_expected_ = world_.is_expected_ || clients.awaits_vm;
    };
    if (auto done = act(look); !done) return Failure(done.error());
    return clients;
  }
  Result<void> stop(const std::string&) override {
    return act([](Party& party) { party.serves = false; });
  }
  Result<void> go_on(const std::string&) override {
    return act([](Party& party) { party.serves = true; });
  }
  Result<std::vector<std::byte>> save(const std::string&, Save what, const vmm::PciImage&) override {
    bool stands = false;
    if (auto done = act([&](Party& party) { stands = !party.serves; }); !done) return Failure(done.error());
    EXPECT_TRUE(stands || what == Save::kDraft);
    return saved();
  }
  Result<vmm::PciImage> load(const std::string&, std::vector<std::byte> state) override {
    EXPECT_EQ(state, saved());
    if (auto done = act([](Party& party) { party.loaded = true; }); !done) return Failure(done.error());
    vmm::PciImage changed = image();  // the guest was reset while its memory moved
    changed.config[4] = 2;
    return changed;
  }
  Result<void> unload(const std::string&) override {
    return act([](Party& party) { party.loaded = false; });
  }
  Result<void> put_pages(const std::string&, Pages) override {
    return act([this](Party& party) {
      EXPECT_TRUE(party.loaded);
      EXPECT_EQ(party.migration, "completed") << "QEMU's stream may bring older ones: " << world_.describe();
      party.has_pages = true;
    });
  }
  Result<void> arrive(const std::string&) override {
    return act([this](Party& party) {
      const bool is_led = world_.leader_ == Leader::kLibvirt;
      if (is_led && !party.loaded) world_.lost_ = true;
      EXPECT_TRUE(party.loaded || is_led);
      EXPECT_TRUE(!party.loaded || !is_led || party.has_pages) << world_.describe();
      party.serves = true;
    });
  }

 private:
  template <std::invocable<Party&> Act>
  Result<void> act(Act act) {
    const std::lock_guard lock(world_.mutex_);
    if (auto done = world_.call(host_); !done) return done;
    act(world_.of(host_));
    world_.check();
    return {};
  }

  MotionWorld& world_;
  const Host host_;
};

class MotionWorld::StoreSide final : public Arbiter {
 public:
  StoreSide(MotionWorld& world, Host host) : world_(world), host_(host) {}

  Result<void> begin(const Motion&) override {
    return edit([this]() -> Result<void> {
      world_.store_ = Store::kMoving;
      return {};
    });
  }
  Result<void> commit(const Motion&) override {
    return edit([this]() -> Result<void> {
      if (world_.store_ == Store::kStays) return fail(ECANCELED, "it was ended");
      world_.store_ = Store::kThere;
      return {};
    });
  }
  Result<void> end(const Motion&) override {
    return edit([this]() -> Result<void> {
      if (world_.store_ == Store::kThere) return fail(EALREADY, "it is there");
      world_.store_ = Store::kStays;
      return {};
    });
  }
  Result<Verdict> look(const Motion&) override {
    const std::lock_guard lock(world_.mutex_);
    if (auto done = world_.call(host_, true); !done) return Failure(done.error());
    world_.was_ready_ = true;
    if (world_.store_ == Store::kThere) return Verdict::kThere;
    return world_.store_ == Store::kMoving ? Verdict::kOpen : Verdict::kStays;
  }
  Result<bool> source_is_gone(const Motion&) override {
    const std::lock_guard lock(world_.mutex_);
    if (auto done = world_.call(host_, true); !done) return Failure(done.error());
    const Party& source = world_.of(Host::kSource);
    const bool is_cut_off = source.store_away_for > 0 && world_.has(Fault::kCutOff);
    return is_cut_off || (source.daemon_dead && !world_.has(Fault::kDaemonComesBack));
  }

 private:
  template <typename Edit>
  Result<void> edit(Edit edit) {
    const std::lock_guard lock(world_.mutex_);
    auto done = world_.call(host_, true);
    const bool lost = std::exchange(world_.answer_lost_, false);
    if (!done && !lost) return fail(ErrorKind::kUnavailable, "the store is away");
    auto outcome = edit();
    world_.check();
    return lost ? Result<void>(fail(ErrorKind::kUnavailable, "the answer is lost")) : outcome;
  }

  MotionWorld& world_;
  const Host host_;
};

// One host's end of the connection.
class MotionWorld::End final : public ByteChannel {
 public:
  End(MotionWorld& world, Host host) : world_(world), host_(host) {}
  ~End() override { interrupt(); }

  Result<void> send(std::span<const std::byte> bytes, Instant) override {
    const std::lock_guard lock(world_.mutex_);
    if (!world_.call(host_)) world_.cut_ = true;
    world_.changed_.notify_all();
    if (world_.cut_) return fail(EPIPE, "the connection broke");
    auto& queue = world_.on_the_wire_[static_cast<std::size_t>(other(host_))];
    queue.insert(queue.end(), bytes.begin(), bytes.end());
    return {};
  }
  Result<std::size_t> receive(std::span<std::byte> into, Instant until) override {
    std::unique_lock lock(world_.mutex_);
    auto& queue = world_.on_the_wire_[static_cast<std::size_t>(host_)];
    const auto left = std::max<Duration>(until - Instant::now(), Duration{});
    world_.changed_.wait_for(lock, left, [&] { return world_.cut_ || !queue.empty(); });
    if (!queue.empty()) {
      const std::size_t bytes = std::min(into.size(), queue.size());
      std::copy_n(queue.begin(), bytes, into.begin());
      queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(bytes));
      return bytes;
    }
    if (world_.cut_) return 0;
    return fail(ETIMEDOUT, "nothing came");
  }
  void interrupt() override {
    const std::lock_guard lock(world_.mutex_);
    world_.cut_ = true;
    world_.changed_.notify_all();
  }

 private:
  MotionWorld& world_;
  const Host host_;
};

// The channel of QEMU's stream. It carries nothing, because the QEMUs are fakes.
class MotionWorld::Nothing final : public ByteChannel {
 public:
  Result<void> send(std::span<const std::byte>, Instant) override { return {}; }
  Result<std::size_t> receive(std::span<std::byte>, Instant) override { return 0; }
  void interrupt() override {}
};

MotionWorld::MotionWorld(std::vector<Mishap> mishaps, Leader leader)
    : mishaps_(std::move(mishaps)), leader_(leader) {
  Party& source = of(Host::kSource);
  source.serves = source.qemu_runs = true;
  source.run_state = "running";
  of(Host::kDestination).run_state = "inmigrate";
  static std::atomic<int> worlds;
  const int number = worlds++;
  for (const Host host : {Host::kSource, Host::kDestination}) {
    const auto index = static_cast<std::size_t>(host);
    paths_[index] = testing::TempDir() + fmt::format("motion_{}_{}_{}", ::getpid(), number, index);
    qemus_[index].emplace(paths_[index], [this, host](const std::string& command, const Json& arguments) {
      return answer(host, command, arguments);
    });
  }
}

std::string MotionWorld::describe() const {
  std::string text;
  for (const Mishap& each : mishaps_) {
    text += fmt::format("fault {} at {} of host {}, ", static_cast<int>(each.fault), each.at,
                        static_cast<int>(each.host));
  }
  return text + fmt::format("\"{}\"", sentence_);
}

Result<void> MotionWorld::call(Host host, bool of_store) {
  Party& party = of(host);
  if (party.daemon_dead) throw DaemonDied{};
  if (of_store && party.store_away_for > 0) return miss_store(host);
  const int at = party.calls++;
  const int store_at = of_store ? party.store_calls++ : -1;
  for (const Mishap& each : mishaps_) {
    if (each.fault == Fault::kLibvirtGivesUp || each.fault == Fault::kCancelled ||
        each.fault == Fault::kSomebodyResumes)
      continue;
    const int here = each.fault == Fault::kAnswerLost ? store_at : at;
    const bool is_qemus = each.fault == Fault::kQemuDies || each.fault == Fault::kQemuRefuses;
    if (each.host == host && each.at == here && !is_qemus) return suffer(each.fault, host, of_store);
  }
  return {};
}

Result<void> MotionWorld::suffer(Fault fault, Host host, bool of_store) {
  happened_ = true;
  switch (fault) {
    case Fault::kDaemonDies:
    case Fault::kDaemonComesBack:
      die(host);
      throw DaemonDied{};
    case Fault::kFails:
      return fail(of_store ? ErrorKind::kUnavailable : ErrorKind::kInternal, "it fails");
    case Fault::kAnswerLost:
      answer_lost_ = true;
      return fail(ErrorKind::kUnavailable, "the answer is lost");
    case Fault::kStoreAway:
    case Fault::kResumedMeanwhile:
      for (Party& each : parties_) each.store_away_for = 2;
      return of_store ? miss_store(host) : Result<void>{};
    case Fault::kCutOff:
      of(host).store_away_for = 4;
      return of_store ? miss_store(host) : Result<void>{};
    case Fault::kQemuDies:
    case Fault::kQemuRefuses:
    case Fault::kLibvirtGivesUp:
    case Fault::kCancelled:
    case Fault::kSomebodyResumes:
      break;
  }
  return {};
}

Result<void> MotionWorld::miss_store(Host host) {
  --of(host).store_away_for;
  Party& source = of(Host::kSource);
  const bool is_given_away = source.run_state == "postmigrate" && !source.qemu_dead;
  if (host == Host::kSource && is_given_away && has(Fault::kResumedMeanwhile)) {
    source.qemu_runs = true;
    source.run_state = "running";
  }
  return fail(ErrorKind::kUnavailable, "the store is away");
}

bool MotionWorld::has(Fault fault) const {
  return std::any_of(mishaps_.begin(), mishaps_.end(),
                     [fault](const Mishap& each) { return each.fault == fault; });
}

// Ends the daemon's adapters and connections.
void MotionWorld::die(Host host) {
  of(host).daemon_dead = true;
  of(host).serves = false;
  cut_ = true;
  changed_.notify_all();
}

void MotionWorld::check() {
  EXPECT_FALSE(of(Host::kSource).serves && of(Host::kDestination).serves) << describe();
  EXPECT_FALSE(runs(Host::kSource) && runs(Host::kDestination)) << describe();
  const bool may_run_before = leader_ == Leader::kLibvirt;
  if (of(Host::kDestination).serves || (runs(Host::kDestination) && !may_run_before)) {
    EXPECT_EQ(store_, Store::kThere) << describe();
  }
  if (of(Host::kSource).serves && store_ == Store::kThere) ADD_FAILURE() << "both may: " << describe();
}

std::optional<Json> MotionWorld::answer(Host host, const std::string& command, const Json& arguments) {
  const std::lock_guard lock(mutex_);
  Party& party = of(host);
  if (party.qemu_dead) return std::nullopt;
  const int at = party.commands++;
  for (const Mishap& each : mishaps_) {
    if (each.fault == Fault::kSomebodyResumes && each.host == host && at >= each.at &&
        party.run_state == "postmigrate" && store_ == Store::kMoving) {
      happened_ = party.qemu_runs = true;
      party.run_state = "running";
    }
    if (each.host != host || each.at != at) continue;
    if (each.fault == Fault::kQemuDies) {
      happened_ = true;
      party.lose_qemu();
      return std::nullopt;
    }
    if (each.fault == Fault::kQemuRefuses) {
      happened_ = true;
      return FakeQemu::refusing("no " + command);
    }
  }
  if (command == "query-version")
    return FakeQemu::returning({{"qemu", {{"major", 11}, {"minor", 1}, {"micro", 3}}}});
  party.seen_waiting |= command == "query-status" && party.run_state == "inmigrate";
  party.seen_whole |= command == "query-migrate" && party.run_state == "postmigrate";
  if (command == "query-status") return FakeQemu::returning({{"status", party.run_state}});
  if (command == "query-pci") return FakeQemu::returning(one_device());
  if (command == "query-chardev")
    return FakeQemu::returning(Json::array(
        {{{"label", "m"}, {"filename", "unix:" + paths_[static_cast<std::size_t>(host)] + ",server=on"}}}));
  if (command == "query-migrate-parameters")
    return FakeQemu::returning({{"max-bandwidth", 1}, {"downtime-limit", 300}});
  if (command == "human-monitor-command") {
    if (host == Host::kDestination && leader_ == Leader::kDaemons) {
      EXPECT_NE(party.migration, "active")
          << "QEMU may load its devices now, and its PCI address port with them: " << describe();
    }
    return FakeQemu::returning(party.ports.answer(arguments.at("command-line").get<std::string>()));
  }
  if (command == "yank" && party.migration == "active") party.migration = "failed";
  if (command == "migrate" || command == "migrate-incoming") party.migration = "active";
  if (command == "migrate-continue") {
    party.migration = "completed";
    party.run_state = "postmigrate";
  }
  // QEMU's stream waits until the destination's QEMU reads it.
  Party& there = of(Host::kDestination);
  if (leader_ == Leader::kDaemons && there.migration == "active" &&
      of(Host::kSource).migration == "completed") {
    there.migration = "completed";
    there.run_state = "paused";
  }
  if (command == "migrate_cancel" && party.migration != "completed" && !party.migration.empty()) {
    party.migration = "cancelled";
    party.run_state = "running";
    party.qemu_runs = true;
  }
  if (command == "query-migrate") return migration_of(host);
  if (command == "cont") {
    party.run_state = "running";
    party.qemu_runs = true;
  }
  if (command == "stop") party.qemu_runs = false;
  if (command == "quit") party.lose_qemu();
  check();
  return FakeQemu::returning();
}

// The memory is copied at once: the VM is stopped at the first query of the progress.
std::optional<Json> MotionWorld::migration_of(Host host) {
  Party& party = of(host);
  if (party.migration.empty()) return FakeQemu::returning();
  const bool gone = of(Host::kSource).qemu_dead && party.migration == "active";
  if (host == Host::kDestination && gone) party.migration = "failed";
  if (leader_ == Leader::kDaemons && host == Host::kSource && party.migration == "active") {
    party.migration = "pre-switchover";
    party.run_state = "finish-migrate";
    party.qemu_runs = false;
  }
  return FakeQemu::returning({{"status", party.migration}, {"ram", {{"total", 4096}, {"remaining", 0}}}});
}

// libvirt starts when the adapter on the destination waits, and goes on whatever happens to the daemons.
void MotionWorld::be_libvirt() {
  int step = 0;
  while (true) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    const std::lock_guard lock(mutex_);
    if (is_too_early(step)) {
      if (libvirt_is_done_) return;
      continue;
    }
    const bool goes_on = step_libvirt(step++);
    check();
    if (!goes_on) {
      libvirt_is_done_ = true;
      return;
    }
  }
}

// Whether libvirt has to wait before it takes this step. A real libvirt needs far longer for the memory and
// for its last steps than a daemon for a look at QEMU. A daemon that looks later costs the VM its
// connections. That is no mishap of this world, so if there is none, libvirt waits for the looks.
bool MotionWorld::is_too_early(int step) const {
  if (step == 0) return !is_expected_;
  if (!mishaps_.empty()) return false;
  return (step == 4 && !of(Host::kDestination).seen_waiting) || (step == 6 && !of(Host::kSource).seen_whole);
}

// libvirt ends the domain on the destination and lets the VM run on the source again.
void MotionWorld::keep_here() {
  Party& here = of(Host::kSource);
  of(Host::kDestination).lose_qemu();
  if (here.qemu_dead) return;
  if (here.migration == "active") here.migration = "cancelled";
  here.run_state = "running";
  here.qemu_runs = true;
}

// Returns false when libvirt has decided.
bool MotionWorld::step_libvirt(int step) {
  Party& here = of(Host::kSource);
  Party& there = of(Host::kDestination);
  for (const Mishap& each : mishaps_) {
    if (each.at != step || each.fault != Fault::kLibvirtGivesUp || step > 5) continue;
    happened_ = true;
    keep_here();
    return false;
  }
  const bool failed = there.qemu_dead || there.migration == "failed" || here.migration == "cancelled";
  if (failed && step < 6) {
    keep_here();
    return false;
  }
  if (here.qemu_dead && step < 5) {
    there.lose_qemu();
    return false;
  }
  switch (step) {
    case 0:
      here.migration = there.migration = "active";
      return true;
    case 1:
    case 2:
      return true;
    case 3:
      here.run_state = "finish-migrate";
      here.qemu_runs = false;
      return true;
    case 4:
      here.migration = there.migration = "completed";
      here.run_state = "postmigrate";
      there.run_state = "paused";
      return true;
    case 5:
      return true;
    case 6:
      here.lose_qemu();
      return true;
    default:
      break;
  }
  // When nobody else is left to do it, an administrator resumes the paused VM.
  const bool somebody_will = !there.daemon_dead && !here.daemon_dead && !cut_;
  if (there.qemu_dead || there.run_state == "running") return false;
  if (step < (somebody_will ? 1000 : 40)) return true;
  there.run_state = "running";
  there.qemu_runs = true;
  return false;
}

bool MotionWorld::look_at_progress() {
  const std::lock_guard lock(mutex_);
  const int at = looks_++;
  for (const Mishap& each : mishaps_) {
    if (each.fault != Fault::kCancelled || at < each.at) continue;
    happened_ = true;
    return false;
  }
  return true;
}

void MotionWorld::lead_source() {
  Side side(*this, Host::kSource);
  StoreSide store(*this, Host::kSource);
  Conversation there(std::make_unique<End>(*this, Host::kSource), "esx-02");
  const auto source = Source::create(
      kMotion,
      {.vm = kMotion.vm,
       .to = kMotion.to,
       .monitor = paths_[0],
       .patience = std::chrono::seconds(5),
       .leader = leader_},
      side, store, there,
      []() -> Result<std::unique_ptr<ByteChannel>> { return std::make_unique<Nothing>(); },
      [this] { return is_idle(Host::kSource); });
  try {
    const auto report = source->run([this](const MotionProgress&) { return look_at_progress(); });
    if (!report) sentence_ = report.error().message;
  } catch (const DaemonDied&) {
    sentence_ = "the source's daemon died";
  }
}

void MotionWorld::lead_destination() {
  Side side(*this, Host::kDestination);
  StoreSide store(*this, Host::kDestination);
  Conversation there(std::make_unique<End>(*this, Host::kDestination), "esx-01");
  try {
    const auto said = there.listen(Instant::now() + std::chrono::seconds(5));
    const auto offer = said && *said ? read_offer(**said) : Result<Offer>(fail(EPIPE, "no offer"));
    if (!offer || !there.say("accepted", Acceptance{.takes_draft = true})) return;
    const auto destination = Destination::create(
        *offer, [this]() -> Result<std::string> { return paths_[1]; }, side, store, there,
        [](Instant) -> Result<std::unique_ptr<ByteChannel>> { return std::make_unique<Nothing>(); },
        [this] { return is_idle(Host::kDestination); });
    static_cast<void>(destination->run());
  } catch (const DaemonDied&) {
  }
}

// If libvirt leads, stops a daemon whose VM is not here and that will never be told where it is.
bool MotionWorld::is_idle(Host host) {
  const std::lock_guard lock(mutex_);
  return leader_ == Leader::kLibvirt && libvirt_is_done_ && of(other(host)).daemon_dead && !runs(host);
}

void MotionWorld::run() {
  std::thread destination([this] { lead_destination(); });
  std::thread libvirt([this] {
    if (leader_ == Leader::kLibvirt) be_libvirt();
  });
  lead_source();
  destination.join();
  {
    const std::lock_guard lock(mutex_);
    libvirt_is_done_ = true;
  }
  libvirt.join();
  const std::lock_guard lock(mutex_);
  check();
}

}  // namespace pvrdma::motion
