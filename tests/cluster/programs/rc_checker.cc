// rc_checker: RC traffic between two adapters, with proof that every work request is executed exactly once.
//
// It drives both adapters (usually of two daemons) with the user-space driver and runs until SIGTERM or
// --rounds. In each round of a connection A
//   writes a block that is stamped with the round's number all over,
//   adds 1 to a counter at B and checks that the counter was the round's number,
//   reads the block back and checks each word,
//   sends the round's number, and B checks that it is the next one and that the block holds its stamp.
// A write executed twice or late would show in a later round's stamps, an atomic executed twice in the
// counter, a message lost or doubled in the sends' numbers.
//
// Prints "running" when the connections stand, "progress ROUNDS" ten times a second, and at the end one JSON
// line: {"rounds", "bytes", "longest_pause_ms", "errors": [...]}. Exit code 0: no error; 1: errors; 2: usage.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fmt/core.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "driver/driver.h"
#include "driver/vfio_user_bus.h"
#include "support/must.h"
#include "support/rc_endpoint.h"
#include "support/stamped_block.h"

namespace pvrdma::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string a;
  std::string b;
  std::uint32_t first_address = 51;  // of 192.168.11.0/24: A's GID; B's is the next
  std::uint32_t connections = 4;
  std::uint32_t block_bytes = 64 * 1024;
  std::uint64_t rounds = 0;  // of each connection; 0: until SIGTERM
  std::uint32_t timeout = 18;
};

volatile std::sig_atomic_t stop_wanted = 0;

// One RC connection from A to B and the round it is in.
class Connection {
 public:
  Connection(driver::Device& a, driver::Device& b, const abi::Gid& gid_a, const abi::Gid& gid_b,
             const Options& options, std::vector<std::string>& errors)
      : block_bytes_(options.block_bytes),
        rounds_(options.rounds),
        errors_(errors),
        a_(a, gid_a, endpoint_options()),
        b_(b, gid_b, endpoint_options()) {
    const ConnectOptions how{.timeout = static_cast<std::uint8_t>(options.timeout), .first_psn = 0xff'fff0};
    must(connect(a_, b_, how));
    post_receive();
    post_round();
  }

  // Looks for completions on both sides; true when a round has ended.
  bool poll() {
    poll_receiver();
    return !has_ended() && poll_sender();
  }

  std::uint64_t rounds() const { return round_; }
  bool failed() const { return failed_; }
  // All rounds have ended, and nothing is under way.
  bool has_ended() const { return rounds_ != 0 && round_ == rounds_; }

 private:
  // A: block to write | block read back | atomic result | number to send. B: block | counter | number.
  EndpointOptions endpoint_options() const {
    return {.buffer_bytes = 2 * static_cast<std::size_t>(block_bytes_) + 64};
  }
  std::size_t read_back_at() const { return block_bytes_; }
  std::size_t atomic_at() const { return 2 * static_cast<std::size_t>(block_bytes_); }
  std::size_t number_at() const { return atomic_at() + 8; }
  std::size_t counter_at() const { return block_bytes_; }
  std::size_t received_at() const { return counter_at() + 8; }

  void complain(std::string what) {
    errors_.push_back(
        fmt::format("connection to QP {}, round {}: {}", b_.qp->qpn(), round_, std::move(what)));
    failed_ = true;
  }

  void check_block(const std::byte* block, const char* whose) {
    if (auto wrong = wrong_stamp(block, block_bytes_, round_, whose)) complain(std::move(*wrong));
  }

  void post_receive() {
    if (!b_.recv(0, received_at(), 8).ok()) complain("the receive could not be posted");
  }

  void post_round() {
    stamp_block(a_.bytes(), block_bytes_, round_);
    store_word(a_.bytes(number_at()), round_);
    const driver::Sge block = a_.sge(0, block_bytes_);
    const driver::Sge atomic = a_.sge(atomic_at(), 8);
    const driver::Sge read_back = a_.sge(read_back_at(), block_bytes_);
    const driver::Sge number = a_.sge(number_at(), 8);
    // The send is fenced: it arrives when the read is done.
    const bool posted =
        a_.qp->post_send(driver::wr::write(kWrite, {&block, 1}, b_.remote())).ok() &&
        a_.qp->post_send(driver::wr::fetch_add(kAtomic, {&atomic, 1}, b_.remote(counter_at()), 1)).ok() &&
        a_.qp->post_send(driver::wr::read(kRead, {&read_back, 1}, b_.remote())).ok() &&
        a_.qp->post_send(driver::wr::send(kSend, {&number, 1}, driver::wr::kSignaled | abi::kSendFence)).ok();
    if (!posted) complain("a work request could not be posted");
    next_ = kWrite;
    received_ = false;
  }

  void poll_receiver() {
    driver::WorkCompletion done;
    while (!failed_ && b_.recv_cq->poll({&done, 1}, driver::CompletionQueue::WhenEmpty::kReturn) == 1) {
      if (!done.ok())
        return complain(fmt::format("B's receive ended with status {}", static_cast<int>(done.status)));
      if (received_) return complain("B received twice in one round");
      if (const std::uint64_t number = load_word(b_.bytes(received_at())); number != round_) {
        return complain(fmt::format("B received number {}", number));
      }
      check_block(b_.bytes(), "B's block");
      if (const std::uint64_t counter = load_word(b_.bytes(counter_at())); counter != round_ + 1) {
        complain(fmt::format("B's counter is {}, not {}", counter, round_ + 1));
      }
      received_ = true;
      post_receive();
    }
  }

  bool poll_sender() {
    driver::WorkCompletion done;
    while (!failed_ && a_.send_cq->poll({&done, 1}, driver::CompletionQueue::WhenEmpty::kReturn) == 1) {
      if (!done.ok()) {
        complain(
            fmt::format("work request {} ended with status {}", done.wr_id, static_cast<int>(done.status)));
      } else if (done.wr_id != next_) {
        complain(fmt::format("work request {} completed when {} was next", done.wr_id, next_));
      } else if (done.wr_id == kAtomic && load_word(a_.bytes(atomic_at())) != round_) {
        complain(fmt::format("the counter was {}", load_word(a_.bytes(atomic_at()))));
      } else if (done.wr_id == kRead) {
        check_block(a_.bytes(read_back_at()), "the block read back");
      }
      ++next_;
    }
    if (failed_ || next_ != kSend + 1) return false;
    poll_receiver();  // what is confirmed has been delivered
    if (!received_) complain("the send is confirmed, but B has not received it");
    if (failed_) return false;
    ++round_;
    if (!has_ended()) post_round();
    return true;
  }

  static constexpr std::uint64_t kWrite = 1;
  static constexpr std::uint64_t kAtomic = 2;
  static constexpr std::uint64_t kRead = 3;
  static constexpr std::uint64_t kSend = 4;

  const std::uint32_t block_bytes_;
  const std::uint64_t rounds_;  // 0: no end
  std::vector<std::string>& errors_;
  RcEndpoint a_;
  RcEndpoint b_;
  std::uint64_t round_ = 0;
  std::uint64_t next_ = kWrite;  // the work request that completes next
  bool received_ = false;        // B has this round's number
  bool failed_ = false;
};

std::unique_ptr<driver::Device> open_adapter(const std::string& socket, const abi::Gid& gid) {
  auto device = must(driver::Device::open(must(driver::VfioUserBus::connect(socket))));
  must(device->bind_gid(0, gid));
  return device;
}

int check(const Options& options) {
  const abi::Gid gid_a = gid_of(options.first_address - 51);
  const abi::Gid gid_b = gid_of(options.first_address - 50);
  const auto a = open_adapter(options.a, gid_a);
  const auto b = open_adapter(options.b, gid_b);
  std::vector<std::string> errors;
  std::vector<std::unique_ptr<Connection>> connections;
  for (std::uint32_t i = 0; i < options.connections; ++i) {
    connections.push_back(std::make_unique<Connection>(*a, *b, gid_a, gid_b, options, errors));
  }
  fmt::print("running\n");
  std::fflush(stdout);

  const auto total = [&] {
    std::uint64_t rounds = 0;
    for (const auto& connection : connections) rounds += connection->rounds();
    return rounds;
  };
  Clock::time_point last_progress = Clock::now();
  Clock::time_point last_report = last_progress;
  Clock::duration longest_pause{};
  const auto all_ended = [&] {
    return std::all_of(connections.begin(), connections.end(),
                       [](const auto& each) { return each->has_ended(); });
  };
  while (stop_wanted == 0 && errors.empty() && !all_ended()) {
    bool progress = false;
    for (const auto& connection : connections) progress = connection->poll() || progress;
    const Clock::time_point now = Clock::now();
    longest_pause = std::max(longest_pause, now - last_progress);
    if (progress) last_progress = now;
    if (now - last_report >= std::chrono::milliseconds(100)) {
      last_report = now;
      fmt::print("progress {}\n", total());
      std::fflush(stdout);
    }
    if (!progress) static_cast<void>(a->wait_notifications(std::chrono::milliseconds(1)));
  }
  const nlohmann::json result{
      {"rounds", total()},
      {"bytes", total() * (2 * std::uint64_t{options.block_bytes} + 16)},
      {"longest_pause_ms", std::chrono::duration_cast<std::chrono::milliseconds>(longest_pause).count()},
      {"errors", errors}};
  fmt::print("{}\n", result.dump());
  return errors.empty() ? 0 : 1;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("rc_checker: RC traffic between two adapters, with proof of exactly-once execution");
  app.add_option("--a", options.a, "vfio-user socket of the requesting adapter")->required();
  app.add_option("--b", options.b, "vfio-user socket of the responding adapter")->required();
  app.add_option("--first-address", options.first_address, "A's GID is ::ffff:192.168.11.N, B's is the next")
      ->check(CLI::Range(51, 253));
  app.add_option("--connections", options.connections, "how many at once")->check(CLI::Range(1, 64));
  app.add_option("--block", options.block_bytes, "bytes of a block, a multiple of 8")
      ->check(CLI::Range(8, 4 << 20));
  app.add_option("--rounds", options.rounds, "end after so many rounds of each connection; 0: at SIGTERM");
  app.add_option("--timeout", options.timeout, "the QPs' timeout, 4.096 us * 2^N")->check(CLI::Range(0, 31));
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGTERM, [](int) { stop_wanted = 1; });
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return check(options);
  } catch (const std::runtime_error& error) {
    fmt::print(stderr, "rc_checker: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace pvrdma::test

int main(int argc, char** argv) {
  return pvrdma::test::run(argc, argv);
}
