// Table: aligned columns under a two-line header, as esxcli prints them. Thread: a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pvrdma::ctl {

enum class Align : std::uint8_t { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell for each column.
  void add(std::vector<std::string> cells);

  // Header, dashes, rows; two spaces between columns, none at a line's end.
  std::string text() const;

 private:
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Name and value pairs, one a line: "   Name: value", as esxcli prints one object's properties; under the
// object's name when there is one.
class Properties {
 public:
  Properties() = default;
  explicit Properties(std::string title) : text_(std::move(title) + "\n") {}
  void add(const std::string& name, const std::string& value);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace pvrdma::ctl
