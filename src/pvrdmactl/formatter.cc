#include "pvrdmactl/formatter.h"

#include <algorithm>
#include <cctype>
#include <fmt/core.h>
#include <map>
#include <vector>

namespace pvrdma::ctl {
namespace {

struct Field {
  std::string name;
  std::string_view type;  // as key_values_of() and xml_of() write it
  std::string value;
};
using Fields = std::vector<Field>;  // in the order of their names

std::string_view type_of(const Column& column, const std::string& cell) {
  if (column.align == Align::kLeft) return "string";
  if (cell == "true" || cell == "false") return "boolean";
  const bool is_number =
      !cell.empty() && std::ranges::all_of(cell, [](unsigned char c) { return std::isdigit(c); });
  return is_number ? "integer" : "string";
}

std::string name_of(std::string title) {
  std::erase(title, ' ');
  return title;
}

Fields fields_of(const Table& table, const std::vector<std::string>& row) {
  Fields fields;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Column& column = table.columns()[i];
    fields.push_back({name_of(column.title), type_of(column, row[i]), row[i]});
  }
  std::ranges::sort(fields, {}, &Field::name);
  return fields;
}

// Quoted if the value would be more than one cell, as in RFC 4180.
std::string in_csv(const std::string& value) {
  if (value.find_first_of(",\"\n") == std::string::npos) return value + ",";
  std::string quoted;
  for (const char c : value) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return fmt::format("\"{}\",", quoted);
}

std::string in_xml(const std::string& value) {
  static const std::map<char, std::string_view> kEscapes{
      {'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}};
  std::string text;
  for (const char c : value) {
    const auto escape = kEscapes.find(c);
    text += escape == kEscapes.end() ? std::string(1, c) : std::string(escape->second);
  }
  return text;
}

Json typed(const Field& field) {
  return field.type == "string" ? Json(field.value) : Json::parse(field.value);
}

std::string capitalised(std::string_view word) {
  std::string text(word);
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace

std::string structure_name(std::string_view words) {
  const auto last = words.rfind(' ');
  if (last == std::string_view::npos) return capitalised(words);
  const std::string_view before = words.substr(0, last);
  const auto start = before.rfind(' ');
  const std::string object = capitalised(before.substr(start == std::string_view::npos ? 0 : start + 1));
  const std::string_view verb = words.substr(last + 1);
  return verb == "list" ? object : object + capitalised(verb);
}

std::string csv_of(const Table& table) {
  std::vector<std::string> names;
  for (const Column& column : table.columns()) names.push_back(name_of(column.title));
  std::ranges::sort(names);
  std::string text;
  for (const std::string& name : names) text += in_csv(name);
  text += "\n";
  for (const auto& row : table.rows()) {
    for (const Field& field : fields_of(table, row)) text += in_csv(field.value);
    text += "\n";
  }
  return text;
}

Json json_of(const Table& table) {
  Json list = Json::array();
  for (const auto& row : table.rows()) {
    Json object = Json::object();
    for (const Field& field : fields_of(table, row)) object[field.name] = typed(field);
    list.push_back(std::move(object));
  }
  return table.is_object() ? list.at(0) : list;
}

std::string key_values_of(const Table& table, std::string_view structure) {
  std::string text;
  for (const auto& row : table.rows()) {
    for (const Field& field : fields_of(table, row))
      text += fmt::format("{}.{}.{}={}\n", structure, field.name, field.type, field.value);
  }
  return text;
}

std::string xml_of(const Table& table, std::string_view structure) {
  std::string rows;
  for (const auto& row : table.rows()) {
    rows += fmt::format("<structure typeName=\"{}\">\n", structure);
    for (const Field& field : fields_of(table, row)) {
      rows += fmt::format("<field name=\"{}\"><{}>{}</{}></field>\n", in_xml(field.name), field.type,
                          in_xml(field.value), field.type);
    }
    rows += "</structure>\n";
  }
  if (!table.is_object()) rows = fmt::format("<list type=\"structure\">\n{}</list>\n", rows);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
      "<output xmlns=\"http://www.vmware.com/Products/ESX/5.0/esxcli\">\n<root>\n{}</root>\n</output>\n",
      rows);
}

}  // namespace pvrdma::ctl
