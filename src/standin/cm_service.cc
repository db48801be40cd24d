#include "standin/cm_service.h"

#include "base/random_bytes.h"
#include "standin/cm_file.h"

namespace pvrdma::standin {
namespace {

// A last message of each connection, and some answers.
constexpr std::size_t kUnsentMax = 2 * cm::kCreated.of_all;
constexpr Duration kLookAgain = std::chrono::milliseconds(2);

std::uint64_t random_number() {
  std::uint64_t value = 0;
  fill_random(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

}  // namespace

Result<std::unique_ptr<CmService>> CmService::create(Adapter& adapter) {
  auto gsi = GsiPort::create(adapter.device(), adapter.gids());
  if (!gsi) return Failure(std::move(gsi.error()));
  cm::Options options;
  for (std::size_t i = 1; i < adapter.gids().size(); ++i) options.addresses.push_back(adapter.gids()[i].raw);
  options.addresses.push_back(adapter.gids().front().raw);  // the link-local one
  options.ca_guid = adapter.device().caps().node_guid.to_host();
  options.random = random_number;
  return std::unique_ptr<CmService>(new CmService(adapter, std::move(*gsi), std::move(options)));
}

void CmService::set_owner(cm::Handle id, CmFile* file) {
  if (file == nullptr) {
    owners_.erase(id);
  } else {
    owners_[id] = file;
  }
}

CmFile* CmService::owner(cm::Handle id) const {
  const auto found = owners_.find(id);
  return found == owners_.end() ? nullptr : found->second;
}

void CmService::take_datagrams() {
  if (adapter_.is_lost()) return;
  const auto taken = gsi_->take();
  if (!taken) {
    (void)adapter_.errno_of(taken.error());
    return;
  }
  const Instant now = Instant::now();
  for (const cm::Datagram& each : *taken) manager_.receive(each.from, each.to, each.mad, now);
  flush();
}

void CmService::run_timers() {
  const Instant now = Instant::now();
  manager_.run_timers(now);
  if (now >= look_again_) {
    look_again_ = Instant::never();
    unsent_.insert(unsent_.end(), unresolved_.begin(), unresolved_.end());
    unresolved_.clear();
  }
  flush();
}

// A datagram that leaves notifies, as an arrival does: then comes the next turn.
void CmService::send_waiting() {
  while (!unsent_.empty() && !adapter_.is_lost()) {
    const Instant now = Instant::now();
    const cm::Datagram& next = unsent_.front();
    const Neighbors::Found next_hop = adapter_.neighbors().find({next.to}, now);
    if (next_hop.is_asked) {
      if (unresolved_.empty()) look_again_ = now + kLookAgain;
      unresolved_.push_back(next);
      unsent_.pop_front();
      continue;
    }
    const auto sent = gsi_->send(next, next_hop.mac);
    if (!sent) {
      (void)adapter_.errno_of(sent.error());
    } else if (*sent == GsiPort::Sent::kNoRoom) {
      return;
    }
    unsent_.pop_front();
  }
}

void CmService::flush() {
  // One that is dropped is repeated, if it needs an answer.
  for (const cm::Datagram& each : manager_.take_datagrams()) {
    if (unsent_.size() + unresolved_.size() < kUnsentMax) unsent_.push_back(each);
  }
  send_waiting();
  for (cm::Event& event : manager_.take_events()) {
    CmFile* const file = owner(event.known_id());
    if (file != nullptr) file->put(std::move(event));
  }
}

}  // namespace pvrdma::standin
