//===- EstimationStart.cpp - What a fit starts from -----------------------===//

#include "runtime/kernels/ExactSum.h"
#include "runtime/kernels/Random.h"
#include "runtime/training/Estimation.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace mixle::runtime {

/// A number below `bound` from two words, all but equally likely.
static int64_t indexBelow(const std::array<uint32_t, 4> &words, int64_t bound) {
  const uint64_t random = words[0] | (uint64_t(words[1]) << 32);
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<int64_t>((Wide(random) * Wide(bound)) >> 64);
}

/// Distinct rows of positive weight; rows that repeat the values of another one are
/// taken only when draws that avoid them have failed for long.
Expected<std::vector<int64_t>> EstimationSession::drawRows() const {
  const int64_t k = specification.components;
  if (positiveRows < k)
    return Status::error(
        std::to_string(k) + " components need at least as many rows of positive "
                            "weight to start from; there are " +
        std::to_string(positiveRows) + " (give a start with --weights)");
  const uint64_t id = logicalIdHash("means");
  const int64_t patience = 64 * k + 1024;
  std::set<int64_t> taken;
  std::set<std::vector<double>> values;
  std::vector<int64_t> rows;
  std::vector<double> row(specification.shape.dim);
  auto take = [&](int64_t index, bool newValuesOnly) {
    if (!(weightOf(index) > 0) || taken.count(index))
      return;
    source->read(index, 1, row.data());
    if (!values.insert(row).second && newValuesOnly)
      return;
    taken.insert(index);
    rows.push_back(index);
  };
  for (int64_t draw = 0; draw < patience; ++draw) {
    if (static_cast<int64_t>(rows.size()) == k)
      return rows;
    take(indexBelow(philoxElement(options.seed, id, draw), source->rows()),
         draw < patience / 2);
  }
  for (int64_t index = 0; static_cast<int64_t>(rows.size()) < k; ++index)
    take(index, false);
  return rows;
}

/// Per column, in the data's units, from exact sums over all ranks.
Expected<std::vector<double>> EstimationSession::variances() {
  const int64_t dim = specification.shape.dim;
  const int64_t limbs = ExactSum::limbCount;
  std::vector<int64_t> sums(2 * dim * limbs, 0);
  if (speaksForRows())
    forEachChunk([&](int64_t first, int64_t count, const double *values) {
      for (int64_t r = 0; r < count; ++r) {
        const double weight = weightOf(first + r);
        if (!(weight > 0))
          continue;
        for (int64_t j = 0; j < dim; ++j) {
          const double z =
              (values[r * dim + j] - frameAnchor[j]) / frameScale[j];
          ExactSum(&sums[j * limbs]).addDouble(weight * z);
          ExactSum(&sums[(dim + j) * limbs]).addDouble(weight * z * z);
        }
      }
    });
  for (int64_t i = 0; i < 2 * dim; ++i)
    ExactSum(&sums[i * limbs]).normalize();
  CommandContext context;
  context.entry = "start";
  MIXLE_RETURN_IF_ERROR(communicator().allReduce(
      *everyone, context, sums.data(), static_cast<int64_t>(sums.size()),
      DataType::i64, ReduceOp::sum));
  std::vector<double> result(dim);
  for (int64_t j = 0; j < dim; ++j) {
    const double mean = ExactSum(&sums[j * limbs]).round() / weightSum;
    const double square = ExactSum(&sums[(dim + j) * limbs]).round() / weightSum;
    double variance = std::fma(-mean, mean, square) * frameScale[j] *
                      frameScale[j];
    if (!(variance > 0))
      variance = 0;
    if (specification.rules.kind == MixtureRules::Kind::absolute)
      variance += specification.rules.regularization.value_or(0.0);
    // Any start will do for a column that never varies.
    result[j] = variance > 0 ? variance : frameScale[j] * frameScale[j];
  }
  return result;
}

Status EstimationSession::initialize() {
  sharedError = false;
  if (!hasData)
    return shared(Status::error("there is no data; call setData first"));
  // Depends on what all ranks know, so all of them fail or none.
  Expected<std::vector<int64_t>> rows = drawRows();
  if (!rows.ok())
    return shared(rows.status());
  MIXLE_ASSIGN_OR_RETURN(std::vector<double> spread, variances());
  const MixtureShape &shape = specification.shape;
  const int64_t k = specification.components, d = shape.dim;
  MixtureValues start;
  start.weights = specification.rules.fixedWeights;
  if (start.weights.empty())
    start.weights.assign(k, 1.0 / static_cast<double>(k));
  start.means.resize(k * d);
  start.covariances.assign(k * shape.covarianceSize(), 0.0);
  for (int64_t c = 0; c < k; ++c) {
    source->read((*rows)[c], 1, &start.means[c * d]);
    double *covariance = &start.covariances[c * shape.covarianceSize()];
    for (int64_t j = 0; j < d; ++j)
      covariance[shape.full ? j * d + j : j] = spread[j];
  }
  return setParameters(start);
}

} // namespace mixle::runtime
