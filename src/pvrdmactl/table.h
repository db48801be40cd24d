// Table: aligned columns under a two-line header, in the layout of esxcli. Thread: a value.
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

  // Header, dashes, rows. Columns are separated by two spaces, and lines do not end with spaces.
  std::string text() const;

 private:
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Pairs of name and value, one a line: "   Name: value", as esxcli prints an object's properties. The
// object's name, if it has one, is the heading.
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
