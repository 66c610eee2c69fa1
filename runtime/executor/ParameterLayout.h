//===- ParameterLayout.h - Which elements a rank holds ----------*- C++ -*-===//
//
// A parameter's part on a rank: a block along shard_dim (padded to shard_size),
// flattened, and of that a stretch of flat_shard elements over dp_shard (padded
// too). Either cut may be absent. See program.fbs.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_EXECUTOR_PARAMETERLAYOUT_H
#define MIXLE_RUNTIME_EXECUTOR_PARAMETERLAYOUT_H

#include "mixle/ParallelPlan.h"
#include "mixle/Status.h"
#include "runtime/schema/program_generated.h"

#include <functional>

namespace mixle::runtime {

/// Checks shapes, cuts and products (which then all fit in 63 bits) under a
/// valid plan. Other functions of this file expect a parameter that passed.
Status checkParameterLayout(const fb::ParameterT &parameter,
                            const ParallelPlan &plan);

/// Elements of the whole logical tensor.
int64_t logicalElements(const fb::ParameterT &parameter);
/// Elements of a rank's buffer, padding included: the same on every rank.
int64_t heldElements(const fb::ParameterT &parameter);

/// Whether the rank at `worker` holds a part of it: all do, but where a pipeline
/// keeps it on some stages.
bool holdsPart(const fb::ParameterT &parameter, const WorkerCoordinate &worker);

/// Whether the rank at `worker` stands for its part: it is at coordinate 0 of
/// every axis along which the parameter is replicated, and on the first of the
/// stages that hold it.
bool ownsPart(const fb::ParameterT &parameter, const ParallelPlan &plan,
              const WorkerCoordinate &worker);

/// Calls back with every stretch of elements that the rank holds, in increasing
/// order: where it starts in the logical tensor and in the rank's buffer, and
/// its length. Padding is never among them; a rank that holds no part has none.
/// Ends with the first error.
Status
forEachRange(const fb::ParameterT &parameter, const ParallelPlan &plan,
             const WorkerCoordinate &worker,
             const std::function<Status(int64_t globalStart, int64_t localStart,
                                        int64_t count)> &callback);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_EXECUTOR_PARAMETERLAYOUT_H
