#include "api/watch.h"

#include <fmt/format.h>
#include <thread>
#include <utility>

#include "api/answers.h"
#include "api/connection_queue.h"
#include "api/event_views.h"
#include "api/inventory_views.h"

namespace pvrdma::api {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kSamplePeriod{1};
constexpr std::chrono::milliseconds kLookPeriod{100};  // the longest wait of ByteStream::read()
constexpr std::chrono::seconds kSilence{10};           // the longest time without a byte
constexpr std::size_t kToldEventsMax = 128;            // in one message

template <typename Duration>
std::int64_t since_1970() {
  return std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// JSON texts have no newline, which would end a line of an event.
std::string event_text(std::string_view event, std::string_view data) {
  return fmt::format("event: {}\ndata: {}\n\n", event, data);
}

template <typename Named>
std::uint64_t value_of(const std::vector<Named>& list, std::string_view name) {
  for (const Named& each : list) {
    if (each.name == name) return each.value;
  }
  return 0;
}

std::uint64_t retransmits_of(const snapshots::AdapterSnapshot& adapter) {
  for (const snapshots::CounterGroup& group : adapter.groups) {
    if (group.name == "verbs") return value_of(group.counters, "retransmits");
  }
  return 0;
}

// An array and not an object with names: an adapter comes each second.
Json stats_of(const snapshots::AdapterSnapshot& adapter) {
  Json paths = Json::object();
  for (const snapshots::PathUse& use : adapter.paths)
    paths[std::string(use.path)] = {use.messages, use.payload_bytes};
  Json budgets = Json::object();
  for (const BudgetUse& each : adapter.budgets)
    budgets[std::string(to_text(each.budget))] = {each.use, each.refused};
  return Json::array({adapter.name, adapter.state, adapter.link_up, adapter.tx_messages, adapter.tx_bytes,
                      adapter.rx_messages, adapter.rx_bytes, retransmits_of(adapter),
                      value_of(adapter.objects, "qps"), std::move(paths), std::move(budgets)});
}

std::string stats_text(const snapshots::Snapshot& snapshot) {
  Json adapters = Json::array();
  for (const snapshots::AdapterSnapshot& each : snapshot.adapters) adapters.push_back(stats_of(each));
  return text_of(Json{{"t", since_1970<std::chrono::milliseconds>()}, {"adapters", std::move(adapters)}});
}

std::string inventory_text(const control::Inventory& inventory, const std::string& self,
                           const std::vector<adapters::AdapterTrouble>& not_served) {
  return fmt::format(R"({{"revision":{},"hosts":{},"dvs":{},"vms":{}}})", inventory.revision,
                     text_of(host_views(inventory, self)), text_of(switch_views(inventory)),
                     text_of(vm_views(inventory, self, not_served)));
}

Reply refuse_watcher(const std::string& client, const Places& watchers) {
  std::vector<std::string> holders;
  for (const auto& [holder, count] : watchers.taken())
    holders.push_back(fmt::format("{}: {}", holder, count));
  return refuse(ErrorKind::kUnavailable,
                fmt::format("{} gets no further watcher of this listener, which has at most {} of one client "
                            "and {} of all ({}): end one, or ask for the objects from time to time",
                            client, kWatchersOfClientMax, kWatchersMax, fmt::join(holders, ", ")));
}

Reply watch(const std::shared_ptr<Sampler>& sampler, const Call& call) {
  const auto after = number_of(call, "after");
  if (!after) return refuse(after.error());
  std::unique_ptr<const Places::Place> place;
  if (call.watchers != nullptr) {
    const std::string client = client_of(call.client);
    place = std::make_unique<const Places::Place>(*call.watchers, client);
    if (!place->is_taken()) return refuse_watcher(client, *call.watchers);
  }
  return {.type = "text/event-stream",
          .stream = std::make_shared<Watch>(sampler, std::move(place),
                                            after->value_or(sampler->event_ring().last())),
          .headers = {{"Cache-Control", "no-store"}}};
}

}  // namespace

Sampler::Sampler(const ApiParts& parts) : parts_(parts) {}

std::string Sampler::hello() const {
  Json hello{{"boot", boot_id()}, {"features", features_of(parts_)}};
  hello["host"] = parts_.plane == nullptr ? Json() : Json(parts_.plane->host());
  hello["revision"] = parts_.plane == nullptr ? 0 : parts_.plane->inventory()->revision;
  return event_text("hello", text_of(hello));
}

Sampler::Events Sampler::newest() {
  const std::lock_guard lock(mutex_);
  if (steady_clock::now() >= next_sample_) {
    sample();
    // The time counts from now, because a shard that does not answer costs seconds. The watchers that waited
    // meanwhile then do not ask it again.
    next_sample_ = steady_clock::now() + kSamplePeriod;
  }
  if (parts_.plane != nullptr) look_at_inventory();
  return events_;
}

void Sampler::sample() {
  if (parts_.plane != nullptr) {
    const control::StoreState store = parts_.plane->store_state();
    tell(Topic::kStore, "store", text_of(Json{{"connected", store.connected}, {"trouble", store.trouble}}));
    tell(Topic::kMotions, "motions", text_of(parts_.motions->list()));
  }
  // Without an answer of the shard there are no counters in this second.
  auto snapshot = parts_.source.take_snapshot(snapshots::SnapshotDetail::kAdapters);
  if (!snapshot) return;
  tell(Topic::kStats, "stats", stats_text(*snapshot));
  if (snapshot->not_served != not_served_) {
    not_served_ = std::move(snapshot->not_served);
    seen_ = nullptr;
  }
}

// Hosts come and go and VMs are powered on without a new revision, so each new inventory is looked at.
void Sampler::look_at_inventory() {
  auto inventory = parts_.plane->inventory();
  if (inventory == seen_) return;
  tell(Topic::kInventory, "inventory", inventory_text(*inventory, parts_.plane->host(), not_served_));
  seen_ = std::move(inventory);
}

void Sampler::tell(Topic topic, std::string_view event, const std::string& what) {
  const auto index = static_cast<std::size_t>(topic);
  if (what == told_[index]) return;
  told_[index] = what;
  ++events_[index].version;
  events_[index].text = std::make_shared<const std::string>(
      what.size() <= kWatchedBytesMax ? event_text(event, what)
                                      : event_text("changed", text_of(Json{{"what", event}})));
}

Watch::Watch(std::shared_ptr<Sampler> sampler, std::unique_ptr<const Places::Place> place,
             std::uint64_t events_after)
    : sampler_(std::move(sampler)), place_(std::move(place)), events_after_(events_after) {}

bool Watch::read(std::string& out) {
  const std::size_t before = out.size();
  if (!std::exchange(greeted_, true)) out += sampler_->hello();
  const Sampler::Events events = sampler_->newest();
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].version == seen_[i]) continue;
    seen_[i] = events[i].version;
    out += *events[i].text;
  }
  tell_events(out);
  const auto now = steady_clock::now();
  if (out.size() == before && now - last_ >= kSilence) out += ":\n\n";  // a comment
  if (out.size() != before) {
    last_ = now;
  } else {
    std::this_thread::sleep_for(kLookPeriod);
  }
  return true;
}

void Watch::tell_events(std::string& out) {
  if (sampler_->event_ring().last() == events_after_) return;
  const EventPage page{sampler_->event_ring().page(events_after_, kToldEventsMax)};
  events_after_ = page.last;
  out += event_text("events", text_of(page));
}

void add_watch_route(Router& router, const ApiParts& parts) {
  router.add({.method = "GET",
              .path = "/v1/watch",
              .summary = "What changes, as server-sent events, until the client stops reading",
              .body = nullptr,
              .answer = events_schema,
              .handler = [sampler = std::make_shared<Sampler>(parts)](
                             const Call& call) { return watch(sampler, call); },
              .query = {"after"},
              .streams = true,
              .query_numbers = true});
}

}  // namespace pvrdma::api
