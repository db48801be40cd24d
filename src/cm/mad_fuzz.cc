// Fuzzes what machines that reach the adapter send to its connection manager: MADs, and their order.
//
// The input is a list of steps: a kind, then what it needs. 0: a MAD of 256 bytes comes from the peer; 1: the
// same from a stranger; 2: time passes; 3 to 7: the program acts on its newest id; 8: a MAD of the peer that
// names the ids of this end, so that it reaches the state machine; 9: the same with the id in the place where
// a SIDR_REP has it; 10: the program asks for a datagram QP. What parse() accepts must be built and accepted
// alike; the manager must stay inside its bounds and never send without end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "base/check.h"
#include "cm/manager.h"

namespace {

using namespace pvrdma;
using namespace pvrdma::cm;

constexpr Gid kOwn{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, 0, 1};
constexpr Gid kPeer{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, 0, 2};
constexpr Gid kStranger{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, 0, 3};
constexpr std::uint32_t kBacklog = 4;

class World {
 public:
  World() : manager_({.addresses = {kOwn}, .ca_guid = 1, .random = std::mt19937_64(1)}) {
    listener_ = *manager_.create(0);
    (void)manager_.bind(listener_, {{}, 7000});
    (void)manager_.listen(listener_, kBacklog);
    datagram_listener_ = *manager_.create(0, PortSpace::kUdp);
    (void)manager_.bind(datagram_listener_, {{}, 7000});
    (void)manager_.listen(datagram_listener_, kBacklog);
    ids_.push_back(newest_ = *manager_.create(0));
    (void)manager_.resolve(newest_, {}, {kPeer, 7000});
    (void)manager_.connect(newest_, {.qpn = 5}, {}, now_);
    look();
  }

  // `id_at`: where in the MAD's data the id of this end stands, if it does.
  void receive(Mad mad, const Gid& from, std::optional<std::size_t> id_at) {
    if (id_at) std::memcpy(mad.data() + 24 + *id_at, &last_id_, sizeof(last_id_));
    if (const auto message = parse(mad)) {
      const Mad again = build(*message);
      const auto reread = parse(again);
      PVRDMA_CHECK(reread && build(*reread) == again, "a MAD is built as it was read");
    }
    manager_.receive(from, kOwn, mad, now_);
    PVRDMA_CHECK(look() <= 2, "a MAD causes at most two");
  }

  void pass(Duration time) {
    now_ = now_ + time;
    manager_.run_timers(now_);
    look();
  }

  void act(std::uint8_t kind) {
    switch (kind) {
      case 3:
        (void)manager_.accept(newest_, {.qpn = 6}, {}, now_);
        break;
      case 4:
        (void)manager_.confirm(newest_);
        break;
      case 5:
        (void)manager_.reject(newest_, 28, {}, now_);
        break;
      case 6:
        (void)manager_.disconnect(newest_, now_);
        break;
      default:
        (void)manager_.destroy(newest_, now_);
        break;
    }
    look();
  }

  void ask_for_qp() {
    const auto made = manager_.create(0, PortSpace::kUdp);
    if (!made) return;
    ids_.push_back(newest_ = *made);
    (void)manager_.resolve(newest_, {}, {kPeer, 7000});
    (void)manager_.connect(newest_, {}, {}, now_);
    look();
  }

  // However it went, everything ends by itself.
  void finish() {
    (void)manager_.destroy(listener_, now_);
    (void)manager_.destroy(datagram_listener_, now_);
    for (const Handle id : ids_) (void)manager_.destroy(id, now_);
    for (int i = 0; i < 4000 && manager_.deadline() != Instant::never(); ++i) {
      now_ = std::max(now_, manager_.deadline());
      manager_.run_timers(now_);
      look();
    }
    PVRDMA_CHECK(manager_.connection_count() == 0, "nothing is left");
  }

 private:
  std::size_t look() {
    for (const Event& event : manager_.take_events()) {
      if (event.type == EventType::kConnectRequest) {
        newest_ = event.id;
        ids_.push_back(event.id);
      }
    }
    const auto sent = manager_.take_datagrams();
    for (const Datagram& each : sent) std::memcpy(&last_id_, each.mad.data() + 24, sizeof(last_id_));
    for (const Handle each : {listener_, datagram_listener_}) {
      const Connection* const listener = manager_.find(each);
      PVRDMA_CHECK(listener == nullptr || listener->pending.size() <= kBacklog, "the backlog is a limit");
    }
    return sent.size();
  }

  Manager manager_;
  Instant now_{std::chrono::seconds(1)};
  Handle listener_ = 0;
  Handle datagram_listener_ = 0;
  Handle newest_ = 0;
  std::vector<Handle> ids_;
  std::uint32_t last_id_ = 0;  // of this end, as it stands in MADs
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  World world;
  std::span<const std::uint8_t> rest(data, size);
  for (int steps = 0; !rest.empty() && steps < 200; ++steps) {
    const std::uint8_t kind = rest[0] % 11;
    rest = rest.subspan(1);
    if (kind <= 1 || kind == 8 || kind == 9) {
      Mad mad{};
      const std::size_t bytes = std::min(rest.size(), mad.size());
      std::copy_n(reinterpret_cast<const std::byte*>(rest.data()), bytes, mad.begin());
      rest = rest.subspan(bytes);
      const auto id_at = kind < 8 ? std::nullopt : std::optional<std::size_t>(kind == 8 ? 4 : 0);
      world.receive(mad, kind == 1 ? kStranger : kPeer, id_at);
    } else if (kind == 2) {
      const int exponent = rest.empty() ? 0 : rest[0] % 37;
      if (!rest.empty()) rest = rest.subspan(1);
      world.pass(Duration(std::int64_t{1} << exponent));
    } else if (kind == 10) {
      world.ask_for_qp();
    } else {
      world.act(kind);
    }
  }
  world.finish();
  return 0;
}
