#include "standin/uverbs_command.h"

namespace pvrdma::standin {
namespace {

constexpr std::size_t kWordBytes = 4;
constexpr std::size_t kExtendedWordBytes = 8;

}  // namespace

std::optional<UverbsCommand> parse_uverbs_command(std::span<const std::byte> bytes) {
  ib_uverbs_cmd_hdr header;
  if (bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes = bytes.subspan(sizeof(header));
  if ((header.command & ~(IB_USER_VERBS_CMD_COMMAND_MASK | IB_USER_VERBS_CMD_FLAG_EXTENDED)) != 0)
    return std::nullopt;

  UverbsCommand command;
  command.number = header.command & IB_USER_VERBS_CMD_COMMAND_MASK;
  command.extended = (header.command & IB_USER_VERBS_CMD_FLAG_EXTENDED) != 0;
  if (!command.extended) {
    // The plain form counts its own header, too.
    if (header.in_words * kWordBytes != bytes.size() + sizeof(header)) return std::nullopt;
    command.body = bytes;
    command.response_room_bytes = static_cast<std::uint32_t>(header.out_words * kWordBytes);
    return command;
  }
  ib_uverbs_ex_cmd_hdr extended;
  if (bytes.size() < sizeof(extended)) return std::nullopt;
  std::memcpy(&extended, bytes.data(), sizeof(extended));
  command.body = bytes.subspan(sizeof(extended));
  const std::size_t in_words = std::size_t{header.in_words} + extended.provider_in_words;
  const std::size_t out_words = std::size_t{header.out_words} + extended.provider_out_words;
  if (in_words * kExtendedWordBytes != command.body.size() || extended.cmd_hdr_reserved != 0)
    return std::nullopt;
  if ((extended.response != 0) != (out_words != 0)) return std::nullopt;
  command.response_address = extended.response;
  command.response_room_bytes = static_cast<std::uint32_t>(out_words * kExtendedWordBytes);
  return command;
}

}  // namespace pvrdma::standin
