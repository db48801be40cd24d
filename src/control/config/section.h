// Section and Document: a configuration as it was written, without its meaning. The TOML and flag readers
// make them, and read_section() reads them by a table's description (tables.h).
//
// Each mistake is one sentence: "FILE:12: [[adapter]] hw = 12 is no ...: allowed are ...". Thread: values.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schema/object.h"

namespace pvrdma::control {

struct Section {
  struct Origin {
    std::string where;  // "pvrdmad.toml:12", or the flag
    std::string shown;  // the key's name there, for example "hw"
  };

  std::string title;  // "[daemon]", "[[adapter]]"; empty for a flag
  std::string where;
  schema::ParsedJson values =
      schema::ParsedJson::object();            // by key; null: a date or time, which JSON does not have
  std::map<std::string, Origin> origins = {};  // of all keys

  bool has(const std::string& key) const { return origins.contains(key); }
  // The last value counts: flags come after the file.
  void set(const std::string& key, schema::ParsedJson value, Origin origin);
};

struct Document {
  std::map<std::string, Section, std::less<>> tables;  // by name: "daemon", "host" ...
  std::vector<Section> adapters;
  std::vector<Section> roce;

  // Null if the table is not there.
  const Section* table(std::string_view name) const {
    const auto it = tables.find(name);
    return it == tables.end() ? nullptr : &it->second;
  }
};

// Reads a TOML file. Knows the file's tables, but not the meaning of their keys. Blocks. Errors: the file
// cannot be read; it is not TOML (with the line); it has an unknown table.
Result<Document> read_toml(const std::string& path);

// Reads the text of an --adapter flag, "KEY=VALUE,KEY=VALUE". A value contains no comma. "hw" stands for
// hardware_version. Errors: a part that is not KEY=VALUE; a key that occurs twice.
Result<Section> read_adapter_flag(const std::string& text);

// A value's kind in words: "a boolean".
std::string_view kind_of(const schema::ParsedJson& value);

// "FILE:12: [[adapter]] WHY", about the section as a whole.
Failure wrong(const Section& section, std::string_view why);
// "FILE:12: [[adapter]] mac = "..." WHY". The section has the key.
Failure wrong(const Section& section, const std::string& key, std::string_view why);
Failure wrong(const Section& section, const schema::Mistake& mistake);

// Reads a `T` from the section. Keys that are missing keep their value in `table`.
template <schema::Described T>
Result<T> read_section(const Section& section, T table = {}) {
  schema::Reader reader;
  read(reader, section.values, table);
  if (reader.failed()) return wrong(section, *reader.mistake());
  return table;
}

}  // namespace pvrdma::control
