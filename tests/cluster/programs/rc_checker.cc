// rc_checker: RC traffic between two adapters, which proves that every work request is executed exactly once.
//
// It drives both adapters (usually of two daemons) with the user-space driver and runs until SIGTERM or
// --rounds. In each round of a connection A
//   writes a block that is filled with the round's number,
//   adds 1 to a counter at B and checks that the counter was the round's number,
//   reads the block back and checks each word,
//   sends the round's number, and B checks that it is the next one and that the block holds its stamp.
// Then B sends the number back, and the next round begins. A write executed twice or late would show in a
// later round's stamps, an atomic executed twice in the counter, a message lost or doubled in the numbers.
//
// Two processes, on two machines if need be, each with one adapter: B with --listen ADDRESS:PORT in place of
// --a, A with --peer ADDRESS:PORT in place of --b. They exchange the addresses of their QPs over TCP; when A
// ends, B ends, too.
//
// With --punch-holes the VMM of A (or of B alone) makes the daemon's thread sleep meanwhile (hole_puncher.h).
//
// Prints "running" when the connections are up, and ten times a second "progress ROUNDS PAUSE": the longest
// pause since the last such line, in microseconds. At the end it prints one JSON line: {"rounds", "bytes",
// "longest_pause_ms", "errors": [...]}. Exit code 0: no error; 1: errors; 2: usage.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fmt/core.h>
#include <memory>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "driver/driver.h"
#include "driver/vfio_user_bus.h"
#include "hole_puncher.h"
#include "support/must.h"
#include "support/rc_endpoint.h"
#include "support/stamped_block.h"

namespace pvrdma::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string a;
  std::string b;
  std::string listen;                // B's: the address for A's process
  std::string peer;                  // A's: the address of B's process
  std::uint32_t first_address = 51;  // of 192.168.11.0/24: A's GID; B's is the next
  std::uint32_t connections = 4;
  std::uint32_t block_bytes = 64 * 1024;
  std::uint64_t rounds = 0;  // of each connection; 0: until SIGTERM
  std::uint32_t timeout = 18;
  bool punch_holes = false;
  std::uint32_t patience_s = 5;

  ConnectOptions how() const {
    return {.timeout = static_cast<std::uint8_t>(timeout), .first_psn = 0xff'fff0};
  }
};

volatile std::sig_atomic_t stop_wanted = 0;

// B's end of a connection, as A needs it.
struct Target {
  std::uint32_t qpn = 0;
  driver::Remote memory;  // block | counter

  driver::Remote at(std::size_t offset) const { return {memory.addr + offset, memory.rkey}; }
};

// One end of an RC connection and its current round.
class End {
 public:
  End(driver::Device& device, const abi::Gid& gid, const Options& options, const char* name,
      std::vector<std::string>& errors)
      : block_bytes_(options.block_bytes),
        rounds_(options.rounds),
        end_(device, gid, {.buffer_bytes = 2 * std::size_t{options.block_bytes} + 64}),
        name_(name),
        errors_(errors) {}

  RcEndpoint& end() { return end_; }
  std::uint64_t rounds() const { return round_; }

 protected:
  void complain(std::string what) {
    errors_.push_back(
        fmt::format("{}'s QP {}, round {}: {}", name_, end_.qp->qpn(), round_, std::move(what)));
    failed_ = true;
  }
  void check_block(const std::byte* block, const char* whose) {
    if (auto wrong = wrong_stamp(block, block_bytes_, round_, whose)) complain(std::move(*wrong));
  }
  // The next completion of that queue; empty if there is none, or if it has failed.
  std::optional<driver::WorkCompletion> next(driver::CompletionQueue& cq) {
    driver::WorkCompletion done;
    if (failed_ || cq.poll({&done, 1}, driver::CompletionQueue::WhenEmpty::kReturn) != 1) return std::nullopt;
    if (done.ok()) return done;
    complain(fmt::format("work request {} ended with status {}", done.wr_id, static_cast<int>(done.status)));
    return std::nullopt;
  }
  void post_receive(std::size_t at) {
    if (!end_.recv(0, at, 8).ok()) complain("the receive could not be posted");
  }

  const std::uint32_t block_bytes_;
  const std::uint64_t rounds_;  // 0: no end
  RcEndpoint end_;
  std::uint64_t round_ = 0;
  bool failed_ = false;

 private:
  const char* const name_;
  std::vector<std::string>& errors_;
};

class Responder final : public End {
 public:
  Responder(driver::Device& device, const abi::Gid& gid, const Options& options,
            std::vector<std::string>& errors)
      : End(device, gid, options, "B", errors) {}

  Target target() const { return {end_.qp->qpn(), end_.remote()}; }
  // All answers are acknowledged, so no message to B is under way.
  bool has_ended() const { return answers_done_ == rounds_; }
  void start() { post_receive(received_at()); }

  // Polls for completions. True: a round has ended.
  bool poll() {
    while (next(*end_.send_cq)) ++answers_done_;
    if (!next(*end_.recv_cq)) return false;
    if (const std::uint64_t number = load_word(end_.bytes(received_at())); number != round_)
      complain(fmt::format("B received number {}", number));
    check_block(end_.bytes(), "B's block");
    if (const std::uint64_t counter = load_word(end_.bytes(counter_at())); counter != round_ + 1)
      complain(fmt::format("B's counter is {}, not {}", counter, round_ + 1));
    post_receive(received_at());
    store_word(end_.bytes(answer_at()), round_);
    const driver::Sge answer = end_.sge(answer_at(), 8);
    if (!end_.qp->post_send(driver::wr::send(0, {&answer, 1}, driver::wr::kSignaled)).ok())
      complain("the answer could not be posted");
    ++round_;
    return true;
  }

 private:
  // Block | counter | number | answer.
  std::size_t counter_at() const { return block_bytes_; }
  std::size_t received_at() const { return counter_at() + 8; }
  std::size_t answer_at() const { return received_at() + 8; }

  std::uint64_t answers_done_ = 0;  // answers that A's adapter has acknowledged
};

class Requester final : public End {
 public:
  Requester(driver::Device& device, const abi::Gid& gid, const Options& options,
            std::vector<std::string>& errors)
      : End(device, gid, options, "A", errors) {}

  // All rounds have ended, and no request of A is under way.
  bool has_ended() const { return rounds_ != 0 && round_ == rounds_; }

  void start(const Target& target) {
    target_ = target;
    post_receive(answer_at());
    post_round();
  }

  // Polls for completions. True: a round has ended.
  bool poll() {
    while (const auto done = next(*end_.send_cq)) {
      if (done->wr_id != next_) {
        complain(fmt::format("work request {} completed when {} was next", done->wr_id, next_));
      } else if (done->wr_id == kAtomic && load_word(end_.bytes(atomic_at())) != round_) {
        complain(fmt::format("the counter was {}", load_word(end_.bytes(atomic_at()))));
      } else if (done->wr_id == kRead) {
        check_block(end_.bytes(read_back_at()), "the block read back");
      }
      ++next_;
    }
    if (next(*end_.recv_cq)) {
      if (const std::uint64_t number = load_word(end_.bytes(answer_at())); number != round_)
        complain(fmt::format("B answered {}", number));
      is_answered_ = true;
      post_receive(answer_at());
    }
    if (failed_ || next_ != kSend + 1 || !is_answered_) return false;
    ++round_;
    if (!has_ended()) post_round();
    return true;
  }

 private:
  // Block to write | block read back | atomic result | number to send | answer. B: block | counter.
  std::size_t read_back_at() const { return block_bytes_; }
  std::size_t atomic_at() const { return 2 * std::size_t{block_bytes_}; }
  std::size_t number_at() const { return atomic_at() + 8; }
  std::size_t answer_at() const { return number_at() + 8; }

  void post_round() {
    stamp_block(end_.bytes(), block_bytes_, round_);
    store_word(end_.bytes(number_at()), round_);
    const driver::Sge block = end_.sge(0, block_bytes_);
    const driver::Sge atomic = end_.sge(atomic_at(), 8);
    const driver::Sge read_back = end_.sge(read_back_at(), block_bytes_);
    const driver::Sge number = end_.sge(number_at(), 8);
    // The send is fenced: it arrives after the read is done.
    const bool posted =
        end_.qp->post_send(driver::wr::write(kWrite, {&block, 1}, target_.at(0))).ok() &&
        end_.qp->post_send(driver::wr::fetch_add(kAtomic, {&atomic, 1}, target_.at(block_bytes_), 1)).ok() &&
        end_.qp->post_send(driver::wr::read(kRead, {&read_back, 1}, target_.at(0))).ok() &&
        end_.qp->post_send(driver::wr::send(kSend, {&number, 1}, driver::wr::kSignaled | abi::kSendFence))
            .ok();
    if (!posted) complain("a work request could not be posted");
    next_ = kWrite;
    is_answered_ = false;
  }

  static constexpr std::uint64_t kWrite = 1;
  static constexpr std::uint64_t kAtomic = 2;
  static constexpr std::uint64_t kRead = 3;
  static constexpr std::uint64_t kSend = 4;

  Target target_;
  std::uint64_t next_ = kWrite;  // the work request that completes next
  bool is_answered_ = false;     // B has received this round's number and has answered
};

// The other process. They exchange text lines of JSON over TCP. Any error ends the program.
class Partner {
 public:
  // Waits for the other process at "ADDRESS:PORT".
  static Partner listen(const std::string& at) {
    const auto [address, size] = address_of(at);
    const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    expect(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0, "binding");
    expect(::listen(listener.get(), 1) == 0, "listening");
    return Partner(Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  }
  static Partner call(const std::string& at) {
    const auto [address, size] = address_of(at);
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    expect(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0, "connecting");
    return Partner(std::move(socket));
  }

  void say(const nlohmann::json& what) {
    const std::string line = what.dump() + "\n";
    expect(::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size()),
           "sending");
  }
  nlohmann::json hear() {
    std::string line;
    for (char c = 0; c != '\n'; line += c) expect(::recv(socket_.get(), &c, 1, 0) == 1, "receiving");
    return nlohmann::json::parse(line);
  }
  bool has_left() {
    char c = 0;
    return ::recv(socket_.get(), &c, 1, MSG_DONTWAIT) == 0;
  }

 private:
  explicit Partner(Fd socket) : socket_(std::move(socket)) { expect(socket_.get() >= 0, "accepting"); }

  static void expect(bool holds, const char* doing) {
    if (!holds) throw std::runtime_error(fmt::format("{}: {}", doing, std::strerror(errno)));
  }
  static std::pair<sockaddr_in, socklen_t> address_of(const std::string& at) {
    const std::size_t colon = at.rfind(':');
    sockaddr_in address{};
    address.sin_family = AF_INET;
    const bool is_one = colon != std::string::npos &&
                        ::inet_pton(AF_INET, at.substr(0, colon).c_str(), &address.sin_addr) == 1;
    if (!is_one) throw std::runtime_error(fmt::format("{} is not ADDRESS:PORT", at));
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoul(at.substr(colon + 1))));
    return {address, sizeof address};
  }

  Fd socket_;
};

std::unique_ptr<driver::Device> open_adapter(const std::string& socket, const abi::Gid& gid,
                                             const Options& options) {
  auto device = must(driver::Device::open(
      must(driver::VfioUserBus::connect(socket, std::chrono::seconds(options.patience_s)))));
  must(device->bind_gid(0, gid));
  return device;
}

// The ends of connections in this process: both ends of each, or one.
struct Ends {
  std::vector<std::unique_ptr<Requester>> a;
  std::vector<std::unique_ptr<Responder>> b;
  std::vector<std::string> errors;

  // True: a round has ended.
  bool poll() {
    bool progress = false;
    for (const auto& each : b) progress = each->poll() || progress;
    for (const auto& each : a) progress = (!each->has_ended() && each->poll()) || progress;
    return progress;
  }
  std::uint64_t rounds() const {
    std::uint64_t sum = 0;
    for (const auto& each : a) sum += each->rounds();
    if (a.empty())
      for (const auto& each : b) sum += each->rounds();
    return sum;
  }
  bool all_ended() const {
    const auto has_ended = [](const auto& each) { return each->has_ended(); };
    return !a.empty() && std::ranges::all_of(a, has_ended) && std::ranges::all_of(b, has_ended);
  }
};

// Runs to the end and prints the JSON line.
int run_rounds(Ends& ends, driver::Device& device, const Options& options, Partner* partner) {
  fmt::print("running\n");
  std::fflush(stdout);
  std::optional<HolePuncher> puncher;
  if (options.punch_holes) puncher.emplace(device);
  Clock::time_point last_progress = Clock::now();
  Clock::time_point last_report = last_progress;
  Clock::duration longest_pause{};
  Clock::duration recent_pause{};  // since the last report
  while (stop_wanted == 0 && ends.errors.empty() && !ends.all_ended()) {
    if (puncher) puncher->touch();
    const bool progress = ends.poll();
    const Clock::time_point now = Clock::now();
    recent_pause = std::max(recent_pause, now - last_progress);
    longest_pause = std::max(longest_pause, recent_pause);
    if (progress) last_progress = now;
    if (now - last_report >= std::chrono::milliseconds(100)) {
      last_report = now;
      fmt::print("progress {} {}\n", ends.rounds(),
                 std::chrono::duration_cast<std::chrono::microseconds>(recent_pause).count());
      recent_pause = {};
      std::fflush(stdout);
      if (partner != nullptr && partner->has_left()) break;
    }
    if (!progress) static_cast<void>(device.wait_notifications(std::chrono::milliseconds(1)));
  }
  const nlohmann::json result{
      {"rounds", ends.rounds()},
      {"bytes", ends.rounds() * (2 * std::uint64_t{options.block_bytes} + 24)},
      {"longest_pause_ms", std::chrono::duration_cast<std::chrono::milliseconds>(longest_pause).count()},
      {"errors", ends.errors}};
  fmt::print("{}\n", result.dump());
  return ends.errors.empty() ? 0 : 1;
}

int check_both(const Options& options, const abi::Gid& gid_a, const abi::Gid& gid_b) {
  const auto a = open_adapter(options.a, gid_a, options);
  const auto b = open_adapter(options.b, gid_b, options);
  Ends ends;
  for (std::uint32_t i = 0; i < options.connections; ++i) {
    ends.a.push_back(std::make_unique<Requester>(*a, gid_a, options, ends.errors));
    ends.b.push_back(std::make_unique<Responder>(*b, gid_b, options, ends.errors));
    must(connect(ends.a.back()->end(), ends.b.back()->end(), options.how()));
    ends.b.back()->start();
    ends.a.back()->start(ends.b.back()->target());
  }
  return run_rounds(ends, *a, options, nullptr);
}

int check_a(const Options& options, const abi::Gid& gid_a, const abi::Gid& gid_b) {
  const auto a = open_adapter(options.a, gid_a, options);
  Ends ends;
  Partner partner = Partner::call(options.peer);
  nlohmann::json qpns = nlohmann::json::array();
  for (std::uint32_t i = 0; i < options.connections; ++i) {
    ends.a.push_back(std::make_unique<Requester>(*a, gid_a, options, ends.errors));
    qpns.push_back(ends.a.back()->end().qp->qpn());
  }
  partner.say(qpns);
  const nlohmann::json targets = partner.hear();
  for (std::uint32_t i = 0; i < options.connections; ++i) {
    const Target target{targets.at(i).at(0), {targets.at(i).at(1), targets.at(i).at(2)}};
    must(ends.a[i]->end().connect_to(gid_b, target.qpn, options.how()));
    ends.a[i]->start(target);
  }
  return run_rounds(ends, *a, options, &partner);
}

int check_b(const Options& options, const abi::Gid& gid_a, const abi::Gid& gid_b) {
  const auto b = open_adapter(options.b, gid_b, options);
  Ends ends;
  Partner partner = Partner::listen(options.listen);
  nlohmann::json targets = nlohmann::json::array();
  for (const nlohmann::json& qpn : partner.hear()) {
    ends.b.push_back(std::make_unique<Responder>(*b, gid_b, options, ends.errors));
    Responder& one = *ends.b.back();
    must(one.end().connect_to(gid_a, qpn, options.how()));
    one.start();
    targets.push_back({one.target().qpn, one.target().memory.addr, one.target().memory.rkey});
  }
  partner.say(targets);
  return run_rounds(ends, *b, options, &partner);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("rc_checker: RC traffic between two adapters, with proof of exactly-once execution");
  app.add_option("--a", options.a, "vfio-user socket of the requesting adapter");
  app.add_option("--b", options.b, "vfio-user socket of the responding adapter");
  app.add_option("--listen", options.listen, "be B alone, and wait here for A's process: ADDRESS:PORT");
  app.add_option("--peer", options.peer, "be A alone, and find B's process there: ADDRESS:PORT");
  app.add_option("--first-address", options.first_address, "A's GID is ::ffff:192.168.11.N, B's is the next")
      ->check(CLI::Range(51, 253));
  app.add_option("--connections", options.connections, "how many at once")->check(CLI::Range(1, 64));
  app.add_option("--block", options.block_bytes, "bytes of a block, a multiple of 8")
      ->check(CLI::Range(8, 4 << 20));
  app.add_option("--rounds", options.rounds, "end after so many rounds of each connection; 0: at SIGTERM");
  app.add_option("--timeout", options.timeout, "the QPs' timeout, 4.096 us * 2^N")->check(CLI::Range(0, 31));
  app.add_option("--patience", options.patience_s, "how many seconds a VMM waits for an answer of the daemon")
      ->check(CLI::Range(1, 600));
  app.add_flag("--punch-holes", options.punch_holes, "let the daemon's thread sleep on the VM's memory");
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGTERM, [](int) { stop_wanted = 1; });
  std::signal(SIGPIPE, SIG_IGN);
  const bool a_alone = !options.a.empty() && !options.peer.empty() && options.b.empty();
  const bool b_alone = !options.b.empty() && !options.listen.empty() && options.a.empty();
  if (!a_alone && !b_alone && (options.a.empty() || options.b.empty())) {
    fmt::print(stderr, "rc_checker: give --a and --b, or --a and --peer, or --b and --listen\n");
    return 2;
  }
  const abi::Gid gid_a = gid_of(options.first_address - 51);
  const abi::Gid gid_b = gid_of(options.first_address - 50);
  try {
    if (a_alone) return check_a(options, gid_a, gid_b);
    if (b_alone) return check_b(options, gid_a, gid_b);
    return check_both(options, gid_a, gid_b);
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
