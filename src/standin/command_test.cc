// The framing of datagrams, of uverbs commands and of rdma_cm commands.
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

#include "standin/cm_command.h"
#include "standin/request.h"
#include "standin/uverbs_command.h"

namespace pvrdma::standin {
namespace {

std::vector<std::byte> datagram(std::uint32_t command_bytes, std::uint32_t run_count, std::size_t bytes) {
  pvrdma_wire_request header{};
  header.type = PVRDMA_WIRE_COMMAND;
  header.command_bytes = command_bytes;
  header.run_count = run_count;
  std::vector<std::byte> out(bytes, std::byte{1});
  std::memcpy(out.data(), &header, std::min(bytes, sizeof(header)));
  return out;
}

TEST(RequestTest, TakesACommandPaddedToWordsAndItsRuns) {
  const auto bytes = datagram(12, 2, 32 + 16 + 2 * 16);
  const auto request = parse_request(bytes);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->command.size(), 12u);
  EXPECT_EQ(request->runs.size(), 2u);
  EXPECT_EQ(request->runs[1].pages, 0x01010101u);
}

TEST(RequestTest, TakesTheLargestDatagram) {
  const auto bytes = datagram(PVRDMA_WIRE_MAX_COMMAND_BYTES, PVRDMA_WIRE_MAX_RUNS, kRequestBytesMax);
  EXPECT_TRUE(parse_request(bytes));
}

TEST(RequestTest, RefusesLengthsThatContradictEachOther) {
  EXPECT_FALSE(parse_request({}));
  EXPECT_FALSE(parse_request(datagram(0, 0, 31)));
  EXPECT_FALSE(parse_request(datagram(0, 0, 33)));
  EXPECT_FALSE(parse_request(datagram(12, 0, 32 + 12))) << "without the padding";
  EXPECT_FALSE(parse_request(datagram(8, 1, 32 + 8 + 8)));
  EXPECT_FALSE(parse_request(datagram(PVRDMA_WIRE_MAX_COMMAND_BYTES + 8, 0, 32 + 4104)));
  EXPECT_FALSE(parse_request(datagram(0, PVRDMA_WIRE_MAX_RUNS + 1, 32 + (PVRDMA_WIRE_MAX_RUNS + 1) * 16)));
  EXPECT_FALSE(parse_request(datagram(0xffff'ffff, 0xffff'ffff, 32)));
}

TEST(RequestTest, RefusesARunOfNoPages) {
  auto bytes = datagram(0, 1, 32 + 16);
  std::memset(bytes.data() + 32, 0, 16);
  EXPECT_FALSE(parse_request(bytes));
}

std::vector<std::byte> plain(std::uint32_t command, std::uint16_t in_words, std::uint16_t out_words,
                             std::size_t bytes) {
  const ib_uverbs_cmd_hdr header{command, in_words, out_words};
  std::vector<std::byte> out(bytes);
  std::memcpy(out.data(), &header, std::min(bytes, sizeof(header)));
  return out;
}

TEST(UverbsCommandTest, PlainFormCountsItsHeader) {
  const auto bytes = plain(IB_USER_VERBS_CMD_ALLOC_PD, 4, 3, 16);
  const auto command = parse_uverbs_command(bytes);
  ASSERT_TRUE(command);
  EXPECT_FALSE(command->extended);
  EXPECT_EQ(command->number, static_cast<std::uint32_t>(IB_USER_VERBS_CMD_ALLOC_PD));
  EXPECT_EQ(command->body.size(), 8u);
  EXPECT_EQ(command->response_room_bytes, 12u);
}

TEST(UverbsCommandTest, RefusesBadLengthsAndFlags) {
  EXPECT_FALSE(parse_uverbs_command({}));
  EXPECT_FALSE(parse_uverbs_command(plain(1, 2, 0, 7)));
  EXPECT_FALSE(parse_uverbs_command(plain(1, 3, 0, 16)));
  EXPECT_FALSE(parse_uverbs_command(plain(1, 5, 0, 16)));
  EXPECT_FALSE(parse_uverbs_command(plain(1 | 0x100, 4, 0, 16)));
  EXPECT_FALSE(parse_uverbs_command(plain(1 | 0x4000'0000, 4, 0, 16)));
}

std::vector<std::byte> extended(std::uint16_t in_words, std::uint16_t out_words, ib_uverbs_ex_cmd_hdr second,
                                std::size_t bytes) {
  auto out =
      plain(IB_USER_VERBS_EX_CMD_QUERY_DEVICE | IB_USER_VERBS_CMD_FLAG_EXTENDED, in_words, out_words, bytes);
  if (bytes >= 24) std::memcpy(out.data() + 8, &second, sizeof(second));
  return out;
}

TEST(UverbsCommandTest, ExtendedFormCountsWithoutHeaders) {
  const auto bytes = extended(1, 10, {.response = 0x5000, .provider_out_words = 2}, 32);
  const auto command = parse_uverbs_command(bytes);
  ASSERT_TRUE(command);
  EXPECT_TRUE(command->extended);
  EXPECT_EQ(command->body.size(), 8u);
  EXPECT_EQ(command->response_address, 0x5000u);
  EXPECT_EQ(command->response_room_bytes, 96u);
}

TEST(UverbsCommandTest, RefusesBadExtendedHeaders) {
  EXPECT_FALSE(parse_uverbs_command(extended(0, 0, {}, 16))) << "no second header";
  EXPECT_FALSE(parse_uverbs_command(extended(2, 10, {.response = 1}, 32)));
  EXPECT_FALSE(parse_uverbs_command(extended(1, 10, {}, 32))) << "a response without an address";
  EXPECT_FALSE(parse_uverbs_command(extended(1, 0, {.response = 1}, 32))) << "an address without a response";
  EXPECT_FALSE(parse_uverbs_command(extended(1, 10, {.response = 1, .cmd_hdr_reserved = 1}, 32)));
  EXPECT_FALSE(parse_uverbs_command(extended(0xffff, 10, {.response = 1, .provider_in_words = 2}, 32)));
}

std::vector<std::byte> cm(std::uint32_t number, std::uint16_t in, std::uint16_t out, std::size_t bytes) {
  const rdma_ucm_cmd_hdr header{number, in, out};
  std::vector<std::byte> command(bytes);
  std::memcpy(command.data(), &header, std::min(bytes, sizeof(header)));
  return command;
}

TEST(CmCommandTest, HeaderCountsTheStructBehindIt) {
  const auto bytes = cm(RDMA_USER_CM_CMD_SET_OPTION, 24, 4, 8 + 24 + 4);
  const auto command = parse_cm_command(bytes);
  ASSERT_TRUE(command);
  EXPECT_EQ(command->number, static_cast<std::uint32_t>(RDMA_USER_CM_CMD_SET_OPTION));
  EXPECT_EQ(command->body.size(), 24u);
  EXPECT_EQ(command->appended.size(), 4u) << "the option's value";
  EXPECT_EQ(command->response_room_bytes, 4u);
}

TEST(CmCommandTest, RefusesBadLengths) {
  EXPECT_FALSE(parse_cm_command({}));
  EXPECT_FALSE(parse_cm_command(cm(1, 0, 0, 7)));
  EXPECT_FALSE(parse_cm_command(cm(1, 9, 0, 16)));
  EXPECT_FALSE(parse_cm_command(cm(1, 0xffff, 0, 4096)));
}

TEST(CmCommandTest, StructsMayLackWhatLaterVersionsAppend) {
  const std::size_t old_bytes = offsetof(rdma_ucm_connect, ece);
  const auto bytes = cm(RDMA_USER_CM_CMD_CONNECT, static_cast<std::uint16_t>(old_bytes), 0, 8 + old_bytes);
  const auto command = parse_cm_command(bytes);
  ASSERT_TRUE(command);
  rdma_ucm_connect connect;
  connect.ece.vendor_id = 7;
  EXPECT_FALSE(command->read(connect));
  ASSERT_TRUE(command->read(connect, old_bytes));
  EXPECT_EQ(connect.ece.vendor_id, 0u);
}

TEST(UverbsCommandTest, AnswerKeepsToTheRoomOfTheCommand) {
  UverbsCommand command;
  command.response_room_bytes = 6;
  UverbsAnswer answer;
  answer.put(command, std::uint32_t{1});
  answer.put(command, std::uint32_t{2});
  answer.put(command, std::uint32_t{3});
  EXPECT_EQ(answer.response_bytes, 6u);
  command.response_room_bytes = 0x7'ffff;
  for (int i = 0; i < 3000; ++i) answer.put(command, std::uint64_t{4});
  EXPECT_EQ(answer.response_bytes, static_cast<std::uint32_t>(PVRDMA_WIRE_MAX_RESPONSE_BYTES));
}

}  // namespace
}  // namespace pvrdma::standin
