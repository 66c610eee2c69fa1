//===- ParameterLayout.cpp - Which elements a rank holds ------------------===//

#include "runtime/executor/ParameterLayout.h"

#include <algorithm>

namespace mixle::runtime {

/// The block along the sharded dimension, seen as [outer][shard][inner].
namespace {
struct Block {
  int64_t outer = 1;
  int64_t extent = 1; // of the logical dimension
  int64_t shard = 1;  // of a rank
  int64_t inner = 1;
};

ParallelAxis axisOf(fb::Axis axis) { return static_cast<ParallelAxis>(axis); }

Block blockOf(const fb::ParameterT &parameter) {
  Block block;
  if (parameter.shard_dim < 0) {
    for (int64_t size : parameter.shape)
      block.extent *= size;
    block.shard = block.extent;
    return block;
  }
  size_t dimension = static_cast<size_t>(parameter.shard_dim);
  for (size_t i = 0; i < parameter.shape.size(); ++i) {
    if (i < dimension)
      block.outer *= parameter.shape[i];
    else if (i > dimension)
      block.inner *= parameter.shape[i];
  }
  block.extent = parameter.shape[dimension];
  block.shard = parameter.shard_size;
  return block;
}

/// The product of sizes of at least 1; 0 where it does not fit.
int64_t productOf(const std::vector<int64_t> &shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    if (size < 1 || __builtin_mul_overflow(product, size, &product))
      return 0;
  return product;
}

std::string textOf(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}
} // namespace

Status checkParameterLayout(const fb::ParameterT &parameter,
                            const ParallelPlan &plan) {
  const std::vector<int64_t> &shape = parameter.shape;
  if (shape.size() > 8)
    return Status::error("it has " + std::to_string(shape.size()) +
                         " dimensions; expected at most 8");
  int64_t elements = productOf(shape);
  if (elements == 0)
    return Status::error("its shape " + textOf(shape) +
                         " has a size below 1 or too many elements");
  if (productOf(parameter.file_shape) != elements)
    return Status::error("its file_shape " + textOf(parameter.file_shape) +
                         " has not the elements of its shape " + textOf(shape));
  for (size_t i = 0; i < parameter.stages.size(); ++i)
    if (parameter.stages[i] < 0 || parameter.stages[i] >= plan.pp ||
        (i > 0 && parameter.stages[i] <= parameter.stages[i - 1]))
      return Status::error("its stages are not increasing coordinates along "
                           "pp, of which there are " +
                           std::to_string(plan.pp));
  int64_t held = elements;
  if (parameter.shard_dim < -1 ||
      parameter.shard_dim >= static_cast<int64_t>(shape.size()))
    return Status::error("its shard_dim is " +
                         std::to_string(parameter.shard_dim) + "; its shape " +
                         textOf(shape) + " has not that dimension");
  if (parameter.shard_dim >= 0) {
    if (parameter.shard_axis < fb::Axis::MIN ||
        parameter.shard_axis > fb::Axis::MAX)
      return Status::error("its shard_axis is no axis");
    int64_t ranks = plan.size(axisOf(parameter.shard_axis));
    int64_t extent = shape[parameter.shard_dim];
    int64_t covered;
    if (parameter.shard_size < 1 ||
        __builtin_mul_overflow(parameter.shard_size, ranks, &covered) ||
        covered < extent)
      return Status::error("its shard_size is " +
                           std::to_string(parameter.shard_size) + ", but " +
                           std::to_string(ranks) + " rank(s) along " +
                           std::string(toString(axisOf(parameter.shard_axis))) +
                           " have to cover " + std::to_string(extent));
    if (__builtin_mul_overflow(elements / extent, covered, &covered))
      return Status::error("its shard_size is " +
                           std::to_string(parameter.shard_size) +
                           ": too many elements");
    held = elements / extent * parameter.shard_size;
    if (parameter.flat_shard != 0 && parameter.shard_axis == fb::Axis::DpShard)
      return Status::error("dp_shard cuts it twice: along a dimension and "
                           "as a flat part");
  }
  if (parameter.flat_shard != 0) {
    int64_t covered;
    if (parameter.flat_shard < 1 ||
        __builtin_mul_overflow(parameter.flat_shard, plan.dpShard, &covered) ||
        covered < held)
      return Status::error("its flat_shard is " +
                           std::to_string(parameter.flat_shard) + ", but " +
                           std::to_string(plan.dpShard) +
                           " rank(s) along dp_shard have to cover " +
                           std::to_string(held) + " elements");
  }
  return Status::success();
}

int64_t logicalElements(const fb::ParameterT &parameter) {
  Block block = blockOf(parameter);
  return block.outer * block.extent * block.inner;
}

int64_t heldElements(const fb::ParameterT &parameter) {
  if (parameter.flat_shard > 0)
    return parameter.flat_shard;
  Block block = blockOf(parameter);
  return block.outer * block.shard * block.inner;
}

bool holdsPart(const fb::ParameterT &parameter,
               const WorkerCoordinate &worker) {
  return parameter.stages.empty() ||
         std::find(parameter.stages.begin(), parameter.stages.end(),
                   worker.along(ParallelAxis::Pp)) != parameter.stages.end();
}

bool ownsPart(const fb::ParameterT &parameter, const ParallelPlan &plan,
              const WorkerCoordinate &worker) {
  for (size_t i = 0; i < numMeshAxes; ++i) {
    if (i == static_cast<size_t>(ParallelAxis::Pp) &&
        !parameter.stages.empty()) {
      if (worker.coordinate[i] != parameter.stages.front())
        return false;
      continue;
    }
    bool shards = (parameter.shard_dim >= 0 &&
                   static_cast<size_t>(parameter.shard_axis) == i) ||
                  (parameter.flat_shard > 0 &&
                   i == static_cast<size_t>(ParallelAxis::DpShard));
    if (!shards && worker.coordinate[i] != 0)
      return false;
  }
  return true;
}

Status
forEachRange(const fb::ParameterT &parameter, const ParallelPlan &plan,
             const WorkerCoordinate &worker,
             const std::function<Status(int64_t, int64_t, int64_t)> &callback) {
  if (!holdsPart(parameter, worker))
    return Status::success();
  Block block = blockOf(parameter);
  int64_t position = 0; // along the sharded dimension
  if (parameter.shard_dim >= 0)
    position = worker.along(axisOf(parameter.shard_axis)) * block.shard;
  int64_t valid =
      std::max<int64_t>(0, std::min(block.extent - position, block.shard)) *
      block.inner;
  if (valid == 0)
    return Status::success();
  int64_t stride = block.shard * block.inner;
  int64_t windowBegin = 0, windowEnd = block.outer * stride;
  if (parameter.flat_shard > 0) {
    int64_t part = worker.along(ParallelAxis::DpShard);
    // A later rank may start beyond the end: it holds padding only.
    if (part > windowEnd / parameter.flat_shard)
      return Status::success();
    windowBegin = part * parameter.flat_shard;
    windowEnd = std::min(windowBegin + parameter.flat_shard, windowEnd);
  }
  for (int64_t i = windowBegin / stride; i < block.outer; ++i) {
    int64_t begin = std::max(i * stride, windowBegin);
    int64_t end = std::min(i * stride + valid, windowEnd);
    if (i * stride >= windowEnd)
      break;
    if (begin >= end)
      continue;
    int64_t globalRow = (i * block.extent + position) * block.inner;
    MIXLE_RETURN_IF_ERROR(callback(globalRow + (begin - i * stride),
                                   begin - windowBegin, end - begin));
  }
  return Status::success();
}

} // namespace mixle::runtime
