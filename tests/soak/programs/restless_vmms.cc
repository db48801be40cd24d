// restless_vmms: VMMs that change their guests' memory at random, while the guests write into it. It is a
// part of the soak (tests/soak/memory_soak.py).
//
// A guest's writes go to pages of its own slots or of another guest's. Now and then one is checked: if the
// page is plugged and nobody's memory was taken away, the write must succeed and be in the VMM's file; if
// nothing is plugged there, it must fail.
//
// Ends after --seconds with "done", what it did and how often, and exit code 0. A fault ends it with "wrong",
// a sentence, and exit code 1.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fmt/core.h>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include "restless_vmm.h"
#include "support/must.h"
#include "support/rc_endpoint.h"

namespace pvrdma::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPairsMax = 8;
constexpr std::uint64_t kRegionPagesMax = 64;
constexpr std::uint32_t kUnderWayMax = 64;  // writes of a pair
constexpr std::uint64_t kStampAt = 4088;    // in a page; other writes end before
constexpr std::chrono::seconds kPatience{20};

struct Options {
  std::vector<std::string> sockets;
  std::uint64_t seed = 1;
  double seconds = 10;
};

// A connection whose target region names pages of one slot.
struct Pair {
  Pair(RestlessVmm& from_vmm, RestlessVmm& to_vmm, std::size_t slot_number, std::uint64_t first_page,
       std::uint64_t page_count, bool user)
      : from(from_vmm), to(to_vmm), slot(slot_number), first(first_page), pages(page_count) {
    if (user) context = must(driver::Context::create_user(from.device()));
    EndpointOptions options = small_endpoint(context ? *context : from.device().kernel());
    options.max_send_wr = options.cq_entries = kUnderWayMax;
    source = std::make_unique<RcEndpoint>(from.device(), gid_of(from.index()), options);
    target =
        std::make_unique<RcEndpoint>(to.device(), gid_of(to.index()), small_endpoint(to.device().kernel()));
    must(connect(*source, *target));
    std::vector<driver::GuestPhys> named;
    for (std::uint64_t page = first; page < first + pages; ++page)
      named.emplace_back(RestlessVmm::address_of(slot) + page * abi::kPageBytes);
    region = must(driver::MemoryRegion::of_pages(
        target->pd, {.start = 0, .length = pages * abi::kPageBytes, .access = kFullAccess, .pages = named}));
  }

  bool touches(const RestlessVmm& vmm) const { return &from == &vmm || &to == &vmm; }
  bool may_fail() const { return from.may_fail() || to.may_fail(); }
  bool page_is_plugged(std::uint64_t page) const {
    return to.slot(slot).file && (first + page + 1) * abi::kPageBytes <= to.slot(slot).bytes;
  }

  // Takes completions.
  void poll() {
    std::vector<driver::WorkCompletion> done(kUnderWayMax);
    done.resize(source->send_cq->poll(done, driver::CompletionQueue::WhenEmpty::kReturn));
    if (done.size() > under_way && !may_fail()) throw std::runtime_error("a write completed twice");
    under_way -= std::min(under_way, done.size());
    for (const driver::WorkCompletion& each : done) failed = failed || !each.ok();
  }
  // False: some are still under way.
  bool settle() {
    const Clock::time_point end = Clock::now() + kPatience;
    for (poll(); under_way > 0 && !may_fail() && Clock::now() < end; poll()) ::usleep(200);
    return under_way == 0;
  }

  RestlessVmm& from;
  RestlessVmm& to;
  const std::size_t slot;
  const std::uint64_t first;
  const std::uint64_t pages;
  std::unique_ptr<driver::Context> context;  // null: the kernel's
  std::unique_ptr<RcEndpoint> source;
  std::unique_ptr<RcEndpoint> target;
  std::unique_ptr<driver::MemoryRegion> region;
  std::size_t under_way = 0;
  bool failed = false;
};

class World {
 public:
  explicit World(const Options& options) : random_(options.seed) {
    for (std::uint32_t index = 0; index < options.sockets.size(); ++index)
      vmms_.push_back(std::make_unique<RestlessVmm>(options.sockets[index], index, random_));
    std::vector<double> weights;
    for (const Act& act : acts_) weights.push_back(act.weight);
    choice_ = std::discrete_distribution<std::size_t>(weights.begin(), weights.end());
  }

  void step() {
    const Act& act = acts_[choice_(random_)];
    RestlessVmm& vmm = *vmms_[up_to(vmms_.size() - 1)];
    try {
      if (act.run(*this, vmm)) ++done_[act.name];
    } catch (const std::runtime_error& error) {
      go_on_after(vmm, fmt::format("{} of VMM {}: {}", act.name, vmm.index(), error.what()));
    }
  }
  std::string done() const {
    std::string all;
    for (const auto& [name, count] : done_) all += fmt::format(" {} {}", name, count);
    return all;
  }

 private:
  struct Act {
    std::string name;
    double weight;
    std::function<bool(World&, RestlessVmm&)> run;
  };
  static std::vector<Act> acts() {
    const auto of_vmm = [](bool (RestlessVmm::*change)()) {
      return [change](World&, RestlessVmm& vmm) { return (vmm.*change)(); };
    };
    const auto end_by = [](void (RestlessVmm::*end)()) {
      return [end](World& world, RestlessVmm& vmm) {
        world.drop_pairs(vmm);
        (vmm.*end)();
        return true;
      };
    };
    return {{"plug", 24, of_vmm(&RestlessVmm::plug)},
            {"unplug", 12, of_vmm(&RestlessVmm::unplug)},
            {"unplug_several", 3, of_vmm(&RestlessVmm::unplug_several)},
            {"cut", 3, of_vmm(&RestlessVmm::cut)},
            {"punch", 14, of_vmm(&RestlessVmm::punch)},
            {"punch_ram", 1, of_vmm(&RestlessVmm::punch_ram)},
            {"shrink", 2, of_vmm(&RestlessVmm::shrink)},
            {"grow", 2, of_vmm(&RestlessVmm::grow)},
            {"log", 4, of_vmm(&RestlessVmm::toggle_log)},
            {"reset", 2, end_by(&RestlessVmm::reset)},
            {"leave", 1, end_by(&RestlessVmm::leave)},
            {"die", 2, end_by(&RestlessVmm::die)},
            {"connect", 20, &World::connect_pair},
            {"write", 70, &World::write},
            {"check", 40, &World::check}};
  }

  std::uint64_t up_to(std::uint64_t most) { return random_() % (most + 1); }

  // The VMM's adapter, or that of its peer, may have failed. Then it must answer, and lives on as another.
  void go_on_after(RestlessVmm& vmm, const std::string& why) {
    bool excused = false;
    for (const auto& each : vmms_) {
      each->expect_answer();
      if (!each->may_fail()) continue;
      excused = true;
      drop_pairs(*each);
      each->die();
      ++done_["failed"];
    }
    if (!excused) throw std::runtime_error(why);
    drop_pairs(vmm);
  }

  void drop_pairs(const RestlessVmm& vmm) {
    std::erase_if(pairs_, [&](const auto& pair) { return pair->touches(vmm); });
  }

  bool connect_pair(RestlessVmm& from) {
    RestlessVmm& to = *vmms_[up_to(vmms_.size() - 1)];
    const std::size_t slot = to.any_plugged();
    if (pairs_.size() == kPairsMax || slot == RestlessVmm::kSlots) return false;
    const std::uint64_t pages = to.slot(slot).bytes / abi::kPageBytes;
    const std::uint64_t first = up_to(pages - 1);
    const std::uint64_t count = 1 + up_to(std::min(pages - first, kRegionPagesMax) - 1);
    pairs_.push_back(std::make_unique<Pair>(from, to, slot, first, count, up_to(2) != 0));
    return true;
  }

  Pair* any_pair(const RestlessVmm& from) {
    std::vector<Pair*> all;
    for (const auto& pair : pairs_) {
      if (&pair->from == &from) all.push_back(pair.get());
    }
    return all.empty() ? nullptr : all[up_to(all.size() - 1)];
  }
  void drop(const Pair* dropped) {
    std::erase_if(pairs_, [dropped](const auto& pair) { return pair.get() == dropped; });
  }

  // Posts and does not wait, so that the next acts happen meanwhile.
  bool write(RestlessVmm& from) {
    Pair* const pair = any_pair(from);
    if (pair == nullptr) return false;
    pair->poll();
    if (pair->failed) {
      drop(pair);
      return false;
    }
    if (pair->under_way == kUnderWayMax) return false;
    std::vector<driver::Sge> pieces(1 + up_to(kUnderWayMax - pair->under_way - 1));
    std::vector<driver::SendRequest> requests;
    for (driver::Sge& piece : pieces) {
      const auto bytes = static_cast<std::uint32_t>(8 * (1 + up_to(kStampAt / 8 - 1)));
      piece = pair->source->sge(up_to(15) * abi::kPageBytes, bytes);
      const driver::Remote there{up_to(pair->pages - 1) * abi::kPageBytes, pair->region->rkey()};
      requests.push_back(up_to(3) == 0 ? driver::wr::read(1, {&piece, 1}, there)
                                       : driver::wr::write(1, {&piece, 1}, there));
    }
    pair->under_way += pair->source->qp->post_send(requests).count;
    return true;
  }

  // One write of eight bytes, while nothing else happens.
  bool check(RestlessVmm& from) {
    Pair* const pair = any_pair(from);
    if (pair == nullptr) return false;
    if (!pair->settle() && !pair->may_fail()) throw std::runtime_error("writes did not complete");
    if (pair->failed || pair->may_fail()) {
      drop(pair);
      return false;
    }
    const std::uint64_t page = up_to(pair->pages - 1);
    const std::uint64_t stamp = random_();
    std::memcpy(pair->source->bytes(), &stamp, sizeof stamp);
    const driver::Sge sge = pair->source->sge(0, sizeof stamp);
    const driver::Remote there{page * abi::kPageBytes + kStampAt, pair->region->rkey()};
    pair->under_way += pair->source->qp->post_send(driver::wr::write(1, {&sge, 1}, there)).count;
    if (pair->under_way != 1) throw std::runtime_error("a write could not be posted");
    if (!pair->settle()) throw std::runtime_error("a write did not complete");
    if (pair->page_is_plugged(page) == pair->failed) {
      throw std::runtime_error(pair->failed ? "a write into plugged memory failed"
                                            : "a write into memory that is not plugged succeeded");
    }
    std::uint64_t found = stamp;
    const std::uint64_t at = (pair->first + page) * abi::kPageBytes + kStampAt;
    if (!pair->failed && ::pread(pair->to.slot(pair->slot).file.get(), &found, sizeof found,
                                 static_cast<off_t>(at)) != sizeof found) {
      throw std::runtime_error("a slot could not be read");
    }
    if (found != stamp) throw std::runtime_error("a write succeeded, and the slot has other bytes");
    ++done_[pair->failed ? "refused" : "written"];
    return true;
  }

  const std::vector<Act> acts_ = acts();
  std::mt19937_64 random_;
  std::discrete_distribution<std::size_t> choice_;  // of an act
  std::vector<std::unique_ptr<RestlessVmm>> vmms_;
  std::vector<std::unique_ptr<Pair>> pairs_;  // destroyed before the drivers
  std::map<std::string, std::uint64_t> done_;
};

int run(int argc, char** argv) {
  Options options;
  CLI::App app("restless_vmms: VMMs that change their guests' memory at random");
  app.add_option("--socket", options.sockets, "vfio-user socket of an adapter; may be given several times")
      ->required();
  app.add_option("--seed", options.seed, "of all choices");
  app.add_option("--seconds", options.seconds, "how long");
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGPIPE, SIG_IGN);
  try {
    World world(options);
    const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
    while (Clock::now() < end) world.step();
    fmt::print("done{}\n", world.done());
    return 0;
  } catch (const std::exception& error) {
    fmt::print("wrong {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace pvrdma::test

int main(int argc, char** argv) {
  return pvrdma::test::run(argc, argv);
}
