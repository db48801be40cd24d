// Fuzzes what a VMM controls besides messages: It sends descriptors of all kinds with every message, and
// changes their open files while the adapter uses them (flags, sizes, seals, counters). It leads a migration
// with states in any order, and with saved state of this adapter that is cut, changed and rearranged. It uses
// the log of written pages.
//
// The test has a Server and a real adapter with mapped doorbells, whose memory is one of the kinds. Each
// input is one client's session, and afterwards another client must be served. Input: steps, see Step. The
// fuzzer checks: nothing crashes and no call blocks, whatever the other end of a descriptor does (a call that
// blocks exceeds the time limit of the fuzzer or the replay). In the end the descriptors are closed, and the
// adapter runs and logs no writes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <string>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/log.h"
#include "base/reaper.h"
#include "device/fake_doorbells.h"
#include "device/fake_guest.h"
#include "guestmem/sigbus.h"
#include "support/fuzz_input.h"
#include "support/open_fds.h"
#include "support/saved_stream.h"
#include "vfio_user/message_socket.h"
#include "vfio_user/migration.h"
#include "vfio_user/raw_peer.h"
#include "vfio_user/server.h"

namespace pvrdma::device {
namespace {

using test::FakeGuest;
using test::FuzzInput;
using vfio_user::bytes_of;
using vfio_user::Command;
namespace wire = vfio_user::wire;

constexpr std::uint64_t kRamBytes = 256 * 1024;
constexpr int kStepsMax = 32;
constexpr int kTurnsMax = 64;
constexpr std::size_t kFdsMax = 10;  // one more than a message may have

enum class Step : std::uint8_t {
  kMessage,  // command@0:1, count@1:1 descriptors and their kinds, then the message's fields
  kRaw,      // count@0:1 and kinds, bytes@1:1, then that many bytes
  kChange,   // kind@0:1, what@1:1 (Change)
  kVersion,  // correct
  kAttach,   // correct, except for the kinds of memory@0:1 and of three eventfds@1:3
  kCommand,  // QUERY_PORT in the slot and its REQUEST: raises vector 0 if it can
  kLeave,    // and a new client connects
  kProcess,  // CREATE_UC for doorbell page 1 in the slot and its REQUEST
  kStore,    // offset@0:1 in words, value@1:4: into that page
  kState,    // state@0:1 of a migration
  kRead,     // size@0:2 of migration data, which the test keeps from STOP_COPY on
  kWrite,    // from@0:2, size@2:2 of the kept data, change@4:1 to its first byte, with a correct checksum
  kLog,      // what@0:1: start, stop, report; page@1:1 and pages@2:1 of its range, page size@3:1
  kCount
};

// The kinds of descriptors, in the order of Descriptors::fds_.
enum Kind : std::uint8_t {
  kRam,           // the guest's memory, a memfd
  kSealed,        // a memfd that cannot shrink
  kShort,         // a memfd of one page
  kReadOnly,      // the guest's memory, opened for reading
  kPathOfMemory,  // the guest's memory, O_PATH
  kEvent,
  kFullEvent,  // blocking, full: a write would wait
  kSemaphore,
  kPipeIn,
  kPipeOut,  // blocking, full
  kSocket,
  kNull,
  kZero,
  kFolder,
  kPath,
  kEpoll,
  kTimer,
  kInotify,
  kDoorbells,  // the adapter's own, which a client maps
  kKindCount
};

enum class Change : std::uint8_t {
  kBlocking,
  kNonBlocking,
  kAppend,
  kAsync,
  kShrink,
  kShrinkToPage,
  kGrow,
  kSeal,
  kFill,   // the counter or the buffer
  kDrain,  // the counter or the buffer
  kPunch,  // a hole in the memory
  kCount
};

class Descriptors {
 public:
  // `ram` and `doorbells` are borrowed. Each session makes the other descriptors again, because changes stay
  // with the open file.
  Descriptors(int ram, int doorbells) {
    fds_[kRam] = Fd(::fcntl(ram, F_DUPFD_CLOEXEC, 0));
    fds_[kSealed] = memory(kRamBytes);
    ::fcntl(at(kSealed), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    fds_[kShort] = memory(4096);
    const std::string path = "/proc/self/fd/" + std::to_string(ram);
    fds_[kReadOnly] = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    fds_[kPathOfMemory] = Fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
    fds_[kEvent] = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    fds_[kFullEvent] = Fd(::eventfd(0, EFD_CLOEXEC));
    fds_[kSemaphore] = Fd(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE | EFD_NONBLOCK));
    std::array<int, 2> pair{};
    PVRDMA_CHECK(::pipe2(pair.data(), O_CLOEXEC) == 0, "a pipe");
    fds_[kPipeIn] = Fd(pair[0]);
    fds_[kPipeOut] = Fd(pair[1]);
    PVRDMA_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0, "a pair of sockets");
    fds_[kSocket] = Fd(pair[0]);
    other_socket_ = Fd(pair[1]);
    fds_[kNull] = Fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    fds_[kZero] = Fd(::open("/dev/zero", O_RDWR | O_CLOEXEC));
    fds_[kFolder] = Fd(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    fds_[kPath] = Fd(::open("/", O_PATH | O_CLOEXEC));
    fds_[kEpoll] = Fd(::epoll_create1(EPOLL_CLOEXEC));
    fds_[kTimer] = Fd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
    fds_[kInotify] = Fd(::inotify_init1(IN_CLOEXEC));
    fds_[kDoorbells] = Fd(::fcntl(doorbells, F_DUPFD_CLOEXEC, 0));
    for (const Fd& fd : fds_) PVRDMA_CHECK(bool(fd), "a descriptor of each kind");
    change(kFullEvent, Change::kFill);
    change(kPipeOut, Change::kFill);
    for (const Kind kind : {kFullEvent, kPipeOut}) change(kind, Change::kBlocking);
  }

  int at(std::uint8_t kind) const { return fds_[kind % kKindCount].get(); }

  // What a VMM may do to an open file that it shares with the daemon. A change that does not fit the kind
  // fails.
  void change(std::uint8_t kind, Change what) {
    const int fd = at(kind);
    const int flags = ::fcntl(fd, F_GETFL);
    switch (what) {
      case Change::kBlocking:
        ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
        return;
      case Change::kNonBlocking:
        ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
        return;
      case Change::kAppend:
        ::fcntl(fd, F_SETFL, flags ^ O_APPEND);
        return;
      case Change::kAsync:
        ::fcntl(fd, F_SETFL, flags ^ O_ASYNC);
        return;
      case Change::kShrink:
        return resize(fd, 0);
      case Change::kShrinkToPage:
        return resize(fd, 4096);
      case Change::kGrow:
        return resize(fd, 2 * kRamBytes);
      case Change::kSeal:
        if (kind % kKindCount != kRam) ::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK);
        return;
      case Change::kFill:
        return fill(fd, flags);
      case Change::kDrain: {
        ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
        std::array<std::byte, 4096> away;
        for (int i = 0; i < 64 && ::read(fd, away.data(), away.size()) > 0; ++i) {
        }
        ::fcntl(fd, F_SETFL, flags);
        return;
      }
      case Change::kPunch:
        ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kRamBytes);
        return;
      case Change::kCount:
        return;
    }
  }

 private:
  static Fd memory(std::uint64_t bytes) {
    Fd made(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    PVRDMA_CHECK(made && ::ftruncate(made.get(), static_cast<off_t>(bytes)) == 0, "a memfd");
    return made;
  }
  static void resize(int fd, std::uint64_t bytes) {
    [[maybe_unused]] const int outcome = ::ftruncate(fd, static_cast<off_t>(bytes));
  }
  static void fill(int fd, int flags) {
    if ((flags & O_ACCMODE) == O_RDONLY || ::fcntl(fd, F_GET_SEALS) >= 0) return;  // not a memfd
    ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    const std::uint64_t most = UINT64_MAX - 1;
    [[maybe_unused]] ssize_t outcome = ::write(fd, &most, sizeof most);
    const std::array<std::byte, 4096> junk{};
    for (int i = 0; i < 256 && ::write(fd, junk.data(), junk.size()) > 0; ++i) {
    }
    ::fcntl(fd, F_SETFL, flags);
  }

  std::array<Fd, kKindCount> fds_;
  Fd other_socket_;
};

class Harness {
 public:
  Harness() : guest_(mapped(), kRamBytes) {
    PVRDMA_CHECK(guestmem::install_sigbus_handler(), "the handler of vanished memory");
    guest_.prepare_region();
    guest_.store(guest_.region_address, guest_.region);
    ram_.assign(guest_.ram().begin(), guest_.ram().end());
    path_ = "/tmp/pvrdma-fuzz-" + std::to_string(::getpid()) + ".sock";
    server_ = vfio_user::Server::listen(path_, guest_.adapter(), {.seat = {.queue = reaper_->open_queue()}})
                  .value();
    serve_another();  // then everything that the process opens only once is open
  }

  void run(FuzzInput input) {
    restore_ram();
    // Counted for each input, because a fuzzer may open files between inputs.
    const std::size_t open_before = test::count_open_fds();
    {
      Descriptors descriptors(guest_.ram_fd(), pages_.fd());
      descriptors_ = &descriptors;
      come();
      for (int i = 0; i < kStepsMax && !input.empty(); ++i) step(input);
      leave();
    }
    restore_ram();
    serve_another();
    // Another thread may close them.
    for (int i = 0; i < 1000 && test::count_open_fds() > open_before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    PVRDMA_CHECK(test::count_open_fds() <= open_before, "all descriptors are closed");
  }

 private:
  static AdapterConfig mapped() {
    AdapterConfig config = test::some_adapter();
    config.doorbells = DoorbellMode::kMapped;
    return config;
  }

  void restore_ram() {
    ::fcntl(guest_.ram_fd(), F_SETFL, O_RDWR);  // without O_APPEND, which would affect pwrite()
    guest_.truncate_ram(kRamBytes);
    std::memcpy(guest_.ram().data(), ram_.data(), ram_.size());
  }

  void come() {
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    PVRDMA_CHECK(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0,
                 "a client comes");
    server_->on_listen_ready();
    replies_ = std::make_unique<vfio_user::MessageSocket>(Fd(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0)));
    client_.emplace(std::move(socket));
    id_ = 0;
  }
  void leave() {
    replies_.reset();
    client_.reset();
    for (int i = 0; i < kTurnsMax && server_->seat().fd() >= 0; ++i) {
      server_->seat().on_ready(true, server_->seat().wants_write());
      guest_.adapter().run(guest_.clock.now());
    }
    PVRDMA_CHECK(server_->seat().fd() < 0, "a session ends with its client");
    PVRDMA_CHECK(!guest_.port.stopped, "a migration ends with its client");
    PVRDMA_CHECK(guest_.adapter().memory().log_state() == guestmem::LogState::kOff, "so does the log");
  }
  void turn() {
    for (int i = 0; i < kTurnsMax; ++i) {
      bool worked = server_->seat().on_ready(true, server_->seat().wants_write());
      while (server_->seat().has_more()) {
        server_->seat().continue_session();
        guest_.adapter().run(guest_.clock.now());  // the client's messages may wait for it
        worked = true;
      }
      take_replies();
      guest_.adapter().run(guest_.clock.now());
      if (!worked) return;
    }
  }
  // Takes the server's replies, and the descriptors that they bring.
  void take_replies() {
    while (true) {
      const auto reply = replies_->next_message();
      if (!reply) return;
      if (*reply) {
        last_error_ = (*reply)->header.error;
        if ((*reply)->header.command == Command::kMigDataRead && last_error_ == 0) {
          const auto data = (*reply)->payload.subspan(sizeof(wire::MigData));
          saved_.insert(saved_.end(), data.begin(), data.end());
        }
        continue;
      }
      const auto received = replies_->receive();
      if (!received || !*received) return;
    }
  }
  void say(Command command, const vfio_user::Bytes& payload, const std::vector<int>& fds = {},
           std::uint32_t flags = 0) {
    last_error_ = 0;
    client_->send(vfio_user::message(id_++, command, payload, flags), fds);
    turn();
  }
  void write_register(abi::Register which, std::uint32_t value) {
    say(Command::kRegionWrite,
        bytes_of(wire::RegionAccess{static_cast<std::uint64_t>(which), 1, sizeof value}, value));
  }

  void step(FuzzInput& input) {
    switch (static_cast<Step>(input.byte() % static_cast<std::uint8_t>(Step::kCount))) {
      case Step::kMessage:
        return message(input);
      case Step::kRaw: {
        const auto fds = some_fds(input);
        const auto bytes = input.take_bytes(input.byte());
        if (!bytes.empty()) client_->send(bytes, fds);
        return turn();
      }
      case Step::kChange: {
        const std::uint8_t kind = input.byte();
        descriptors_->change(kind,
                             static_cast<Change>(input.byte() % static_cast<std::uint8_t>(Change::kCount)));
        return;
      }
      case Step::kVersion:
        client_->send(vfio_user::qemu_version());
        return turn();
      case Step::kAttach: {
        const int memory = descriptors_->at(input.byte());
        std::array<int, abi::kVectorCount> events{};
        for (int& event : events) event = descriptors_->at(input.byte());
        return attach(memory, events);
      }
      case Step::kCommand:
        return query_port();
      case Step::kProcess: {
        abi::CreateUcRequest request{};
        request.pfn64 = FakeGuest::kUarPageFrame + 1;
        return command(abi::Command::kCreateUc, request);
      }
      case Step::kStore: {
        std::byte* const at = pages_.all().data() + input.byte() * sizeof(std::uint32_t);
        const std::uint32_t value = input.u32();
        std::memcpy(at, &value, sizeof value);
        return turn();
      }
      case Step::kState:
        return change_state(input.byte() % 8u);
      case Step::kRead: {
        const std::uint32_t size = input.u16();
        return say(Command::kMigDataRead, bytes_of(wire::MigData{8 + size, size}));
      }
      case Step::kWrite: {
        const std::size_t from = std::min<std::size_t>(input.u16(), saved_.size());
        const std::size_t size = std::min<std::size_t>(input.u16(), saved_.size() - from);
        if (const std::uint8_t change = input.byte(); size != 0 && change != 0) {
          saved_[from] ^= std::byte{change};
          test::make_checksums_right(saved_);
        }
        const auto bytes = static_cast<std::uint32_t>(size);
        vfio_user::Bytes payload = bytes_of(wire::MigData{8 + bytes, bytes});
        const auto data = std::span(saved_).subspan(from, size);
        payload.insert(payload.end(), data.begin(), data.end());
        return say(Command::kMigDataWrite, payload);
      }
      case Step::kLog:
        return log(input);
      case Step::kLeave:
        leave();
        return come();
      case Step::kCount:
        return;
    }
  }

  void change_state(std::uint32_t state) {
    if (state == static_cast<std::uint32_t>(vfio_user::MigrationState::kStopCopy)) saved_.clear();
    say(Command::kDeviceFeature,
        bytes_of(wire::DeviceFeature{16, wire::kFeatureSet | wire::kFeatureMigDeviceState},
                 wire::MigDeviceState{.device_state = state}));
  }
  void log(FuzzInput& input) {
    const std::uint8_t what = input.byte() % 3;
    const std::uint64_t at = FakeGuest::kRamBase + input.byte() * std::uint64_t{4096};
    const std::uint64_t size = input.byte() * std::uint64_t{4096};
    const std::uint64_t page_size = std::uint64_t{4096} << input.byte() % 20;
    if (what == 0)
      return say(Command::kDeviceFeature,
                 bytes_of(wire::DeviceFeature{40, wire::kFeatureSet | wire::kFeatureDmaLoggingStart},
                          wire::DmaLoggingControl{page_size, 1}, wire::DmaLoggingRange{at, size}));
    if (what == 1)
      return say(Command::kDeviceFeature,
                 bytes_of(wire::DeviceFeature{8, wire::kFeatureSet | wire::kFeatureDmaLoggingStop}));
    say(Command::kDeviceFeature,
        bytes_of(wire::DeviceFeature{4096, wire::kFeatureGet | wire::kFeatureDmaLoggingReport},
                 wire::DmaLoggingReport{at, size, page_size}));
  }

  std::vector<int> some_fds(FuzzInput& input) const {
    std::vector<int> fds(input.byte() % (kFdsMax + 1));
    for (int& fd : fds) fd = descriptors_->at(input.byte());
    return fds;
  }

  void message(FuzzInput& input) {
    constexpr std::array<Command, 12> kCommands{
        Command::kVersion,       Command::kDmaMap,     Command::kDmaUnmap, Command::kGetInfo,
        Command::kGetRegionInfo, Command::kGetIrqInfo, Command::kSetIrqs,  Command::kRegionRead,
        Command::kRegionWrite,   Command::kReset,      Command::kDmaMap,   Command::kSetIrqs};
    const Command command = kCommands[input.byte() % kCommands.size()];
    const auto fds = some_fds(input);
    // Posted or not; with values that are valid pages and vectors.
    const std::uint8_t flags = input.byte();
    const auto pages = [&input] { return std::uint64_t{input.byte()} * 4096; };
    const auto payload = [&]() -> vfio_user::Bytes {
      switch (command) {
        case Command::kDmaMap:
          return bytes_of(
              wire::DmaMap{32, std::uint32_t{flags} & 3, pages(), FakeGuest::kRamBase + pages(), pages()});
        case Command::kDmaUnmap:
          return bytes_of(
              wire::DmaUnmap{24, std::uint32_t{flags} & 3, FakeGuest::kRamBase + pages(), pages()});
        case Command::kGetRegionInfo:
          return bytes_of(wire::RegionInfo{.index = input.byte()});
        case Command::kGetIrqInfo:
          return bytes_of(wire::IrqInfo{.index = input.byte()});
        case Command::kGetInfo:
          return bytes_of(wire::DeviceInfo{});
        case Command::kSetIrqs:
          return bytes_of(wire::SetIrqs{20, flags, input.byte() % 5u, input.byte() % 4u, input.byte() % 10u});
        case Command::kRegionRead:
        case Command::kRegionWrite:
          return bytes_of(wire::RegionAccess{input.u16(), input.byte() % 9u, 4}, input.u32());
        default:
          return {};
      }
    }();
    say(command, payload, fds, (flags & 128) != 0 ? vfio_user::kFlagNoReply : 0);
  }

  // Attaches like QEMU and a driver. With other descriptors than QEMU's it may fail at any point.
  void attach(int memory, const std::array<int, abi::kVectorCount>& events) {
    client_->send(vfio_user::qemu_version());
    turn();
    say(Command::kDmaMap, bytes_of(wire::DmaMap{32, 3, 0, FakeGuest::kRamBase, kRamBytes}), {memory});
    constexpr std::uint32_t kAssign = wire::kIrqDataEventfd | wire::kIrqActionTrigger;
    for (std::uint32_t vector = 0; vector < events.size(); ++vector)
      say(Command::kSetIrqs, bytes_of(wire::SetIrqs{20, kAssign, 2, vector, 1}), {events[vector]});
    constexpr std::uint16_t kCommand = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
    say(Command::kRegionWrite, bytes_of(wire::RegionAccess{PCI_COMMAND, 7, sizeof kCommand}, kCommand));
    write_register(abi::Register::kDsrLow, static_cast<std::uint32_t>(guest_.region_address));
    write_register(abi::Register::kDsrHigh, static_cast<std::uint32_t>(guest_.region_address >> 32));
    write_register(abi::Register::kImr, abi::kImrAllEnabled);
    write_register(abi::Register::kCtl, static_cast<std::uint32_t>(abi::Ctl::kActivate));
  }
  void query_port() {
    abi::QueryPortRequest request{};
    request.port_num = 1;
    command(abi::Command::kQueryPort, request);
  }
  template <typename Request>
  void command(abi::Command which, Request request) {
    request.hdr = {FakeGuest::kCookie, static_cast<std::uint32_t>(which), 0};
    // Uses a system call, because the memory may be gone, and that must trouble only the daemon.
    const auto offset = static_cast<off_t>(guest_.region.cmd_slot_dma - FakeGuest::kRamBase);
    [[maybe_unused]] const ssize_t put = ::pwrite(guest_.ram_fd(), &request, sizeof request, offset);
    write_register(abi::Register::kRequest, 0);
  }

  // A correct client gets its interrupts.
  void serve_another() {
    come();
    const Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    attach(guest_.ram_fd(), {event.get(), event.get(), event.get()});
    query_port();
    std::uint64_t count = 0;
    PVRDMA_CHECK(last_error_ == 0 && ::read(event.get(), &count, sizeof count) == sizeof count && count == 1,
                 "the next client gets its interrupt");
    leave();
  }

  FakeGuest guest_;
  test::DoorbellPages pages_{guest_.adapter()};
  std::vector<std::byte> ram_;  // as the driver prepared it
  std::string path_;
  std::unique_ptr<Reaper> reaper_ = Reaper::create().value();
  std::unique_ptr<vfio_user::Server> server_;
  std::optional<vfio_user::RawPeer> client_;
  std::unique_ptr<vfio_user::MessageSocket> replies_;  // of client_
  Descriptors* descriptors_ = nullptr;
  std::uint16_t id_ = 0;
  std::uint32_t last_error_ = 0;
  test::SavedBytes saved_;  // of the migration
};

}  // namespace
}  // namespace pvrdma::device

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pvrdma;
  static device::Harness harness = [] {
    log::set_level(log::Level::kError);
    return device::Harness();
  }();
  harness.run(test::FuzzInput(data, size));
  return 0;
}
