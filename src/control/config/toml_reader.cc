#include "control/config/toml_reader.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <optional>
#include <string>
#include <system_error>
#include <toml++/toml.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace pvrdma::control {
namespace {

std::string place(const std::string& path, const toml::source_region& source) {
  return fmt::format("{}:{}", path, source.begin.line);
}

std::string_view kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::none:
      return "nothing";
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a floating-point number";
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::date:
      return "a date";
    case toml::node_type::time:
      return "a time";
    case toml::node_type::date_time:
      return "a date and time";
  }
  return "nothing";
}

std::optional<std::vector<std::string>> texts_of(const toml::array& list) {
  std::vector<std::string> texts;
  for (const toml::node& entry : list) {
    const auto* text = entry.as_string();
    if (text == nullptr) return std::nullopt;
    texts.push_back(text->get());
  }
  return texts;
}

SettingValue value_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* list = node.as_array()) {
    if (auto texts = texts_of(*list)) return *std::move(texts);
  }
  return OtherValue{kind_of(node)};
}

Section section_of(const std::string& path, std::string title, const toml::table& table) {
  Section section{std::move(title), place(path, table.source()), {}};
  for (const auto& [key, node] : table) {
    std::string name(key.str());
    section.settings.push_back(Setting{name, value_of(node), place(path, key.source()), name});
  }
  return section;
}

Result<void> read_adapters(const std::string& path, const toml::key& key, const toml::node& node,
                           Document& document) {
  const toml::array* list = node.as_array();
  if (list == nullptr) {
    return fail(fmt::format("{}: adapter is {}: write [[adapter]], once for each adapter",
                            place(path, key.source()), kind_of(node)));
  }
  for (const toml::node& entry : *list) {
    const toml::table* table = entry.as_table();
    if (table == nullptr) {
      return fail(fmt::format("{}: adapter has {} in it: write [[adapter]], once for each adapter",
                              place(path, entry.source()), kind_of(entry)));
    }
    document.adapters.push_back(section_of(path, "[[adapter]]", *table));
  }
  return {};
}

// Where the table of that name goes; null: there is no such table.
std::optional<Section>* table_named(Document& document, std::string_view name) {
  if (name == "host") return &document.host;
  if (name == "store") return &document.store;
  if (name == "tcp") return &document.tcp;
  if (name == "api") return &document.api;
  return nullptr;
}

Result<Section> read_table(const std::string& path, const toml::key& key, const toml::node& node) {
  if (const toml::table* table = node.as_table()) {
    return section_of(path, fmt::format("[{}]", key.str()), *table);
  }
  return fail(fmt::format("{}: {} is {}: write [{}]", place(path, key.source()), key.str(), kind_of(node),
                          key.str()));
}

Result<Document> to_document(const std::string& path, const toml::table& root) {
  Document document;
  document.daemon = Section{"[daemon]", path, {}};
  for (const auto& [key, node] : root) {
    if (key.str() == "adapter") {
      if (auto read = read_adapters(path, key, node, document); !read)
        return Failure(std::move(read).error());
      continue;
    }
    std::optional<Section>* wanted = table_named(document, key.str());
    if (wanted == nullptr && key.str() != "daemon") {
      return fail(
          fmt::format("{}: unknown key {} at the top of the file: allowed are [daemon], [host], [store], "
                      "[tcp], [api] and "
                      "[[adapter]]",
                      place(path, key.source()), key.str()));
    }
    auto section = read_table(path, key, node);
    if (!section) return Failure(std::move(section).error());
    if (wanted != nullptr) {
      *wanted = *std::move(section);
    } else {
      document.daemon = *std::move(section);
    }
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
    return fail(fmt::format("{}: this is no TOML: {}", place(path, error.source()), error.description()));
  }
}

}  // namespace pvrdma::control
