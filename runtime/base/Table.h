//===- Table.h - Rows of numbers --------------------------------*- C++ -*-===//
//
// What estimators read: rows of numbers from a .csv or .npy file, and
// the search for numbers that are none.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_BASE_TABLE_H
#define MIXLE_RUNTIME_BASE_TABLE_H

#include "mixle/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mixle::runtime {

/// A dense matrix of rows, row-major.
struct Table {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values;
  /// The names in a CSV file's first line, or empty.
  std::vector<std::string> header;
};

/// Reads numbers separated by commas, one row a line. The first line is a
/// header when none of its fields is a number. Blank lines are skipped, spaces
/// around fields too; "nan" and "inf" are read (see findNonFinite). Errors
/// name the file and, where there is one, line and column from 1 and the text:
/// an empty file or one without rows, a field that is no number, a row of
/// another width than the first.
Expected<Table> readCsv(const std::string &path);

/// Reads a .npy array of any type that Npy.h reads: [rows, columns], or [rows]
/// for one column. Errors: other shapes, no rows or columns.
Expected<Table> readNpyTable(const std::string &path);

/// Reads a .npy file when the path ends so, else a CSV file.
Expected<Table> readTable(const std::string &path);

/// A place in a table, both from 0.
struct Cell {
  int64_t row = 0;
  int64_t column = 0;
};

/// The first NaN or infinity of a row-major matrix, in row order.
std::optional<Cell> findNonFinite(const double *values, int64_t rows,
                                  int64_t columns);
std::optional<Cell> findNonFinite(const float *values, int64_t rows,
                                  int64_t columns);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_BASE_TABLE_H
