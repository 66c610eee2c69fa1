//===- ParallelPlan.h - How many ranks share a program ----------*- C++ -*-===//
//
// The plan that a user writes, what a backend declares that it can execute, and
// where a rank stands in the mesh. Names, values, the order of the checks and
// their messages are those of mixle's Python objects of the same names.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_PARALLELPLAN_H
#define MIXLE_PARALLELPLAN_H

#include "mixle/Status.h"

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mixle::runtime {

/// An axis of parallelism. The first five are dimensions of the mesh, in its
/// row-major order; Ep and Etp are groups that overlap with them.
enum class ParallelAxis { DpReplicate, DpShard, Tp, Pp, Cp, Ep, Etp };
/// What a distributed update carries.
enum class PayloadKind {
  Gradient,
  SufficientStatistic,
  Parameter,
  Activation,
  KvBlock,
  Token,
  Message
};
/// How a distributed update moves its payload.
enum class CollectiveKind {
  None,
  AllReduce,
  ReduceScatter,
  AllGather,
  AllToAll,
  Broadcast,
  P2p,
  Custom
};
/// How a state lies over the ranks.
enum class StateLayout {
  Replicated,
  Sharded,
  PipelineLocal,
  ExpertLocal,
  Offloaded
};

constexpr size_t numParallelAxes = 7;
/// Axes that are dimensions of the mesh (all but ep and etp).
constexpr size_t numMeshAxes = 5;
constexpr std::array<ParallelAxis, numParallelAxes> allParallelAxes = {
    ParallelAxis::DpReplicate, ParallelAxis::DpShard, ParallelAxis::Tp,
    ParallelAxis::Pp,          ParallelAxis::Cp,      ParallelAxis::Ep,
    ParallelAxis::Etp};

/// The name that plans, programs and messages use: "dp_replicate", ...
std::string_view toString(ParallelAxis axis);
std::string_view toString(PayloadKind kind);
std::string_view toString(CollectiveKind kind);
std::string_view toString(StateLayout layout);

/// The value of that name; an error lists the names that exist.
Expected<ParallelAxis> parseParallelAxis(std::string_view name);
Expected<PayloadKind> parsePayloadKind(std::string_view name);
Expected<CollectiveKind> parseCollectiveKind(std::string_view name);
Expected<StateLayout> parseStateLayout(std::string_view name);

/// A number of ranks along every axis, and how a step's rows are cut in time.
struct ParallelPlan {
  int64_t dpReplicate = 1;
  int64_t dpShard = 1;
  int64_t tp = 1;
  int64_t pp = 1;
  int64_t cp = 1;
  int64_t ep = 1;
  int64_t etp = 1;
  int64_t microbatches = 1;
  int64_t gradientAccumulationSteps = 1;

  /// Every field at least 1 (in the order of declaration), then ep a divisor of
  /// the data-parallel size, then a world size that fits in 64 bits. All the
  /// other functions expect a plan that passed.
  Status validate() const;

  /// Ranks: dp_replicate * dp_shard * tp * pp * cp; ep and etp do not multiply.
  int64_t worldSize() const;
  /// dp_replicate * dp_shard.
  int64_t dataParallelSize() const;
  int64_t size(ParallelAxis axis) const;
  /// Axes of more than one rank, in the order of the enum, ep and etp included.
  std::vector<ParallelAxis> activeAxes() const;
  /// Mesh axes of more than one rank with their sizes, in mesh order;
  /// dp_replicate of size 1 when there is none.
  std::vector<std::pair<ParallelAxis, int64_t>> mesh() const;
  /// Refuses a number of running ranks other than worldSize().
  Status validateWorldSize(int64_t actual) const;

  /// One JSON object: the nine fields in order, world_size,
  /// data_parallel_size.
  std::string asJson() const;
  /// What parseText() reads back: every field other than 1 in order, or
  /// "dp_replicate=1".
  std::string asText() const;

  /// Parses "dp_replicate=2,tp=2". Fields that are not named are 1. world_size
  /// and data_parallel_size may be given and must agree. Errors: unknown,
  /// repeated or malformed fields, and validate()'s.
  static Expected<ParallelPlan> parseText(std::string_view text);
  /// Parses a JSON object of the same fields, every one an integer. `what`
  /// names the text in messages.
  static Expected<ParallelPlan> parseJson(std::string_view text,
                                          const std::string &what);
  /// A command line's --plan: a text with '=', a JSON object, or the name of a
  /// file that holds one.
  static Expected<ParallelPlan> load(const std::string &argument);

  friend bool operator==(const ParallelPlan &a, const ParallelPlan &b) {
    return a.fields() == b.fields();
  }
  friend bool operator!=(const ParallelPlan &a, const ParallelPlan &b) {
    return !(a == b);
  }
  /// The nine fields in the order of declaration.
  std::array<int64_t, 9> fields() const {
    return {dpReplicate, dpShard,      tp,
            pp,          cp,           ep,
            etp,         microbatches, gradientAccumulationSteps};
  }
  /// The names of those fields, as users write them.
  static const std::array<std::string_view, 9> &fieldNames();
};

/// What a backend says that it can execute.
struct BackendCapabilities {
  std::string name;
  std::set<ParallelAxis> axes;
  std::set<std::string> precisions = {"fp32", "bf16"};
  bool distributedOptimizer = false;
  bool reshardableCheckpoint = false;
  bool elasticRestart = false;
  std::vector<std::string> requirements;
  std::vector<std::set<ParallelAxis>> incompatibleAxisSets;

  /// Checks the plan's active axes, then the precision, then that no
  /// incompatible set of axes is active as a whole.
  Status validate(const ParallelPlan &plan,
                  std::string_view precision = "fp32") const;
};

/// What the CPU backend executes in this version.
const BackendCapabilities &cpuBackend();

/// A rank's place in the mesh.
struct WorkerCoordinate {
  int64_t rank = 0;
  int64_t worldSize = 1;
  /// Along dp_replicate, dp_shard, tp, pp, cp.
  std::array<int64_t, numMeshAxes> coordinate = {};

  int64_t along(ParallelAxis axis) const {
    return coordinate[static_cast<size_t>(axis)];
  }
};

/// The coordinate of `rank` among `actualWorldSize` running ranks: row-major
/// over the five mesh axes, cp fastest. Errors: a world size that is not the
/// plan's, a rank outside it.
Expected<WorkerCoordinate> attestWorkerCoordinate(const ParallelPlan &plan,
                                                  int64_t actualWorldSize,
                                                  int64_t rank);

/// The rank at a coordinate (every entry within its axis): the inverse of
/// attestWorkerCoordinate.
int64_t rankOf(const ParallelPlan &plan,
               const std::array<int64_t, numMeshAxes> &coordinate);

/// The rank's position in the data-parallel domain:
/// dp_replicate's coordinate * dp_shard + dp_shard's coordinate.
int64_t dataParallelRank(const ParallelPlan &plan,
                         const WorkerCoordinate &worker);

} // namespace mixle::runtime

#endif // MIXLE_PARALLELPLAN_H
