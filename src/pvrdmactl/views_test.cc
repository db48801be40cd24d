#include "pvrdmactl/views.h"

#include <gtest/gtest.h>

namespace pvrdma::ctl {
namespace {

constexpr const char* kAdapter =
    R"({"name":"VM-01","state":"active","mac":"52:54:00:12:34:51","hardware_version":14,
  "roce":"v2","socket":"/run/a.sock","link_up":true,"device_version":18,"driver_version":20,"guest_os":"Linux",
  "memory_bytes":536870912,"tx_messages":2,"tx_bytes":65536,"rx_messages":1,"rx_bytes":8,
  "gids":[{"index":0,"gid":"fe80::1","roce":"v2"}],"objects":{"pds":1,"qps":3},
  "paths":{"local":{"messages":5,"payload_bytes":640}}})";

TEST(Views, ListAdapters) {
  EXPECT_EQ(adapter_list_view("[" + std::string(kAdapter) + "]").value(),
            "Name   State   MAC                HW  RoCE  QPs  TX Bytes  RX Bytes  Socket\n"
            "-----  ------  -----------------  --  ----  ---  --------  --------  -----------\n"
            "VM-01  active  52:54:00:12:34:51  14  v2      3     65536         8  /run/a.sock\n");
}

TEST(Views, ShowOneAdapter) {
  EXPECT_EQ(adapter_view(kAdapter).value(),
            "VM-01\n"
            "   State: active\n"
            "   MAC: 52:54:00:12:34:51\n"
            "   Hardware Version: 14\n"
            "   RoCE: v2\n"
            "   Socket: /run/a.sock\n"
            "   Link: up\n"
            "   Device Version: 18\n"
            "   Driver Version: 20\n"
            "   Guest OS: Linux\n"
            "   Guest Memory: 512 MiB\n"
            "   GID 0: fe80::1 (RoCE v2)\n"
            "   Objects: 1 pds, 3 qps\n"
            "   TX: 2 messages, 65536 bytes\n"
            "   RX: 1 messages, 8 bytes\n"
            "   Path local: 5 messages, 640 bytes sent\n");
}

TEST(Views, ListQpsWithTheirPaths) {
  EXPECT_EQ(
      qp_list_view(
          R"([{"adapter":"VM-01","qpn":2,"type":"RC","state":"RTS","remote_gid":"fe80::2","remote_qpn":7,
        "path":"local","tx_messages":1,"tx_bytes":2,"rx_messages":3,"rx_bytes":4},
        {"adapter":"VM-01","qpn":1,"type":"GSI","state":"RTS","remote_gid":"","remote_qpn":0,"path":"",
        "tx_messages":0,"tx_bytes":0,"rx_messages":0,"rx_bytes":0}])")
          .value(),
      "Adapter  QPN  Type  State  Path   Remote GID  Remote QPN  TX Messages  TX Bytes  RX Messages  RX "
      "Bytes\n"
      "-------  ---  ----  -----  -----  ----------  ----------  -----------  --------  -----------  "
      "--------\n"
      "VM-01      2  RC    RTS    local  fe80::2              7            1         2            3         "
      "4\n"
      "VM-01      1  GSI   RTS    -      -                    -            0         0            0         "
      "0\n");
}

TEST(Views, ShowTheCountersThatAreNotZero) {
  EXPECT_EQ(stats_view(R"({"adapters":[{"name":"VM-01","verbs":{"tx_bytes":5,"timeouts":0}}],
        "host":{"shard":{"turns":77}}})")
                .value(),
            "Adapter  Group  Counter   Value\n"
            "-------  -----  --------  -----\n"
            "VM-01    verbs  tx_bytes      5\n"
            "-        shard  turns        77\n");
}

TEST(Views, ShowBothVersions) {
  EXPECT_EQ(version_view(R"({"version":"1.2.3"})", "1.2.4").value(), "pvrdmactl 1.2.4\npvrdmad 1.2.3\n");
  EXPECT_EQ(version_json_view(R"({"version":"1.2.3"})", "1.2.4").value(),
            "{\n  \"version\": \"1.2.3\",\n  \"pvrdmactl\": \"1.2.4\"\n}\n");
}

TEST(Views, IndentJsonAndKeepItsOrder) {
  EXPECT_EQ(json_view(R"({"b":1,"a":[]})").value(), "{\n  \"b\": 1,\n  \"a\": []\n}\n");
}

TEST(Views, RefuseWhatTheyDoNotUnderstand) {
  for (const char* json : {"", "[1]", "[{}]", "nonsense"}) {
    const auto text = adapter_list_view(json);
    ASSERT_FALSE(text) << json;
    EXPECT_TRUE(text.error().message.starts_with(
        "the daemon's answer is not what this pvrdmactl expects: are they of the same version? ("))
        << text.error().message;
  }
}

TEST(Views, TakeTheDaemonsOwnSentenceForARefusal) {
  EXPECT_EQ(error_sentence(R"({"error":"there is no adapter x"})", 404), "there is no adapter x");
  EXPECT_EQ(error_sentence("<html>", 502), "the daemon answered with HTTP status 502");
}

}  // namespace
}  // namespace pvrdma::ctl
