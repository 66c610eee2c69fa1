//===- Table.cpp - Rows of numbers
//------------------------------------------===//

#include "runtime/base/Table.h"

#include "runtime/base/Files.h"
#include "runtime/base/KeyValues.h"
#include "runtime/base/Npy.h"
#include "runtime/base/Safetensors.h" // shapeText

#include <cmath>

namespace mixle::runtime {

/// A field as a message shows it: whole when short.
static std::string shown(std::string_view field) {
  constexpr size_t longest = 40;
  if (field.size() <= longest)
    return "'" + std::string(field) + "'";
  return "'" + std::string(field.substr(0, longest)) + "...'";
}

static std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  size_t position = 0;
  while (true) {
    size_t comma = line.find(',', position);
    fields.push_back(trimmed(line.substr(position, comma - position)));
    if (comma == std::string_view::npos)
      return fields;
    position = comma + 1;
  }
}

Expected<Table> readCsv(const std::string &path) {
  MIXLE_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  std::string_view text(reinterpret_cast<const char *>(file.data()),
                        file.size());
  if (text.substr(0, 3) == "\xef\xbb\xbf") // a byte order mark
    text.remove_prefix(3);
  Table table;
  int64_t lineNumber = 0;
  size_t width = 0;
  bool isFirst = true;
  for (size_t position = 0; position < text.size();) {
    size_t end = text.find('\n', position);
    if (end == std::string_view::npos)
      end = text.size();
    std::string_view line = text.substr(position, end - position);
    position = end + 1;
    ++lineNumber;
    if (!line.empty() && line.back() == '\r')
      line.remove_suffix(1);
    if (trimmed(line).empty())
      continue;
    std::vector<std::string_view> fields = split(line);
    auto here = [&] { return path + ": line " + std::to_string(lineNumber); };
    if (isFirst) {
      isFirst = false;
      width = fields.size();
      bool anyNumber = false;
      double ignored;
      for (std::string_view field : fields)
        anyNumber |= parseNumber(field, ignored);
      if (!anyNumber) {
        table.header.assign(fields.begin(), fields.end());
        continue;
      }
    }
    if (fields.size() != width)
      return Status::error(here() + " has " + std::to_string(fields.size()) +
                           " fields, expected " + std::to_string(width) +
                           " as in the first row");
    for (size_t i = 0; i < width; ++i) {
      double value = 0;
      if (!parseNumber(fields[i], value))
        return Status::error(here() + ", column " + std::to_string(i + 1) +
                             ": " + shown(fields[i]) + " is not a number");
      table.values.push_back(value);
    }
    ++table.rows;
  }
  if (table.rows == 0)
    return Status::error(path + ": the file " +
                         (isFirst ? "is empty" : "has a header but no rows") +
                         "; expected rows of numbers separated by commas");
  table.columns = static_cast<int64_t>(width);
  return table;
}

Expected<Table> readNpyTable(const std::string &path) {
  MIXLE_ASSIGN_OR_RETURN(NpyFile file, NpyFile::open(path));
  const std::vector<int64_t> &shape = file.shape();
  if (shape.size() > 2)
    return Status::error(path + ": the array has shape " + shapeText(shape) +
                         ", expected [rows, columns] or [rows]");
  Table table;
  table.rows = shape[0];
  table.columns = shape.size() == 2 ? shape[1] : 1;
  if (file.elements() == 0)
    return Status::error(path + ": the array is empty (shape " +
                         shapeText(shape) + "); expected at least one row");
  table.values.resize(file.elements());
  file.toDouble(0, file.elements(), table.values.data());
  return table;
}

Expected<Table> readTable(const std::string &path) {
  const std::string suffix = ".npy";
  bool isNpy =
      path.size() >= suffix.size() &&
      path.compare(path.size() - suffix.size(), suffix.size(), suffix) == 0;
  return isNpy ? readNpyTable(path) : readCsv(path);
}

template <typename T>
static std::optional<Cell> search(const T *values, int64_t rows,
                                  int64_t columns) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      if (!std::isfinite(values[row * columns + column]))
        return Cell{row, column};
  return std::nullopt;
}

std::optional<Cell> findNonFinite(const double *values, int64_t rows,
                                  int64_t columns) {
  return search(values, rows, columns);
}
std::optional<Cell> findNonFinite(const float *values, int64_t rows,
                                  int64_t columns) {
  return search(values, rows, columns);
}

} // namespace mixle::runtime
