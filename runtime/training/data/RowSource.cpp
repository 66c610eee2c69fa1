//===- RowSource.cpp - Rows that an estimator is fitted to ----------------===//

#include "runtime/training/data/RowSource.h"
#include "runtime/base/KeyValues.h"
#include "runtime/base/Npy.h"
#include "runtime/base/Table.h"

#include <algorithm>
#include <cmath>

namespace mixle::runtime {

namespace {

class MemoryRows : public RowSource {
public:
  MemoryRows(int64_t rows, int64_t columns, std::vector<double> values,
             std::string name)
      : count(rows), width(columns), values(std::move(values)),
        text(std::move(name)) {}
  int64_t rows() const override { return count; }
  int64_t columns() const override { return width; }
  void read(int64_t first, int64_t n, double *out) const override {
    std::copy_n(values.begin() + first * width, n * width, out);
  }
  const std::string &name() const override { return text; }

private:
  int64_t count, width;
  std::vector<double> values;
  std::string text;
};

class NpyRows : public RowSource {
public:
  explicit NpyRows(NpyFile opened) : file(std::move(opened)) {
    const std::vector<int64_t> &shape = file.shape();
    width = shape.size() == 2 ? shape[1] : 1;
  }
  int64_t rows() const override { return file.shape()[0]; }
  int64_t columns() const override { return width; }
  void read(int64_t first, int64_t n, double *out) const override {
    file.toDouble(first * width, n * width, out);
  }
  const std::string &name() const override { return file.path(); }

private:
  NpyFile file;
  int64_t width;
};

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

bool isNpy(const std::string &path) {
  return path.size() >= 4 && path.compare(path.size() - 4, 4, ".npy") == 0;
}

Status checkFiniteRows(const RowSource &source, int64_t chunkRows) {
  const int64_t width = source.columns();
  std::vector<double> chunk(std::min(chunkRows, source.rows()) * width);
  for (int64_t first = 0; first < source.rows(); first += chunkRows) {
    int64_t n = std::min(chunkRows, source.rows() - first);
    source.read(first, n, chunk.data());
    if (auto cell = findNonFinite(chunk.data(), n, width))
      return Status::error(
          source.name() + ": row " + std::to_string(first + cell->row) +
          ", column " + std::to_string(cell->column) + " (from 0) is " +
          numberText(chunk[cell->row * width + cell->column]) +
          "; estimators take finite numbers only, so drop or fill such rows");
  }
  return Status::success();
}

} // namespace

std::shared_ptr<const RowSource> rowsInMemory(int64_t rows, int64_t columns,
                                              std::vector<double> values,
                                              std::string name) {
  return std::make_shared<MemoryRows>(rows, columns, std::move(values),
                                      std::move(name));
}

Expected<std::shared_ptr<const RowSource>>
openRows(const std::string &path, int64_t columns, int64_t chunkRows) {
  std::shared_ptr<const RowSource> source;
  if (isNpy(path)) {
    MIXLE_ASSIGN_OR_RETURN(NpyFile file, NpyFile::open(path));
    if (file.shape().size() > 2)
      return Status::error(path + ": its shape is " + shapeText(file.shape()) +
                           "; expected [rows, columns]");
    source = std::make_shared<NpyRows>(std::move(file));
  } else {
    MIXLE_ASSIGN_OR_RETURN(Table table, readCsv(path));
    source = rowsInMemory(table.rows, table.columns, std::move(table.values),
                          path);
  }
  if (source->rows() == 0)
    return Status::error(path + ": it has no rows");
  if (source->columns() != columns)
    return Status::error(path + ": its rows have " +
                         std::to_string(source->columns()) +
                         " column(s); the estimator's dim is " +
                         std::to_string(columns));
  MIXLE_RETURN_IF_ERROR(checkFiniteRows(*source, std::max<int64_t>(1, chunkRows)));
  return source;
}

Status checkRowWeights(const std::vector<double> &weights, int64_t rows,
                       const std::string &what) {
  if (static_cast<int64_t>(weights.size()) != rows)
    return Status::error(what + ": it has " + std::to_string(weights.size()) +
                         " weights for " + std::to_string(rows) + " rows");
  bool positive = false;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0)
      return Status::error(what + ": the weight of row " + std::to_string(i) +
                           " (from 0) is " + numberText(weights[i]) +
                           "; expected a finite number >= 0");
    positive |= weights[i] > 0;
  }
  if (!positive)
    return Status::error(what + ": no row has a positive weight, so there is "
                                "nothing to fit");
  return Status::success();
}

Expected<std::vector<double>> readRowWeights(const std::string &path,
                                             int64_t rows) {
  MIXLE_ASSIGN_OR_RETURN(NpyFile file, NpyFile::open(path));
  const std::vector<int64_t> &shape = file.shape();
  if (shape.size() > 2 || (shape.size() == 2 && shape[1] != 1))
    return Status::error(path + ": its shape is " + shapeText(shape) +
                         "; expected [" + std::to_string(rows) + "]");
  std::vector<double> weights(file.elements());
  file.toDouble(0, file.elements(), weights.data());
  MIXLE_RETURN_IF_ERROR(checkRowWeights(weights, rows, path));
  return weights;
}

} // namespace mixle::runtime
