#include "schema/object.h"

#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schema/rules.h"
#include "vocabulary/roce_version.h"

namespace pvrdma::schema {

struct Port {
  std::string name;
  std::uint16_t vlan = 0;
};
template <>
inline constexpr auto kObject<Port> = record("Port",
                                             field("name", &Port::name, kName).required(R"("port-1")"),
                                             field("vlan", &Port::vlan, NumberRule{1, 4094}));

struct Bridge {
  Mac mac{{2, 0, 0, 0, 0, 1}};
  std::optional<RoceVersion> roce;
  std::vector<Port> ports;
  std::map<std::string, bool> flags;
};
template <>
inline constexpr auto kObject<Bridge> = record("Bridge", field("mac", &Bridge::mac),
                                               field("roce", &Bridge::roce), field("ports", &Bridge::ports),
                                               field("flags", &Bridge::flags, MapRule<FlagRule>{{}, kName}));

// The same object with one more member in front, described as a request.
struct NamedBridge : Bridge {
  std::string name;
};
template <>
inline constexpr auto kObject<NamedBridge> = request("NamedBridge", field("name", &NamedBridge::name),
                                                     kObject<Bridge>);

namespace {

template <Described T>
std::optional<Mistake> read_into(T& object, std::string_view text) {
  Reader reader;
  read(reader, parse_object(text, 8).value(), object);
  return reader.mistake();
}

template <Described T = Bridge>
std::string mistake(std::string_view text) {
  T object;
  const auto found = read_into(object, text);
  return found ? sentence(*found, "it") : "";
}

constexpr const char* kFull =
    R"({"mac":"02:00:00:00:00:09","roce":"v1","ports":[{"name":"a","vlan":7},{"name":"b","vlan":1}],)"
    R"("flags":{"x":true,"y":false}})";

TEST(Object, IsReadAndWrittenByOneDescription) {
  Bridge bridge;
  EXPECT_FALSE(read_into(bridge, kFull));
  EXPECT_EQ(bridge.roce, RoceVersion::kV1);
  EXPECT_EQ(bridge.ports.at(1).name, "b");
  EXPECT_TRUE(bridge.flags.at("x"));
  EXPECT_EQ(text_of(bridge), kFull);
  EXPECT_EQ(text_of(NamedBridge{{}, "n"}),
            R"({"name":"n","mac":"02:00:00:00:00:01","roce":null,"ports":[],"flags":{}})");
}

TEST(Object, ARecordMayHaveMoreOrLess) {
  Bridge bridge;
  bridge.flags["kept"] = true;
  EXPECT_FALSE(read_into(bridge, R"({"colour": [{"deep": null}], "mac": null, "ports": [{"name": "a"}]})"));
  EXPECT_EQ(bridge.mac.to_string(), "02:00:00:00:00:01");
  EXPECT_TRUE(bridge.flags.contains("kept"));
  EXPECT_EQ(bridge.ports.at(0).vlan, 0);
}

TEST(Object, ARequestTakesNothingElse) {
  EXPECT_EQ(mistake<NamedBridge>(R"({"colour": 1, "name": 5})"),
            "it has unknown members (colour): allowed are name, mac, roce, ports, flags");
  EXPECT_EQ(mistake<NamedBridge>(R"({"mac": null})"), "it's \"mac\" must be a string, not null");
}

TEST(Object, AMistakeNamesItsMember) {
  EXPECT_EQ(mistake(R"({"ports": [{"name": "a"}, {}]})"), "it lacks \"ports.1.name\"");
  EXPECT_EQ(mistake(R"({"ports": [{"name": "a", "vlan": 4095}]})"),
            "it's \"ports.0.vlan\" must be a whole number from 1 to 4094, not 4095");
  EXPECT_EQ(mistake(R"({"ports": {}})"), "it's \"ports\" must be a list, not {}");
  EXPECT_EQ(mistake(R"({"flags": {"a b": true}})"), "it's \"flags.a b\" must be a name, not \"a b\"");
  EXPECT_EQ(mistake(R"({"flags": {"x": 1}})"), "it's \"flags.x\" must be true or false, not 1");
  EXPECT_EQ(mistake(R"({"flags": []})"), "it's \"flags\" must be an object, not []");
  EXPECT_EQ(mistake(R"({"roce": "v3"})"), "it's \"roce\" must be one of \"v1\", \"v2\", not \"v3\"");
  EXPECT_EQ(mistake(R"({"mac": "01:00:5e:00:00:01"})"),
            "it's \"mac\" must be a MAC address of one interface, not \"01:00:5e:00:00:01\"");
  EXPECT_EQ(mistake(R"({"mac": ")" + std::string(100, 'x') + "\"}"),
            "it's \"mac\" must be a MAC address of one interface, not \"" + std::string(63, 'x') + "…");
}

TEST(Object, OnlyTheFirstMistakeCounts) {
  EXPECT_EQ(mistake(R"({"flags": 1, "mac": 1, "roce": 1})"), "it's \"mac\" must be a string, not 1")
      << "in the order of the description";
}

TEST(Object, DescribesItself) {
  Components components;
  EXPECT_EQ(schema_of<NamedBridge>(components).dump(), R"({"$ref":"#/components/schemas/NamedBridge"})");
  EXPECT_EQ(components.at("NamedBridge").dump(),
            R"({"type":"object","additionalProperties":false,"properties":{"name":{"type":"string"},)"
            R"("mac":{"$ref":"#/components/schemas/Mac"},"roce":{"type":"string","enum":["v1","v2"]},)"
            R"("ports":{"type":"array","items":{"$ref":"#/components/schemas/Port"}},)"
            R"("flags":{"type":"object","additionalProperties":{"type":"boolean"}}}})");
  EXPECT_EQ(
      components.at("Port").dump(),
      R"({"type":"object","required":["name"],"properties":{"name":{"$ref":"#/components/schemas/Name",)"
      R"("example":"port-1"},"vlan":{"type":"integer","format":"int64","minimum":1,"maximum":4094}}})");
  EXPECT_TRUE(components.contains("Mac"));
  EXPECT_TRUE(components.contains("Name"));
}

TEST(ParseObject, NamesAreFitForALog) {
  const std::string name = "a\\n" + std::string(100, 'b');
  const auto twice = parse_object("{\"" + name + "\": 1, \"" + name + "\": 2}", 8);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().message, "it has a?" + std::string(62, 'b') + "… twice");
}

}  // namespace
}  // namespace pvrdma::schema
