#include "device/migration_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>
#include <utility>

namespace pvrdma::device {

struct MigrationStream::Held final : Reapable {
  ~Held() override { std::free(written); }
  std::size_t bytes() const { return part.size() + room; }
  std::size_t unread() const { return part.size() - read; }
  void write_ahead() {
    if (!write_next(writer)) {
      writer.end_stream();
      write_next = nullptr;
    }
  }

  state::Writer writer;  // what comes after `part`
  WriteNext write_next;  // empty: the end of the state is written
  std::vector<std::byte> part;
  std::size_t read = 0;     // bytes of it
  std::uint64_t taken = 0;  // bytes of all parts

  // From realloc(), which moves the pages of large blocks instead of copying them.
  std::byte* written = nullptr;
  std::size_t begin = 0;  // before it, all is dropped
  std::size_t end = 0;
  std::size_t room = 0;
  std::uint64_t written_bytes = 0;  // with those that are dropped
};

MigrationStream::MigrationStream(std::shared_ptr<ReaperQueue> queue, verbs::HostAccount* host)
    : queue_(std::move(queue)), host_(host) {}

MigrationStream::~MigrationStream() {
  clear();
}

bool MigrationStream::begin() {
  clear();
  auto held = std::make_unique<Held>();
  if (host_ != nullptr && !host_->take_stream()) return false;
  held_ = std::move(held);
  return true;
}

void MigrationStream::offer(state::Writer writer, WriteNext write_next) {
  held_->writer = std::move(writer);
  held_->part = held_->writer.take();
  held_->taken = held_->part.size();
  held_->write_next = std::move(write_next);
}

bool MigrationStream::is_behind() const {
  return held_ != nullptr && held_->write_next && held_->unread() + held_->writer.untaken() < kStepBytes;
}

void MigrationStream::write_ahead() {
  held_->write_ahead();
}

std::size_t MigrationStream::read(std::span<std::byte> out) {
  if (held_ == nullptr) return 0;
  Held& from = *held_;
  std::size_t done = 0;
  while (true) {
    const std::size_t size = std::min(out.size() - done, from.unread());
    std::copy_n(from.part.begin() + static_cast<std::ptrdiff_t>(from.read), size,
                out.begin() + static_cast<std::ptrdiff_t>(done));
    from.read += size;
    done += size;
    if (done == out.size()) return done;
    if (from.writer.untaken() == 0) {
      if (!from.write_next) return done;
      from.write_ahead();
    }
    from.part = from.writer.take();
    from.read = 0;
    from.taken += from.part.size();
  }
}

std::uint64_t MigrationStream::saved_bytes() const {
  return held_ != nullptr ? held_->taken + held_->writer.untaken() : 0;
}

int MigrationStream::write(std::span<const std::byte> data, std::uint64_t bytes_max) {
  const std::uint64_t before = written_bytes();
  if (before > bytes_max || data.size() > bytes_max - before) return ENOSPC;
  try {
    if (held_ == nullptr && !begin()) return EBUSY;
    Held& into = *held_;
    if (into.begin != 0) {
      std::copy(into.written + into.begin, into.written + into.end, into.written);
      into.end -= std::exchange(into.begin, 0);
    }
    if (into.room - into.end < data.size()) {
      const std::size_t room = (into.end + data.size() + kStepBytes - 1) / kStepBytes * kStepBytes;
      void* const larger = std::realloc(into.written, room);
      if (larger == nullptr) return ENOMEM;
      into.written = static_cast<std::byte*>(larger);
      into.room = room;
    }
    std::copy(data.begin(), data.end(), into.written + into.end);
    into.end += data.size();
    into.written_bytes += data.size();
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  return 0;
}

std::span<const std::byte> MigrationStream::written() const {
  if (held_ == nullptr) return {};
  return {held_->written + held_->begin, held_->end - held_->begin};
}

void MigrationStream::drop_front(std::size_t bytes) {
  if (held_ != nullptr) held_->begin += bytes;
}

std::uint64_t MigrationStream::written_bytes() const {
  return held_ != nullptr ? held_->written_bytes : 0;
}

void MigrationStream::clear() {
  if (held_ == nullptr) return;
  if (host_ != nullptr) host_->give_stream();
  if (queue_ != nullptr && held_->bytes() > kStepBytes)
    queue_->release(std::move(held_));
  else
    held_.reset();
}

}  // namespace pvrdma::device
