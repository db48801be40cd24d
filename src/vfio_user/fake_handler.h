// FakeHandler: a device for this folder's tests. It records every call as one line of text. It checks what
// handler.h promises about arguments, so a fuzzer stops when the server lets a bad value through.
//
// BAR 0 (16 KiB), BAR 1 (4 KiB, reads give the low byte of each offset), BAR 2 (8 KiB, whose last page is
// mappable), region 6 read-only, config space (256 bytes). MSI-X (irq index 2) has three vectors.
#pragma once

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <string>
#include <sys/mman.h>
#include <utility>
#include <vector>

#include "base/check.h"
#include "vfio_user/handler.h"

namespace pvrdma::vfio_user {

class FakeHandler final : public Handler {
 public:
  std::vector<std::string> calls;
  std::vector<ClientFd> fds;          // every fd that the server handed over, in order
  int next_result = 0;                // result of region accesses, irq and DMA calls
  std::uint32_t awaited_region = 1;   // the BAR (0 or 1) whose writes need replies
  std::size_t max_kept_calls = 1000;  // 0 for fuzzing, which needs only the checks
  std::vector<std::byte> last_write;
  std::uint64_t migrates = 0;  // migration_flags()
  bool logs =
      false;  // supports a log with pages of 4096 bytes; reports the first page of each range as written
  bool busy = false;                      // is_busy()
  bool lost_on_failure = false;           // when a state change fails, the device is lost
  std::size_t migration_data = 1u << 30;  // bytes left to read

  FakeHandler() : bar2_(::memfd_create("bar2", MFD_CLOEXEC)) {}

  std::uint32_t region_count() const override { return 9; }
  std::uint32_t irq_index_count() const override { return 5; }

  RegionInfo region_info(std::uint32_t region) const override {
    switch (region) {
      case 0:
        return {
            .size = 0x4000, .readable = true, .writable = true, .writes_need_replies = awaited_region == 0};
      case 1:
        return {
            .size = 0x1000, .readable = true, .writable = true, .writes_need_replies = awaited_region == 1};
      case 2:
        return {.size = 0x2000,
                .readable = true,
                .writable = true,
                .mmap_areas = {{0x1000, 0x1000}},
                .fd = bar2_.get(),
                .fd_offset = 0x3000};
      case 6:
        return {.size = 0x1000, .readable = true};
      case 7:
        return {.size = 256, .readable = true, .writable = true};
      default:
        return {};
    }
  }
  std::uint32_t irq_count(std::uint32_t index) const override { return index == 2 ? 3 : 0; }

  int region_read(std::uint32_t region, std::uint64_t offset, std::span<std::byte> out) override {
    check_access(region, offset, out.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(offset + i);
    return note(fmt::format("read {} {:#x} {}", region, offset, out.size()));
  }
  int region_write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> data,
                   bool posted) override {
    check_access(region, offset, data.size());
    if (max_kept_calls != 0) last_write.assign(data.begin(), data.end());
    return note(fmt::format("write {} {:#x} {}{}", region, offset, data.size(), posted ? " posted" : ""));
  }
  int set_irq_eventfd(std::uint32_t index, std::uint32_t vector, ClientFd eventfd) override {
    PVRDMA_CHECK(vector < irq_count(index), "vector out of range");
    const bool assigned = static_cast<bool>(eventfd);
    if (assigned && max_kept_calls != 0) fds.push_back(std::move(eventfd));
    return note(fmt::format("irq {}.{} {}", index, vector, assigned ? "assigned" : "unassigned"));
  }
  int disable_irqs(std::uint32_t index) override {
    PVRDMA_CHECK(index < irq_index_count(), "irq index out of range");
    return note(fmt::format("irqs {} disabled", index));
  }
  int dma_map(const DmaMapRequest& request, ClientFd fd) override {
    check_range(request.iova, request.size);
    PVRDMA_CHECK(request.fd_offset + request.size > request.fd_offset && request.fd_offset % 4096 == 0,
                 "fd offset");
    const bool ram = static_cast<bool>(fd);
    if (ram && max_kept_calls != 0) fds.push_back(std::move(fd));
    return note(fmt::format("map {:#x}+{:#x} {:#x} {}{}{}", request.iova, request.size, request.fd_offset,
                            request.readable ? "r" : "-", request.writable ? "w" : "-",
                            ram ? "" : " no RAM"));
  }
  int dma_unmap(std::uint64_t iova, std::uint64_t size) override {
    check_range(iova, size);
    return note(fmt::format("unmap {:#x}+{:#x}", iova, size));
  }
  void dma_unmap_all() override { note("unmap all"); }
  void reset() override { note("reset"); }
  std::uint64_t migration_flags() const override { return migrates; }
  StateChange set_migration_state(MigrationState next) override {
    return {note(fmt::format("state {}", static_cast<std::uint32_t>(next))), lost_on_failure};
  }
  tl::expected<std::size_t, int> migration_read(std::span<std::byte> out) override {
    PVRDMA_CHECK(!out.empty() && out.size() <= 1u << 20, "migration data out of range");
    const std::size_t size = std::min(out.size(), migration_data);
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i);
    if (const int result = note(fmt::format("read state {}", out.size())); result != 0)
      return tl::unexpected(result);
    migration_data -= size;
    return size;
  }
  int migration_write(std::span<const std::byte> data) override {
    PVRDMA_CHECK(!data.empty() && data.size() <= 1u << 20, "migration data out of range");
    return note(fmt::format("write state {}", data.size()));
  }
  bool can_log_writes() const override { return logs; }
  int log_start(std::uint64_t& page_size, std::span<const LogRange> ranges) override {
    std::string line = fmt::format("log {}", page_size);
    for (const LogRange& range : ranges) {
      check_range(range.iova, range.length);
      line += fmt::format(" {:#x}+{:#x}", range.iova, range.length);
    }
    page_size = 4096;
    return note(std::move(line));
  }
  int log_stop() override { return note("log off"); }
  int log_report(const LogRange& range, std::uint64_t page_size, std::span<std::byte> bitmap) override {
    check_range(range.iova, range.length);
    PVRDMA_CHECK(!bitmap.empty() && bitmap.size() <= 1u << 20 && bitmap.size() % 8 == 0, "bitmap");
    bitmap[0] = std::byte{1};
    return note(fmt::format("report {:#x}+{:#x} {} {}", range.iova, range.length, page_size, bitmap.size()));
  }
  bool is_busy() const override { return busy; }
  void connected() override {
    PVRDMA_CHECK(!std::exchange(connected_, true), "connected twice");
    note("connected");
  }
  void disconnected(std::string_view reason) override {
    PVRDMA_CHECK(std::exchange(connected_, false), "disconnected without connected");
    note(fmt::format("disconnected: {}", reason));
  }

  // The calls since the last take_calls().
  std::vector<std::string> take_calls() { return std::exchange(calls, {}); }

 private:
  int note(std::string line) {
    if (calls.size() < max_kept_calls) calls.push_back(std::move(line));
    return next_result;
  }
  static void check_range(std::uint64_t iova, std::uint64_t size) {
    PVRDMA_CHECK(size != 0 && iova + size > iova && iova % 4096 == 0 && size % 4096 == 0, "not a DMA range");
  }
  void check_access(std::uint32_t region, std::uint64_t offset, std::size_t count) const {
    PVRDMA_CHECK(region < region_count() && count != 0 && count <= 1u << 20, "region or count out of range");
    PVRDMA_CHECK(offset <= region_info(region).size && count <= region_info(region).size - offset,
                 "access outside");
  }

  Fd bar2_;
  bool connected_ = false;
};

}  // namespace pvrdma::vfio_user
