#include "pvrdmactl/table.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "base/check.h"

namespace pvrdma::ctl {

void Table::add(std::vector<std::string> cells) {
  PVRDMA_CHECK(cells.size() == columns_.size(), "a row has one cell for each column");
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  return layout_ == Layout::kColumns ? in_columns() : in_blocks();
}

std::string Table::in_blocks() const {
  std::string text;
  for (const auto& row : rows_) {
    Properties block = layout_ == Layout::kTitledBlocks ? Properties(row.front()) : Properties();
    for (std::size_t i = 0; i < row.size(); ++i) block.add(columns_[i].title, row[i]);
    text += (text.empty() ? "" : "\n") + block.text();
  }
  return text;
}

std::string Table::in_columns() const {
  std::vector<std::string> titles;
  std::vector<std::string> dashes;
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = columns_[i].title.size();
    for (const auto& row : rows_) width = std::max(width, row[i].size());
    titles.push_back(columns_[i].title);
    dashes.emplace_back(width, '-');
    widths.push_back(width);
  }
  std::string text = line(titles, widths) + line(dashes, widths);
  for (const auto& row : rows_) text += line(row, widths);
  return text;
}

std::string Table::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i != 0) text += "  ";
    text += columns_[i].align == Align::kLeft ? fmt::format("{:<{}}", cells[i], widths[i])
                                              : fmt::format("{:>{}}", cells[i], widths[i]);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

void Properties::add(const std::string& name, const std::string& value) {
  text_ += value.empty() ? fmt::format("   {}:\n", name) : fmt::format("   {}: {}\n", name, value);
}

}  // namespace pvrdma::ctl
