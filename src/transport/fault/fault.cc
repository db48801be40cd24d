#include "transport/fault/fault.h"

#include <type_traits>
#include <utility>
#include <variant>

namespace pvrdma::transport {
namespace {

constexpr std::size_t kHostsExpected = 64;  // hosts that are refused room at the same time

guestmem::SpanList first(const guestmem::SpanList& payload, std::uint64_t bytes) {
  guestmem::SpanList front;
  for (const guestmem::HostSpan& piece : payload) {
    const std::uint64_t wanted = std::min<std::uint64_t>(piece.size, bytes - front.bytes());
    static_cast<void>(front.append(piece.data, static_cast<std::size_t>(wanted)));
  }
  return front;
}

}  // namespace

struct Fault::Wrapped {
  verbs::PathSlot path;  // a path of the wrapped transport
  Place place;
  verbs::Connection connection;
  Instant ordered_after{Duration::min()};
};

class Fault::Pool {
 public:
  explicit Pool(std::size_t paths_max) : paths_max_(paths_max), all_(std::make_unique<Wrapped[]>(paths_max)) {
    free_.reserve(paths_max);
    for (std::size_t i = paths_max; i != 0; --i) free_.push_back(&all_[i - 1]);
  }

  // Null: the pool is empty.
  Wrapped* take() {
    if (free_.empty()) return nullptr;
    Wrapped* taken = free_.back();
    free_.pop_back();
    return taken;
  }
  void give_back(Wrapped& wrapped) {
    wrapped.path.close();
    free_.push_back(&wrapped);
  }
  // Closes every path of the wrapped transport.
  void close_all() {
    for (std::size_t i = 0; i < paths_max_; ++i) all_[i].path.close();
  }

 private:
  const std::size_t paths_max_;
  const std::unique_ptr<Wrapped[]> all_;
  std::vector<Wrapped*> free_;
};

class Fault::FaultPath final : public verbs::Path {
 public:
  FaultPath(Fault& fault, Wrapped& wrapped, Traffic& traffic)
      : fault_(fault), pool_(fault.pool_), wrapped_(wrapped), traffic_(traffic) {}
  ~FaultPath() override { pool_->give_back(wrapped_); }

  // Empty after close_paths(): nothing is sent any more.
  std::string trouble() const override {
    return wrapped_.path.is_open() ? wrapped_.path->trouble() : std::string();
  }
  std::uint32_t room(std::uint32_t wanted, Instant now) override {
    return fault_.room(wrapped_, wanted, now);
  }
  void send_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant now) override {
    traffic_.count(payload);
    fault_.carry(wrapped_.place, wrapped_.connection, wrapped_.ordered_after, request, payload, now,
                 [this, now](const verbs::Request& message, const guestmem::SpanList& bytes) {
                   wrapped_.path->send_request(message, bytes, now);
                 });
  }
  void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant now) override {
    traffic_.count(payload);
    fault_.carry(wrapped_.place, wrapped_.connection, wrapped_.ordered_after, response, payload, now,
                 [this, now](const verbs::Response& message, const guestmem::SpanList& bytes) {
                   wrapped_.path->send_response(message, bytes, now);
                 });
  }

 private:
  Fault& fault_;  // borrowed, as traffic_
  const std::shared_ptr<Pool> pool_;
  Wrapped& wrapped_;  // owned by the pool
  Traffic& traffic_;
};

Fault::Fault(Transport& inner, Inbound& inbound, const FaultOptions& options)
    : inner_(inner),
      inbound_(inbound),
      dice_(options.seed),
      pool_(std::make_shared<Pool>(options.paths_max)),
      late_(options.messages_max) {
  refused_.reserve(kHostsExpected);
  telling_.reserve(kHostsExpected);
}

Fault::~Fault() {
  close_paths();
}

void Fault::close_paths() {
  if (pool_ != nullptr) pool_->close_all();
  pool_.reset();
}

void Fault::open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
                 verbs::PathSlot& slot) {
  slot.close();  // the pool may have no other free entry
  Wrapped* wrapped = pool_->take();
  if (wrapped == nullptr) {
    ++faults_.bare_paths;
    inner_.open(place, connection, traffic, slot);
    return;
  }
  wrapped->place = place;
  wrapped->place.copies = true;
  wrapped->connection = connection;
  wrapped->ordered_after = Instant{Duration::min()};
  inner_.open(wrapped->place, connection, unused_, wrapped->path);
  slot.open<FaultPath>(*this, *wrapped, traffic);
}

bool Fault::send_datagram(const Place& place, const verbs::Datagram& datagram,
                          const guestmem::SpanList& payload, Traffic& traffic, Instant now) {
  traffic.count(payload);
  Instant no_order{Duration::min()};
  bool has_room = true;
  carry(place, {}, no_order, datagram, payload, now,
        [&](const verbs::Datagram& message, const guestmem::SpanList& bytes) {
          has_room = inner_.send_datagram(place, message, bytes, unused_, now);
        });
  return has_room;
}

std::uint32_t Fault::room(Wrapped& wrapped, std::uint32_t wanted, Instant now) {
  if (refuses_until_ == Instant::never()) {
    if (!dice_.chance(settings_.refuse_ppm)) return wrapped.path->room(wanted, now);
    // The refusal lasts at least one nanosecond. Otherwise a caller that is told of room and refused again
    // could loop in the same instant.
    refuses_until_ = now + Duration(1) + dice_.up_to(settings_.refusal_max);
  }
  ++faults_.refused;
  if (std::find(refused_.begin(), refused_.end(), wrapped.place.host) == refused_.end())
    refused_.push_back(wrapped.place.host);
  return 0;
}

template <typename Message, typename Send>
void Fault::carry(const Place& place, const verbs::Connection& connection, Instant& ordered_after,
                  const Message& message, const guestmem::SpanList& payload, Instant now, Send send) {
  ++faults_.messages;
  if (dice_.chance(settings_.drop_ppm)) {
    ++faults_.dropped;
    return;
  }
  const auto go_on = [&](const Message& whole, const guestmem::SpanList& bytes) {
    const auto keep_until = [&](Instant due) {
      const bool kept = late_.add({place, connection, whole}, bytes, due);
      if (!kept) ++faults_.no_copy;
      return kept;
    };
    if (dice_.chance(settings_.duplicate_ppm) && keep_until(dice_.late(settings_, now))) ++faults_.duplicated;
    if (dice_.chance(settings_.reorder_ppm) && keep_until(dice_.late(settings_, now))) {
      ++faults_.reordered;
      return;
    }
    if (dice_.chance(settings_.delay_ppm))
      ordered_after = std::max(ordered_after, dice_.late(settings_, now));
    // A message that is already due may still wait for its delivery.
    const bool is_held_up = ordered_after > now || late_.next_due() <= ordered_after;
    if (is_held_up && keep_until(ordered_after)) {
      ++faults_.delayed;
      return;
    }
    send(whole, bytes);
  };
  if (!dice_.chance(settings_.corrupt_ppm)) {
    go_on(message, payload);
    return;
  }
  ++faults_.corrupted;
  if constexpr (!std::is_same_v<Message, verbs::Datagram>) {
    const std::uint64_t sound = payload.empty() ? 0 : dice_.below(payload.bytes());
    if (sound == 0) return;
    Message shorter = message;
    shorter.bytes = static_cast<std::uint32_t>(sound);
    go_on(shorter, first(payload, sound));
  }
}

void Fault::deliver(const fault::LateMessage& late, const guestmem::SpanList& payload, Instant now) {
  if (const auto* datagram = std::get_if<verbs::Datagram>(&late.content)) {
    static_cast<void>(inner_.send_datagram(late.place, *datagram, payload, unused_, now));
    return;
  }
  verbs::PathSlot path;
  inner_.open(late.place, late.connection, unused_, path);
  if (const auto* response = std::get_if<verbs::Response>(&late.content)) {
    path->send_response(*response, payload, now);
    return;
  }
  verbs::Request request = std::get<verbs::Request>(late.content);
  const std::uint32_t room = path->room(std::max(1U, static_cast<std::uint32_t>(payload.bytes())), now);
  if (room == 0) {
    ++faults_.late_lost;
  } else if (room < payload.bytes()) {
    request.bytes = room;
    path->send_request(request, first(payload, room), now);
  } else {
    path->send_request(request, payload, now);
  }
}

void Fault::deliver_all(Instant now) {
  for (std::size_t left = late_.size(); left != 0; --left) {
    late_.deliver_first([this, now](const fault::LateMessage& late, const guestmem::SpanList& payload) {
      deliver(late, payload, now);
    });
  }
  inner_.flush(now);
}

// A message that is added meanwhile with no delay waits for the next call.
void Fault::on_time(Instant now) {
  for (std::size_t left = late_.size(); left != 0 && late_.next_due() <= now; --left) {
    late_.deliver_first([this, now](const fault::LateMessage& late, const guestmem::SpanList& payload) {
      deliver(late, payload, now);
    });
  }
  inner_.flush(now);
  if (refuses_until_ > now) return;
  refuses_until_ = Instant::never();
  telling_.swap(refused_);
  for (const HostId host : telling_) inbound_.on_ready(host, now);
  telling_.clear();
}

}  // namespace pvrdma::transport
