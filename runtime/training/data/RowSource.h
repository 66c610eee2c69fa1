//===- RowSource.h - Rows that an estimator is fitted to --------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_TRAINING_DATA_ROWSOURCE_H
#define MIXLE_RUNTIME_TRAINING_DATA_ROWSOURCE_H

#include "mixle/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mixle::runtime {

/// All rows of a job, by their global index. Safe to read from several threads.
class RowSource {
public:
  virtual ~RowSource() = default;
  virtual int64_t rows() const = 0;
  virtual int64_t columns() const = 0;
  /// Copies rows `first` to first + count, which exist: count * columns() doubles.
  virtual void read(int64_t first, int64_t count, double *out) const = 0;
  /// For messages: a path, say.
  virtual const std::string &name() const = 0;
};

/// Rows in memory, row-major.
std::shared_ptr<const RowSource> rowsInMemory(int64_t rows, int64_t columns,
                                              std::vector<double> values,
                                              std::string name = "data");

/// Opens a .npy file ([rows, columns] or [rows]; read from its mapping, so that it
/// may be larger than memory) or a .csv file (read at once). Errors: what Npy.h and
/// Table.h say; a file without rows; another number of columns than `columns`; a
/// number that is NaN or infinite, with row and column from 0. Reads `chunkRows` rows
/// at a time.
Expected<std::shared_ptr<const RowSource>>
openRows(const std::string &path, int64_t columns, int64_t chunkRows);

/// Reads one weight per row from a .npy file of [rows] or [rows, 1]. Errors: another
/// number of weights than `rows`; one that is negative, NaN or infinite; none that is
/// positive.
Expected<std::vector<double>> readRowWeights(const std::string &path,
                                             int64_t rows);

/// The conditions of readRowWeights on weights in memory.
Status checkRowWeights(const std::vector<double> &weights, int64_t rows,
                       const std::string &what);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_TRAINING_DATA_ROWSOURCE_H
