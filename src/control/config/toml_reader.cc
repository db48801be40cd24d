#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <string>
#include <system_error>
#include <toml++/toml.h>
#include <unistd.h>
#include <utility>

#include "base/fd.h"
#include "control/config/section.h"

namespace pvrdma::control {
namespace {

constexpr std::array<std::string_view, 7> kTables{"daemon", "budgets", "host", "store", "tcp", "hca", "api"};

std::string place(const std::string& path, const toml::source_region& source) {
  return fmt::format("{}:{}", path, source.begin.line);
}

// Dates and times become null.
schema::ParsedJson value_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* list = node.as_array()) {
    schema::ParsedJson values = schema::ParsedJson::array();
    for (const toml::node& entry : *list) values.push_back(value_of(entry));
    return values;
  }
  if (const auto* table = node.as_table()) {
    schema::ParsedJson values = schema::ParsedJson::object();
    for (const auto& [key, entry] : *table) values[std::string(key.str())] = value_of(entry);
    return values;
  }
  return nullptr;
}

Section section_of(const std::string& path, std::string title, const toml::table& table) {
  Section section{std::move(title), place(path, table.source())};
  for (const auto& [key, node] : table) {
    std::string name(key.str());
    section.set(name, value_of(node), {place(path, key.source()), name});
  }
  return section;
}

// A table that can occur several times, once for each `noun`.
Result<void> read_list(const std::string& path, const toml::key& key, const toml::node& node,
                       std::string_view noun, std::vector<Section>& sections) {
  const std::string title = fmt::format("[[{}]]", key.str());
  const toml::array* list = node.as_array();
  if (list == nullptr) {
    return fail(fmt::format("{}: {} is {}: write {}, once for each {}", place(path, key.source()), key.str(),
                            kind_of(value_of(node)), title, noun));
  }
  for (const toml::node& entry : *list) {
    const toml::table* table = entry.as_table();
    if (table == nullptr) {
      return fail(fmt::format("{}: {} has {} in it: write {}, once for each {}", place(path, entry.source()),
                              key.str(), kind_of(value_of(entry)), title, noun));
    }
    sections.push_back(section_of(path, title, *table));
  }
  return {};
}

Result<Section> read_table(const std::string& path, const toml::key& key, const toml::node& node) {
  if (const toml::table* table = node.as_table()) {
    return section_of(path, fmt::format("[{}]", key.str()), *table);
  }
  return fail(fmt::format("{}: {} is {}: write [{}]", place(path, key.source()), key.str(),
                          kind_of(value_of(node)), key.str()));
}

Result<Document> to_document(const std::string& path, const toml::table& root) {
  Document document;
  for (const auto& [key, node] : root) {
    if (key.str() == "adapter" || key.str() == "roce") {
      const bool adapter = key.str() == "adapter";
      auto read = read_list(path, key, node, adapter ? "adapter" : "segment",
                            adapter ? document.adapters : document.roce);
      if (!read) return Failure(std::move(read).error());
      continue;
    }
    if (std::find(kTables.begin(), kTables.end(), key.str()) == kTables.end()) {
      return fail(
          fmt::format("{}: unknown key {} at the top of the file: allowed are [{}], [[adapter]] and "
                      "[[roce]]",
                      place(path, key.source()), key.str(), fmt::join(kTables, "], [")));
    }
    auto section = read_table(path, key, node);
    if (!section) return Failure(std::move(section).error());
    document.tables.emplace(key.str(), *std::move(section));
  }
  return document;
}

tl::expected<std::string, int> read_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return tl::unexpected(errno);
  std::string text;
  std::array<char, 4096> piece;
  while (true) {
    const auto count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0) return tl::unexpected(errno);
    if (count == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

Result<Document> read_toml(const std::string& path) {
  const auto text = read_file(path);
  if (!text) {
    const int code = text.error();
    return fail(code, fmt::format("cannot read the configuration {}: {}", path,
                                  std::generic_category().message(code)));
  }
  try {
    return to_document(path, toml::parse(*text, path));
  } catch (const toml::parse_error& error) {
    return fail(fmt::format("{}: this is not TOML: {}", place(path, error.source()), error.description()));
  }
}

}  // namespace pvrdma::control
