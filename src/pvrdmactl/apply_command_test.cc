#include "pvrdmactl/apply_command.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "pvrdmactl/commands_fixture.h"

namespace pvrdma::ctl {
namespace {

using testing::HasSubstr;

class EditsFile : public testing::Test {
 protected:
  ~EditsFile() override { std::filesystem::remove(path_); }
  Result<std::string> read(const std::string& text, bool dry_run = false) {
    std::ofstream(path_) << text;
    return read_edits(path_, dry_run);
  }
  const std::string path_ = testing::TempDir() + "edits_" + std::to_string(::getpid());
};

TEST_F(EditsFile, IsTheRequestsBody) {
  EXPECT_EQ(read(R"({"edits": [{"path": "/v1/dvs", "method": "POST"}]})").value(),
            R"({"edits":[{"path":"/v1/dvs","method":"POST"}]})");
  EXPECT_EQ(read(R"({"edits": []})", /*dry_run=*/true).value(), R"({"edits":[],"dry_run":true})");
  EXPECT_EQ(read(R"({"edits": [], "dry_run": true})").value(), R"({"edits":[],"dry_run":true})");
}

TEST_F(EditsFile, IsRefusedIfItIsNoObjectOrTooLong) {
  for (const char* text : {"", "[]", "{", "1", "{} {}", "{\"a\": \"\xff\"}"})
    EXPECT_THAT(read(text).error().message, HasSubstr(path_ + " is not a JSON object")) << text;
  EXPECT_THAT(read(std::string(65 * 1024, ' ')).error().message, HasSubstr("more than 65536 bytes"));
  EXPECT_THAT(read_edits(path_ + "x", false).error().message, HasSubstr("cannot read " + path_ + "x: "));
  EXPECT_THAT(read_edits(testing::TempDir(), false).error().message, HasSubstr("cannot read "));
}

TEST_F(EditsFile, IsRefusedIfAMemberIsThereTwice) {
  EXPECT_EQ(read(R"({"edits": [{"method": "POST"}], "edits": []})").error().message,
            "an object in " + path_ + " has edits twice: write each member once, and all edits in one list");
  EXPECT_THAT(read(R"({"edits": [{"body": {"a": {"name": 1, "name": 2}}}]})").error().message,
              HasSubstr(" has name twice"));
  EXPECT_TRUE(read(R"({"edits": [{"path": "a"}, {"path": "a", "body": {"path": "a"}}]})"));
}

TEST_F(EditsFile, IsRefusedIfTheRequestWouldBeTooLong) {
  const auto with_bytes = [](std::size_t bytes) {
    const std::string text = R"({"edits":[],"x":""})";
    return text.substr(0, text.size() - 2) + std::string(bytes - text.size(), 'x') + "\"}";
  };
  EXPECT_EQ(read(with_bytes(65536)).value().size(), 65536U);
  EXPECT_THAT(read(with_bytes(65536), /*dry_run=*/true).error().message, HasSubstr("more than 65536 bytes"));
}

TEST(Apply, ShowsWhatChanges) {
  EXPECT_EQ(shown("apply x", R"({"dry_run":false,"revision":3,"answers":[{},{},{}],"changes":[
    {"kind":"dvs","name":"DSwitch","change":"added","members":[
      {"member":"uplinks","before":null,"after":["uplink1"]},{"member":"version","before":null,"after":"8.0.0"}]},
    {"kind":"host","name":"esx-01","change":"changed","members":[
      {"member":"pvrdma_vmknic","before":"","after":"vmk2"},{"member":"vmks/vmk2","before":null,"after":"10.0.0.1"},
      {"member":"vmks/vmk3","before":"10.0.0.3","after":null}]},
    {"kind":"vm","name":"VM-09","change":"removed","members":[]}]})"),
            "dvs DSwitch: added\n"
            "  uplinks: [\"uplink1\"]\n"
            "  version: \"8.0.0\"\n"
            "host esx-01: changed\n"
            "  pvrdma_vmknic: \"\" -> \"vmk2\"\n"
            "  vmks/vmk2: - -> \"10.0.0.1\"\n"
            "  vmks/vmk3: \"10.0.0.3\" -> -\n"
            "vm VM-09: removed\n");
  EXPECT_EQ(shown("apply x --dry-run", R"({"dry_run":true,"revision":3,"answers":[],"changes":[]})"),
            "Nothing changes: the configuration is like that already.\n"
            "Nothing was changed: this was a dry run.\n");
}

}  // namespace
}  // namespace pvrdma::ctl
