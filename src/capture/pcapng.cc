#include "capture/pcapng.h"

#include <algorithm>

namespace pvrdma::capture {
namespace {

constexpr std::uint32_t kSectionBlock = 0x0a0d0d0a;
constexpr std::uint32_t kInterfaceBlock = 1;
constexpr std::uint32_t kStatisticsBlock = 5;
constexpr std::uint32_t kFrameBlock = 6;
constexpr std::uint32_t kByteOrder = 0x1a2b3c4d;
constexpr std::uint16_t kEthernet = 1;
constexpr std::uint8_t kNanoseconds = 9;

constexpr std::uint16_t kComment = 1;
constexpr std::uint16_t kName = 2;
constexpr std::uint16_t kDescription = 3;
constexpr std::uint16_t kApplication = 4;
constexpr std::uint16_t kResolution = 9;
constexpr std::uint16_t kFlags = 2;
constexpr std::uint16_t kReceived = 4;
constexpr std::uint16_t kDropped = 5;
constexpr std::size_t kOptionBytesMax = 0xffff;

// One block. The constructor begins it; the destructor ends it and fills in its length.
class Block {
 public:
  Block(std::string& out, std::uint32_t type) : out_(out), begin_(out.size()) {
    put(type);
    put(std::uint32_t{0});
  }
  ~Block() {
    const auto length = static_cast<std::uint32_t>(out_.size() - begin_ + sizeof(std::uint32_t));
    put(length);
    out_.replace(begin_ + sizeof length, sizeof length, reinterpret_cast<const char*>(&length),
                 sizeof length);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  template <typename T>
  void put(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_bytes(std::string_view bytes) {
    out_.append(bytes);
    out_.append(-bytes.size() & 3, '\0');
  }
  void option(std::uint16_t code, std::string_view value) {
    value = value.substr(0, kOptionBytesMax);
    put(code);
    put(static_cast<std::uint16_t>(value.size()));
    put_bytes(value);
  }
  template <typename T>
  void number(std::uint16_t code, T value) {
    option(code, {reinterpret_cast<const char*>(&value), sizeof value});
  }
  void end_options() { put(std::uint32_t{0}); }
  void time(std::uint64_t ns) {
    put(static_cast<std::uint32_t>(ns >> 32));
    put(static_cast<std::uint32_t>(ns));
  }

 private:
  std::string& out_;
  const std::size_t begin_;
};

}  // namespace

void add_section(std::string& out, std::string_view comment, std::string_view application) {
  Block block(out, kSectionBlock);
  block.put(kByteOrder);
  block.put(std::uint16_t{1});
  block.put(std::uint16_t{0});
  block.put(std::int64_t{-1});  // unknown length
  block.option(kComment, comment);
  block.option(kApplication, application);
  block.end_options();
}

void add_interface(std::string& out, std::string_view name, std::string_view description,
                   std::uint32_t snap_bytes) {
  Block block(out, kInterfaceBlock);
  block.put(kEthernet);
  block.put(std::uint16_t{0});
  block.put(snap_bytes);
  block.option(kName, name);
  block.option(kDescription, description);
  block.number(kResolution, kNanoseconds);
  block.end_options();
}

void add_frame(std::string& out, std::uint32_t interface_id, std::uint64_t time_ns,
               verbs::Direction direction, std::span<const std::byte> kept, std::size_t bytes) {
  Block block(out, kFrameBlock);
  block.put(interface_id);
  block.time(time_ns);
  block.put(static_cast<std::uint32_t>(kept.size()));
  block.put(static_cast<std::uint32_t>(bytes));
  block.put_bytes({reinterpret_cast<const char*>(kept.data()), kept.size()});
  block.number(kFlags, direction == verbs::Direction::kInbound ? 1U : 2U);
  block.end_options();
}

void add_statistics(std::string& out, std::uint32_t interface_id, std::uint64_t time_ns,
                    std::uint64_t received, std::uint64_t dropped) {
  Block block(out, kStatisticsBlock);
  block.put(interface_id);
  block.time(time_ns);
  block.number(kReceived, received);
  block.number(kDropped, dropped);
  block.end_options();
}

}  // namespace pvrdma::capture
