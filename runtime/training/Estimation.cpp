//===- Estimation.cpp - Fitting an estimator, call by call ----------------===//

#include "runtime/training/Estimation.h"
#include "runtime/base/KeyValues.h"
#include "runtime/kernels/Accumulate.h"
#include "runtime/executor/ParameterLayout.h"
#include "runtime/kernels/ExactSum.h"
#include "runtime/program/Names.h"
#include "runtime/training/Agreement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace mixle::runtime {

static const char *const statisticsName = "_statistics";

/// Distances from the anchor must leave room for squares and their sums.
static constexpr int maxScaleExponent2 = 500;

Json EstimationReceipt::asJson() const {
  Json json = Json::object();
  json["iteration"] = iteration;
  json["rows"] = rows;
  json["log_likelihood"] = logLikelihood;
  json["state_digest"] = digest.hex();
  return json;
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

Expected<std::unique_ptr<EstimationSession>>
EstimationSession::create(std::shared_ptr<const LoadedProgram> program,
                          Communicator &communicator,
                          const EstimationSessionOptions &options) {
  std::unique_ptr<EstimationSession> session(new EstimationSession);
  MIXLE_RETURN_IF_ERROR(session->prepare(std::move(program), communicator, options));
  return session;
}

Status EstimationSession::prepare(std::shared_ptr<const LoadedProgram> program,
                                  Communicator &communicator,
                                  const EstimationSessionOptions &given) {
  options = given;
  if (program->program.kind != "estimation")
    return Status::error("program '" + program->path + "' is of kind '" +
                         program->program.kind +
                         "'; an estimator's session runs those of kind "
                         "'estimation'");
  MIXLE_ASSIGN_OR_RETURN(
      specification,
      MixtureSpec::parseText(program->config("estimator"),
                             "program '" + program->path + "'"));
  for (const auto &attribute : program->program.granules)
    if (attribute->key == "rows")
      block = std::max<int64_t>(1, std::atoll(attribute->value.c_str()));
  const int64_t most = program->rankClass().max_rows;
  if (most < block)
    return Status::error("program '" + program->path + "' takes " +
                         std::to_string(most) +
                         " rows at once, less than a block of " +
                         std::to_string(block) +
                         "; compile it with a larger --batch");
  tileRows = most / block * block;
  tile.resize(tileRows * specification.shape.dim);
  tileWeights.resize(tileRows);
  const MixtureShape &shape = specification.shape;
  const GivenInput rows = {"rows", fb::DataType::F64, shape.dim};
  MIXLE_RETURN_IF_ERROR(program->expectInputs(
      "accumulate", {rows, {"row_weights", fb::DataType::F64, 1}}));
  MIXLE_RETURN_IF_ERROR(program->expectInputs("log_density", {rows}));
  MIXLE_ASSIGN_OR_RETURN(everyone, makeWorldGroup(communicator));
  MIXLE_ASSIGN_OR_RETURN(executor,
                         RankExecutor::create(std::move(program), communicator));
  const int64_t k = specification.components;
  const std::pair<const char *, int64_t> parameters[] = {
      {"weights", k},
      {"means", k * shape.dim},
      {"covariances", k * shape.covarianceSize()},
      {"_anchor", shape.dim},
      {"_scale", shape.dim},
      {statisticsName, k * shape.features()}};
  for (auto [name, elements] : parameters) {
    MIXLE_ASSIGN_OR_RETURN(size_t index, parameterIndex(name));
    const fb::ParameterT &parameter = executor->parameter(index);
    if (logicalElements(parameter) != elements ||
        parameter.dtype != fb::DataType::F64)
      return Status::error("program '" + executor->program().path +
                           "': parameter '" + name +
                           "' has not the elements or type that the estimator's "
                           "specification gives it");
  }
  MIXLE_ASSIGN_OR_RETURN(EntryResult result, executor->run("initialize", {}));
  (void)result;
  return Status::success();
}

Expected<size_t>
EstimationSession::parameterIndex(const std::string &name) const {
  for (size_t i = 0; i < executor->numParameters(); ++i)
    if (executor->parameter(i).logical_id == name)
      return i;
  return Status::error("program '" + executor->program().path +
                       "' has no parameter '" + name +
                       "', which every mixture's has");
}

Status EstimationSession::agreed(const char *what, const Status &own) {
  CommandContext context;
  context.entry = what;
  sharedError = false;
  return agree(communicator(), *everyone, context, own, &sharedError);
}

Status EstimationSession::shared(Status error) {
  sharedError = true;
  return error;
}

/// Of the ranks that have the same rows, the one at coordinate 0 of tp.
bool EstimationSession::speaksForRows() const {
  return executor->coordinate().along(ParallelAxis::Tp) == 0;
}

//===----------------------------------------------------------------------===//
// The first pass
//===----------------------------------------------------------------------===//

Status EstimationSession::checkData() const {
  const int64_t dim = specification.shape.dim;
  if (!source || source->rows() < 1)
    return Status::error("there are no rows to fit");
  if (source->columns() != dim)
    return Status::error(source->name() + ": its rows have " +
                         std::to_string(source->columns()) +
                         " column(s); the estimator's dim is " +
                         std::to_string(dim));
  if (weights)
    return checkRowWeights(*weights, source->rows(), "row weights");
  return Status::success();
}

/// Runs of whole blocks; later ranks may own none.
void EstimationSession::assignRows() {
  const int64_t rows = source->rows();
  const ParallelPlan &plan = executor->program().plan;
  const int64_t ranks = plan.dataParallelSize();
  const int64_t blocks = (rows + block - 1) / block;
  const int64_t perRank = (blocks + ranks - 1) / ranks;
  const int64_t rank = dataParallelRank(plan, executor->coordinate());
  ownFirst = std::min(rows, std::min(blocks, rank * perRank) * block);
  const int64_t end =
      std::min(rows, std::min(blocks, (rank + 1) * perRank) * block);
  ownCount = end - ownFirst;
}

/// Calls back with (first row, count, values) of this rank's rows.
void EstimationSession::forEachChunk(
    const std::function<void(int64_t, int64_t, const double *)> &visit) const {
  const int64_t chunk = options.chunkRows > 0 ? options.chunkRows : tileRows;
  std::vector<double> values(std::min(chunk, ownCount) *
                             specification.shape.dim);
  for (int64_t done = 0; done < ownCount; done += chunk) {
    const int64_t n = std::min(chunk, ownCount - done);
    source->read(ownFirst + done, n, values.data());
    visit(ownFirst + done, n, values.data());
  }
}

Status EstimationSession::findAnchor() {
  constexpr int64_t none = std::numeric_limits<int64_t>::max();
  int64_t first = none;
  for (int64_t row = ownFirst; row < ownFirst + ownCount && first == none; ++row)
    if (weightOf(row) > 0)
      first = row;
  CommandContext context;
  context.entry = "first pass";
  MIXLE_RETURN_IF_ERROR(communicator().allReduce(
      *everyone, context, &first, 1, DataType::i64, ReduceOp::min));
  // checkData() has seen a positive weight.
  frameAnchor.resize(specification.shape.dim);
  source->read(first, 1, frameAnchor.data());
  return Status::success();
}

struct EstimationSession::Scan {
  std::vector<double> largest; // distance from the anchor, per column
  double largestWeight = 0;
  int64_t positiveRows = 0;
  std::vector<int64_t> weightLimbs =
      std::vector<int64_t>(ExactSum::limbCount, 0);
};

Status EstimationSession::scan(Scan &result) const {
  const int64_t dim = specification.shape.dim;
  result.largest.assign(dim, 0.0);
  ExactSum sum(result.weightLimbs.data());
  Status status;
  forEachChunk([&](int64_t first, int64_t count, const double *values) {
    for (int64_t r = 0; r < count; ++r) {
      const double weight = weightOf(first + r);
      for (int64_t j = 0; j < dim; ++j) {
        const double x = values[r * dim + j];
        if (!std::isfinite(x)) {
          if (status.ok())
            status = Status::error(
                source->name() + ": row " + std::to_string(first + r) +
                ", column " + std::to_string(j) + " (from 0) is " +
                numberText(x) + "; estimators take finite numbers only");
          continue;
        }
        if (weight > 0)
          result.largest[j] =
              std::max(result.largest[j], std::fabs(x - frameAnchor[j]));
      }
      if (weight > 0) {
        ++result.positiveRows;
        result.largestWeight = std::max(result.largestWeight, weight);
        sum.addDouble(weight);
      }
    }
  });
  sum.normalize();
  return status;
}

Status EstimationSession::setFrame(const Scan &scan) {
  const int64_t dim = specification.shape.dim;
  frameScale.assign(dim, 1.0);
  for (int64_t j = 0; j < dim; ++j) {
    const double largest = scan.largest[j];
    if (!(largest > 0))
      continue;
    int exponent = 0;
    std::frexp(largest, &exponent);
    if (!std::isfinite(largest) || exponent > maxScaleExponent2)
      return shared(Status::error(
          source->name() + ": column " + std::to_string(j) +
          " (from 0) has values up to " + numberText(largest) +
          " apart, whose squares are too large; scale the data down"));
    frameScale[j] = std::ldexp(1.0, std::max(exponent, -maxScaleExponent2));
  }
  // Features are at most 1, so sums are at most rows times the largest weight.
  int exponent = 0;
  const double most =
      static_cast<double>(scan.positiveRows) * scan.largestWeight;
  std::frexp(most, &exponent);
  if (!std::isfinite(most) || 61 - exponent < minScaleExponent)
    return shared(Status::error("row weights up to " +
                                numberText(scan.largestWeight) +
                                " are too large; scale them down"));
  const int32_t unit = -std::min(61 - exponent, maxScaleExponent);
  MIXLE_ASSIGN_OR_RETURN(BufferView units, executor->stateBuffer("units"));
  MIXLE_ASSIGN_OR_RETURN(size_t index, parameterIndex(statisticsName));
  const int32_t at = executor->parameter(index).unit_index;
  if (at < 0 || at >= units.elements || units.dtype != fb::DataType::I32)
    return Status::error("program '" + executor->program().path +
                         "' has no unit for its statistics");
  static_cast<int32_t *>(units.data)[at] = unit;
  MIXLE_RETURN_IF_ERROR(writeParameter("_anchor", frameAnchor));
  return writeParameter("_scale", frameScale);
}

Status EstimationSession::setData(
    std::shared_ptr<const RowSource> rows,
    std::shared_ptr<const std::vector<double>> rowWeights) {
  hasData = false;
  source = std::move(rows);
  weights = std::move(rowWeights);
  MIXLE_RETURN_IF_ERROR(agreed("first pass", checkData()));
  assignRows();
  MIXLE_RETURN_IF_ERROR(findAnchor());
  Scan found;
  MIXLE_RETURN_IF_ERROR(agreed("first pass", scan(found)));
  CommandContext context;
  context.entry = "first pass";
  const int64_t dim = specification.shape.dim;
  MIXLE_RETURN_IF_ERROR(communicator().allReduce(*everyone, context,
                                                 found.largest.data(), dim,
                                                 DataType::f64, ReduceOp::max));
  MIXLE_RETURN_IF_ERROR(communicator().allReduce(*everyone, context,
                                                 &found.largestWeight, 1,
                                                 DataType::f64, ReduceOp::max));
  // Sums: of the ranks with the same rows, one counts.
  std::vector<int64_t> sums(found.weightLimbs);
  sums.push_back(found.positiveRows);
  if (!speaksForRows())
    std::fill(sums.begin(), sums.end(), 0);
  MIXLE_RETURN_IF_ERROR(communicator().allReduce(
      *everyone, context, sums.data(), static_cast<int64_t>(sums.size()),
      DataType::i64, ReduceOp::sum));
  positiveRows = found.positiveRows = sums.back();
  weightSum = ExactSum(sums.data()).round();
  MIXLE_RETURN_IF_ERROR(setFrame(found));
  hasData = true;
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Iterations
//===----------------------------------------------------------------------===//

void EstimationSession::fillTile(int64_t first, int64_t count) {
  const int64_t dim = specification.shape.dim;
  const int64_t chunk = options.chunkRows > 0 ? options.chunkRows : tileRows;
  for (int64_t done = 0; done < count; done += chunk)
    source->read(first + done, std::min(chunk, count - done),
                 tile.data() + done * dim);
  for (int64_t r = 0; r < count; ++r) {
    tileWeights[r] = weightOf(first + r);
    // What such a row holds, however far away, must not touch anything.
    if (!(tileWeights[r] > 0))
      std::copy(frameAnchor.begin(), frameAnchor.end(), tile.data() + r * dim);
  }
}

Expected<EstimationReceipt> EstimationSession::iterate() {
  sharedError = false;
  if (!hasData)
    return shared(Status::error("there is no data; call setData first"));
  if (!hasStart)
    return shared(Status::error(
        "there are no parameters to start from; initialize or load them"));
  MIXLE_ASSIGN_OR_RETURN(EntryResult result, executor->run("reset", {}));
  for (int64_t done = 0; done < ownCount; done += tileRows) {
    EntryInputs inputs;
    inputs.rows = std::min(tileRows, ownCount - done);
    fillTile(ownFirst + done, inputs.rows);
    inputs.data["rows"] = tile.data();
    inputs.data["row_weights"] = tileWeights.data();
    MIXLE_ASSIGN_OR_RETURN(result, executor->run("accumulate", inputs));
  }
  MIXLE_ASSIGN_OR_RETURN(result, executor->run("estimate", {}));
  if (!result.committed) {
    int64_t status = 0;
    MIXLE_RETURN_IF_ERROR(executor->readOutput("estimate", "status", &status, 1,
                                               fb::DataType::I64));
    return shared(Status::error(
        "iteration " + std::to_string(iteration + 1) +
        ": the new covariance of component " +
        std::to_string(specification.components - status) +
        " is not positive definite to working precision (its rows do not spread "
        "in every direction); set a regularization above 0, e.g. {\"kind\": "
        "\"absolute\", \"value\": 1e-6}"));
  }
  EstimationReceipt receipt;
  receipt.iteration = ++iteration;
  receipt.rows = source->rows();
  MIXLE_RETURN_IF_ERROR(executor->readOutput("estimate", "loss_total",
                                             &receipt.logLikelihood, 1,
                                             fb::DataType::F64));
  CommandContext context;
  context.entry = "state digest";
  MIXLE_ASSIGN_OR_RETURN(receipt.digest, executor->stateDigest(context));
  return receipt;
}

Expected<std::vector<double>>
EstimationSession::logDensity(const double *rows, int64_t count) {
  sharedError = false;
  if (!hasStart)
    return shared(Status::error("there are no parameters; initialize or load "
                                "them first"));
  std::vector<double> result(count);
  for (int64_t done = 0; done < count; done += tileRows) {
    EntryInputs inputs;
    inputs.rows = std::min(tileRows, count - done);
    inputs.data["rows"] = rows + done * specification.shape.dim;
    MIXLE_ASSIGN_OR_RETURN(EntryResult ran,
                           executor->run("log_density", inputs));
    (void)ran;
    MIXLE_RETURN_IF_ERROR(executor->readOutput("log_density", "log_density",
                                               result.data() + done,
                                               inputs.rows, fb::DataType::F64));
  }
  return result;
}

} // namespace mixle::runtime
