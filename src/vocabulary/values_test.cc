// MACs, names, RoCE versions, profiles, doorbell modes, hardware versions, names of links.
#include <gtest/gtest.h>
#include <string>

#include "vocabulary/doorbell_mode.h"
#include "vocabulary/hardware_version.h"
#include "vocabulary/link_name.h"
#include "vocabulary/mac.h"
#include "vocabulary/name.h"
#include "vocabulary/profile.h"

namespace pvrdma {
namespace {

TEST(Mac, IsReadAndWritten) {
  const auto mac = Mac::parse("52:54:00:12:aB:Cd");
  ASSERT_TRUE(mac);
  EXPECT_EQ(*mac, (Mac{{0x52, 0x54, 0x00, 0x12, 0xab, 0xcd}}));
  EXPECT_EQ(mac->to_string(), "52:54:00:12:ab:cd");
  for (const char* text :
       {"", "52:54:00:12:34", "52:54:00:12:34:5", "52-54-00-12-34-51", "52:54:00:12:34:5g",
        "52:54:00:12:34:51:", "+2:54:00:12:34:51", "-2:54:00:12:34:51", "52540012345100000"}) {
    EXPECT_FALSE(Mac::parse(text)) << text;
  }
}

TEST(Mac, OfAnInterfaceIsUnicast) {
  EXPECT_TRUE((Mac{{2, 0, 0, 0, 0, 1}}).is_unicast());
  EXPECT_FALSE(Mac{}.is_unicast());
  EXPECT_FALSE((Mac{{1, 0, 0x5e, 0, 0, 1}}).is_unicast());
  EXPECT_TRUE((Mac{{1, 0, 0x5e, 0, 0, 1}}).is_multicast());
}

TEST(Name, HasOneRule) {
  for (const std::string& name :
       {std::string("a"), std::string("VM-01.b_c"), std::string("..."), std::string(64, 'x')}) {
    EXPECT_TRUE(is_name(name)) << name;
  }
  for (const std::string& text :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"), std::string("a b"),
        std::string("\xc3\xa4"), std::string("a\0b", 3), std::string(65, 'x')}) {
    EXPECT_FALSE(is_name(text)) << text;
  }
}

TEST(Profile, EsxiNeedsAVersionForNativeEndpoints) {
  for (const HardwareVersion version : kHardwareVersions) {
    EXPECT_TRUE(offers_natives(version, Profile::kOpen));
    EXPECT_EQ(offers_natives(version, Profile::kEsxi), version == HardwareVersion::k18) << number_of(version);
  }
}

TEST(LinkName, IsReadAndWritten) {
  for (const char* text : {"tap:pvroce0", "xdp:veth7", "stream:/run/hub.sock", "stream:/a:b"}) {
    const auto link = parse_link_name(text);
    ASSERT_TRUE(link) << text;
    EXPECT_EQ(link->to_string(), text);
  }
  EXPECT_EQ(*parse_link_name("tap:a-b_c.1"), (LinkName{LinkKind::kTap, "a-b_c.1"}));
  EXPECT_TRUE(parse_link_name("xdp:" + std::string(15, 'x')));
  EXPECT_TRUE(parse_link_name("stream:/" + std::string(106, 'x')));
}

TEST(LinkName, SaysWhatIsWrong) {
  const auto mistake = [](const std::string& text) {
    const auto link = parse_link_name(text);
    return link ? "" : link.error().message;
  };
  const std::string kinds = "is not a RoCE link: write tap:DEVICE, xdp:DEVICE or stream:PATH";
  for (const char* text : {"", "tap", "pvroce0", "veth:eth0", ":eth0", "TAP:eth0", " tap:eth0"}) {
    EXPECT_EQ(mistake(text), kinds) << text;
  }
  for (const std::string& text :
       {std::string("tap:"), std::string("tap:."), std::string("xdp:a/b"), std::string("tap:a b"),
        std::string("tap:a\0b", 7), "tap:" + std::string(16, 'x')}) {
    EXPECT_EQ(
        mistake(text),
        "names no network device: give 1 to 15 letters, digits, '.', '_' and '-' after " + text.substr(0, 4))
        << text;
  }
  for (const std::string& text : {std::string("stream:"), std::string("stream:hub.sock"),
                                  std::string("stream:/a\0b", 11), "stream:/" + std::string(107, 'x')}) {
    EXPECT_EQ(mistake(text), "names no socket: give an absolute path of at most 107 bytes after stream:")
        << text;
  }
}

TEST(Words, GoBothWays) {
  EXPECT_EQ(to_text(RoceVersion::kV1), "v1");
  EXPECT_EQ(from_text<RoceVersion>("v2"), RoceVersion::kV2);
  EXPECT_EQ(from_text<RoceVersion>("2"), std::nullopt);
  EXPECT_EQ(to_text(Profile::kEsxi), "esxi");
  EXPECT_EQ(from_text<Profile>("open"), Profile::kOpen);
  EXPECT_EQ(texts_of<Profile>()[0], "open");
  EXPECT_EQ(to_text(DoorbellMode::kMapped), "mapped");
  EXPECT_EQ(from_text<DoorbellMode>("trapped"), DoorbellMode::kTrapped);
  EXPECT_EQ(from_text<DoorbellMode>(""), std::nullopt);
}

TEST(HardwareVersion, DecidesWhatAVmsAdapterIs) {
  for (std::int64_t vm = 0; vm < 30; ++vm) {
    const auto adapter = adapter_of(vm);
    EXPECT_EQ(adapter.has_value(), vm >= 13 && vm != 16 && vm <= 21) << vm;
    if (adapter) {
      EXPECT_EQ(number_of(*adapter), vm == 15 ? 14 : std::min<std::int64_t>(vm, 18)) << vm;
    }
  }
  EXPECT_FALSE(adapter_of(-14));
  EXPECT_FALSE(adapter_of(4294967310));
}

TEST(HardwareVersion, IsListedInMessagesAsRanges) {
  EXPECT_EQ(hardware_versions_with_adapter(), "13 to 15, 17 to 21");
}

TEST(HardwareVersion, DecidesTheRoceVersions) {
  for (const HardwareVersion version : kHardwareVersions) {
    const bool oldest = version == HardwareVersion::k13;
    EXPECT_TRUE(offers_roce(version, RoceVersion::kV1));
    EXPECT_EQ(offers_roce(version, RoceVersion::kV2), !oldest);
    EXPECT_EQ(default_roce(version), oldest ? RoceVersion::kV1 : RoceVersion::kV2);
    EXPECT_EQ(offers_srq(version), !oldest);
  }
}

}  // namespace
}  // namespace pvrdma
