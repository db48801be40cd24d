// Table: rows of named fields, and their text in the layouts of esxcli. Thread: a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pvrdma::ctl {

enum class Align : std::uint8_t {
  kLeft,
  kRight,  // numbers, and words that stand for them
};

enum class Layout : std::uint8_t {
  kColumns,       // aligned columns under a two-line header
  kBlocks,        // a block of lines "Field: value" for each row
  kTitledBlocks,  // the same, each below its first cell
  kObject,        // one row, as a block: the answer is an object and not a list
};

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns, Layout layout = Layout::kColumns)
      : columns_(std::move(columns)), layout_(layout) {}

  // One cell for each column.
  void add(std::vector<std::string> cells);

  // With kColumns: header, dashes, rows. Columns are separated by two spaces, and lines do not end with
  // spaces.
  std::string text() const;

  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }
  bool is_object() const { return layout_ == Layout::kObject; }

 private:
  std::string in_columns() const;
  std::string in_blocks() const;
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  Layout layout_;
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
