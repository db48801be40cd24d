// Setting and Section: a configuration as it was written, before it means anything. What the TOML and the
// flag reader produce and the rules consume. Thread: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pvrdma::control {

// Neither text, nor a list of texts, nor a whole number; no key takes one.
struct OtherValue {
  std::string_view kind;  // "an array"; static storage
};

using SettingValue = std::variant<std::string, std::int64_t, std::vector<std::string>, OtherValue>;

struct Setting {
  std::string key;  // as in the file, for example "hardware_version"
  SettingValue value;
  std::string where;  // "pvrdmad.toml:12", or the flag
  std::string shown;  // the key as this place calls it, for example "hw"
};

struct Section {
  std::string title;  // "[daemon]", "[[adapter]]"; empty for a flag
  std::string where;
  std::vector<Setting> settings;

  // Null when the key is absent. The last one counts: flags come after the file.
  const Setting* find(std::string_view key) const {
    for (auto it = settings.rbegin(); it != settings.rend(); ++it) {
      if (it->key == key) return &*it;
    }
    return nullptr;
  }
};

struct Document {
  Section daemon;
  std::vector<Section> adapters;
  std::optional<Section> host;
  std::optional<Section> store;
  std::optional<Section> tcp;
  std::optional<Section> api;
};

}  // namespace pvrdma::control
