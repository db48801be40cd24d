// FakeGuest: a VM with one adapter, in one process, for this folder's tests and fuzzers. It acts as the VMM
// (handler calls, eventfds, RAM in a memfd) and as much of the driver as needed (shared region, command
// slots). Thread: one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <linux/pci_regs.h>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "abi/commands.h"
#include "abi/ring.h"
#include "abi/shared_region.h"
#include "base/check.h"
#include "device/adapter.h"
#include "state/reader.h"
#include "state/writer.h"
#include "support/manual_clock.h"

namespace pvrdma::test {

inline constexpr std::uint32_t kSend = 1u << 30;  // in a doorbell's word: send WQEs were posted
inline constexpr std::uint32_t kUnknown = 100;  // a QP handle that no QP has; the engine counts its doorbells
inline constexpr auto kActivate = static_cast<std::uint32_t>(abi::Ctl::kActivate);

class FakePort final : public verbs::SwitchPort {
 public:
  FakePort() : SwitchPort(generation) {}
  bool send_datagram(const verbs::Datagram&, const guestmem::SpanList&, Instant) override {
    ++datagrams;
    return true;
  }
  void flush(Instant) override {}
  bool bind_gid(const verbs::Gid&) override { return accepts_gids; }
  void unbind_gid(const verbs::Gid&) override { ++unbound_gids; }
  std::uint64_t set_stopped(bool now) override {
    stopped = now;
    return peers_qps;
  }
  std::uint64_t peers_qps = 0;

  std::atomic<std::uint64_t> generation = 1;
  bool accepts_gids = true;
  bool stopped = false;
  std::uint64_t requests = 0;
  std::uint64_t responses = 0;
  std::uint64_t datagrams = 0;
  std::uint64_t unbound_gids = 0;
  verbs::Request last_request{};

 private:
  class CountingPath final : public verbs::Path {
   public:
    explicit CountingPath(FakePort& port) : port_(port) {}
    std::uint32_t room(std::uint32_t wanted, Instant) override { return wanted; }
    void send_request(const verbs::Request& request, const guestmem::SpanList&, Instant) override {
      ++port_.requests;
      port_.last_request = request;
    }
    void send_response(const verbs::Response&, const guestmem::SpanList&, Instant) override {
      ++port_.responses;
    }

   private:
    FakePort& port_;
  };
  void open_path(const verbs::Connection&, verbs::PathSlot& slot) override { slot.open<CountingPath>(*this); }
};

inline device::AdapterConfig some_adapter(HardwareVersion version = HardwareVersion::k14) {
  device::AdapterConfig config;
  config.name = "test";
  config.mac = abi::Mac{{0x00, 0x50, 0x56, 0x01, 0x02, 0x03}};
  config.hardware_version = version;
  config.roce = default_roce(version);
  return config;
}

class FakeGuest {
 public:
  static constexpr std::uint64_t kRamBase = 0x10'0000;
  static constexpr std::uint64_t kUarPageFrame = 0xfe800;

  explicit FakeGuest(const device::AdapterConfig& config = some_adapter(), std::uint64_t ram_bytes = 4u << 20)
      : config_(config), ram_bytes_(ram_bytes), fd_(::memfd_create("fake-guest", MFD_CLOEXEC)) {
    PVRDMA_CHECK(fd_ && ::ftruncate(fd_.get(), static_cast<off_t>(ram_bytes)) == 0, "a memfd for the guest");
    void* mapped = ::mmap(nullptr, ram_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    PVRDMA_CHECK(mapped != MAP_FAILED, "the guest sees its memory");
    ram_ = static_cast<std::byte*>(mapped);
    adapter_ = successor();
  }
  ~FakeGuest() {
    adapter_.reset();
    ::munmap(ram_, ram_bytes_);
  }
  FakeGuest(const FakeGuest&) = delete;
  FakeGuest& operator=(const FakeGuest&) = delete;

  device::Adapter& adapter() { return *adapter_; }

  // --- Another daemon ---

  // A new adapter with this guest's configuration, whose VMM has restored the command register.
  std::unique_ptr<device::Adapter> successor() { return successor(clock); }
  std::unique_ptr<device::Adapter> successor(const Clock& its_clock) {
    auto created = device::Adapter::create(config_, port, its_clock);
    PVRDMA_CHECK(created, "the adapter can be made");
    write_command(**created);
    return std::move(*created);
  }
  std::vector<std::byte> save() const { return save(*adapter_); }
  std::vector<std::byte> save(const device::Adapter& adapter) const {
    state::Writer writer;
    adapter.save(writer, std::nullopt, clock.now());
    return writer.finish();
  }
  // The reason of a failure; empty: it succeeded.
  std::string load(device::Adapter& adapter, std::span<const std::byte> stream) const {
    state::Reader reader(stream);
    const Result<device::PciState> loaded = adapter.load(reader, clock.now());
    return loaded ? "" : loaded.error().message;
  }
  // Destroys the adapter and continues with a new one from the saved state.
  void replace() {
    const std::vector<std::byte> stream = save();
    adapter_ = nullptr;
    adapter_ = successor();
    if (is_connected_) connect_again();
    PVRDMA_CHECK(load(*adapter_, stream).empty(), "an adapter's own state");
    PVRDMA_CHECK(save() == stream, "a loaded adapter is the one that was saved");
    adapter_->resume();
  }

  // --- The VMM ---

  // Connects, maps the RAM and assigns an eventfd to each vector.
  void connect() {
    for (Fd& eventfd : eventfds_) eventfd = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    connect_again();
  }
  // Connects with the same RAM and eventfds.
  void connect_again() {
    is_connected_ = true;
    adapter_->connected();
    map_ram();
    for (std::uint32_t vector = 0; vector < abi::kVectorCount; ++vector) {
      PVRDMA_CHECK(adapter_->set_irq_eventfd(2, vector, Fd(::dup(eventfds_[vector].get()))) == 0,
                   "an eventfd is assigned");
    }
  }

  // The guest writes the command register of the configuration space.
  void set_command(std::uint16_t bits) {
    command_ = bits;
    write_command(*adapter_);
  }

  void map_ram() {
    vfio_user::DmaMapRequest map;
    map.iova = kRamBase;
    map.size = ram_bytes_;
    map.readable = true;
    map.writable = true;
    PVRDMA_CHECK(adapter_->dma_map(map, Fd(::dup(fd_.get()))) == 0, "RAM maps");
  }

  // Interrupts since the last call.
  std::uint64_t interrupts(abi::Vector vector) {
    std::uint64_t count = 0;
    const auto index = static_cast<std::size_t>(vector);
    return ::read(eventfds_[index].get(), &count, sizeof count) == sizeof count ? count : 0;
  }

  int ram_fd() const { return fd_.get(); }
  void truncate_ram(std::uint64_t bytes) {
    PVRDMA_CHECK(::ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0, "the memfd shrinks");
  }

  // --- Memory ---

  template <typename T>
  void store(std::uint64_t gpa, const T& value) {
    PVRDMA_CHECK(gpa >= kRamBase && gpa - kRamBase + sizeof(T) <= ram_bytes_, "inside the RAM");
    std::memcpy(ram_ + (gpa - kRamBase), &value, sizeof value);
  }
  template <typename T>
  T load(std::uint64_t gpa) const {
    PVRDMA_CHECK(gpa >= kRamBase && gpa - kRamBase + sizeof(T) <= ram_bytes_, "inside the RAM");
    T value;
    std::memcpy(&value, ram_ + (gpa - kRamBase), sizeof value);
    return value;
  }
  std::span<std::byte> ram() { return {ram_, ram_bytes_}; }

  // New zeroed pages and a directory that lists them.
  struct Pages {
    std::uint64_t directory = 0;
    std::vector<std::uint64_t> at;
    std::uint32_t count() const { return static_cast<std::uint32_t>(at.size()); }
  };
  std::uint64_t page() {
    const std::uint64_t out = next_;
    next_ += abi::kPageBytes;
    PVRDMA_CHECK(next_ <= kRamBase + ram_bytes_, "the guest's memory is used up");
    return out;
  }
  Pages pages(std::uint32_t count) {
    PVRDMA_CHECK(count <= 512, "one table is enough");
    Pages out;
    out.directory = page();
    const std::uint64_t table = page();
    store(out.directory, table);
    for (std::uint32_t i = 0; i < count; ++i) {
      out.at.push_back(page());
      store(table + std::uint64_t{i} * 8, out.at.back());
    }
    return out;
  }

  // --- Registers and doorbells ---

  std::uint32_t read_register(abi::Register which) {
    std::uint32_t value = 0;
    const int error = adapter_->region_read(1, static_cast<std::uint64_t>(which),
                                            std::as_writable_bytes(std::span(&value, 1)));
    PVRDMA_CHECK(error == 0, "registers can be read");
    return value;
  }
  void write_register(abi::Register which, std::uint32_t value) {
    write32(1, static_cast<std::uint64_t>(which), value);
  }
  int write32(std::uint32_t bar, std::uint64_t offset, std::uint32_t value) {
    return adapter_->region_write(bar, offset, std::as_bytes(std::span(&value, 1)), false);
  }

  // --- The driver ---

  // A shared region as Linux fills it. A hostile test changes `region` before load_region().
  void prepare_region() {
    region_address = page();
    async = pages(4);
    notifications = pages(4);
    region = {};
    region.driver_version = 20;
    region.gos_info = 0x46;
    region.cmd_slot_dma = page();
    region.resp_slot_dma = page();
    region.async_ring_pages = {4, 0, async.directory};
    region.cq_ring_pages = {4, 0, notifications.directory};
    region.uar_pfn = kUarPageFrame;
  }
  // The driver enables bus mastering and tells the adapter of the shared region.
  void load_region() {
    set_command(PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
    store(region_address, region);
    write_register(abi::Register::kDsrLow, static_cast<std::uint32_t>(region_address));
    write_register(abi::Register::kDsrHigh, static_cast<std::uint32_t>(region_address >> 32));
  }
  std::uint32_t control(std::uint32_t value) {
    write_register(abi::Register::kCtl, value);
    return read_register(abi::Register::kErr);
  }
  // Does connect, shared region, IMR and ACTIVATE.
  void bring_up() {
    connect();
    prepare_region();
    load_region();
    write_register(abi::Register::kImr, abi::kImrAllEnabled);
    PVRDMA_CHECK(control(kActivate) == 0, "the adapter is activated");
  }

  // Fills in the header, sends `request`, and returns ERR.
  template <typename Request>
  std::uint32_t command(abi::Command which, Request request) {
    request.hdr = {kCookie, static_cast<std::uint32_t>(which), 0};
    store(region.cmd_slot_dma, request);
    write_register(abi::Register::kRequest, 0);
    return read_register(abi::Register::kErr);
  }
  template <typename Response>
  Response response() const {
    return load<Response>(region.resp_slot_dma);
  }
  static constexpr std::uint64_t kCookie = 0x0123'4567'89ab'cdef;

  // --- Objects; their creation must succeed ---

  std::uint32_t create_uc(std::uint32_t uar) {
    abi::CreateUcRequest request{};
    request.pfn64 = kUarPageFrame + uar;
    PVRDMA_CHECK(command(abi::Command::kCreateUc, request) == 0, "CREATE_UC");
    return response<abi::CreateUcResponse>().ctx_handle;
  }
  std::uint32_t create_pd(std::uint32_t context = 0) {
    abi::CreatePdRequest request{};
    request.ctx_handle = context;
    PVRDMA_CHECK(command(abi::Command::kCreatePd, request) == 0, "CREATE_PD");
    return response<abi::CreatePdResponse>().pd_handle;
  }
  struct Cq {
    std::uint32_t handle = 0;
    Pages pages;
  };
  Cq create_cq(std::uint32_t context = 0, std::uint32_t cqe = 64) {
    Cq out;
    out.pages = pages(1 + (cqe * 64 + 4095) / 4096);
    abi::CreateCqRequest request{};
    request.pdir_dma = out.pages.directory;
    request.ctx_handle = context;
    request.cqe = cqe;
    request.nchunks = out.pages.count();
    PVRDMA_CHECK(command(abi::Command::kCreateCq, request) == 0, "CREATE_CQ");
    out.handle = response<abi::CreateCqResponse>().cq_handle;
    return out;
  }
  // 16 work requests in each direction with one SGE: a state page, a send page and a receive page.
  abi::CreateQpRequest qp_request(std::uint32_t pd, std::uint32_t cq, const Pages& rings,
                                  abi::QpType type = abi::QpType::kRc) {
    abi::CreateQpRequest request{};
    request.pdir_dma = rings.directory;
    request.pd_handle = pd;
    request.send_cq_handle = cq;
    request.recv_cq_handle = cq;
    request.max_send_wr = 16;
    request.max_recv_wr = 16;
    request.max_send_sge = 1;
    request.max_recv_sge = 1;
    request.access_flags = 1;
    request.total_chunks = static_cast<std::uint16_t>(rings.count());
    request.send_chunks = 1;
    request.sq_sig_all = 1;
    request.qp_type = static_cast<std::uint8_t>(type);
    return request;
  }

  FakePort port;
  ManualClock clock;
  std::uint64_t region_address = 0;
  abi::DeviceSharedRegion region{};
  Pages async;
  Pages notifications;

 private:
  const device::AdapterConfig config_;
  const std::uint64_t ram_bytes_;
  Fd fd_;
  std::byte* ram_ = nullptr;
  std::uint64_t next_ = kRamBase;
  std::array<Fd, abi::kVectorCount> eventfds_;
  void write_command(device::Adapter& adapter) const {
    PVRDMA_CHECK(adapter.region_write(7, PCI_COMMAND, std::as_bytes(std::span(&command_, 1)), false) == 0,
                 "the configuration space is writable");
  }

  bool is_connected_ = false;
  std::uint16_t command_ = 0;  // in the configuration space
  std::unique_ptr<device::Adapter> adapter_;
};

}  // namespace pvrdma::test
