//===- ParallelPlan.cpp - How many ranks share a program ------------------===//

#include "mixle/ParallelPlan.h"

#include "runtime/base/Files.h"
#include "runtime/base/Json.h"
#include "runtime/base/KeyValues.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace mixle::runtime {

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static constexpr std::array<std::string_view, 7> axisNames = {
    "dp_replicate", "dp_shard", "tp", "pp", "cp", "ep", "etp"};
static constexpr std::array<std::string_view, 7> payloadNames = {
    "gradient",  "sufficient_statistic",
    "parameter", "activation",
    "kv_block",  "token",
    "message"};
static constexpr std::array<std::string_view, 8> collectiveNames = {
    "none",      "all_reduce", "reduce_scatter", "all_gather", "all_to_all",
    "broadcast", "p2p",        "custom"};
static constexpr std::array<std::string_view, 5> layoutNames = {
    "replicated", "sharded", "pipeline_local", "expert_local", "offloaded"};

std::string_view toString(ParallelAxis axis) {
  return axisNames[static_cast<size_t>(axis)];
}
std::string_view toString(PayloadKind kind) {
  return payloadNames[static_cast<size_t>(kind)];
}
std::string_view toString(CollectiveKind kind) {
  return collectiveNames[static_cast<size_t>(kind)];
}
std::string_view toString(StateLayout layout) {
  return layoutNames[static_cast<size_t>(layout)];
}

template <typename Enum, size_t N>
static Expected<Enum> parseName(std::string_view name,
                                const std::array<std::string_view, N> &names,
                                const char *what) {
  std::string list;
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name)
      return static_cast<Enum>(i);
    list += (i ? ", " : "") + std::string(names[i]);
  }
  return Status::error("'" + std::string(name) + "' is not a " + what +
                       "; expected one of " + list);
}

Expected<ParallelAxis> parseParallelAxis(std::string_view name) {
  return parseName<ParallelAxis>(name, axisNames, "parallel axis");
}
Expected<PayloadKind> parsePayloadKind(std::string_view name) {
  return parseName<PayloadKind>(name, payloadNames, "payload kind");
}
Expected<CollectiveKind> parseCollectiveKind(std::string_view name) {
  return parseName<CollectiveKind>(name, collectiveNames, "collective kind");
}
Expected<StateLayout> parseStateLayout(std::string_view name) {
  return parseName<StateLayout>(name, layoutNames, "state layout");
}

//===----------------------------------------------------------------------===//
// ParallelPlan
//===----------------------------------------------------------------------===//

const std::array<std::string_view, 9> &ParallelPlan::fieldNames() {
  static constexpr std::array<std::string_view, 9> names = {
      "dp_replicate", "dp_shard",     "tp",
      "pp",           "cp",           "ep",
      "etp",          "microbatches", "gradient_accumulation_steps"};
  return names;
}

/// The member behind a field's name; null for other names.
static int64_t *member(ParallelPlan &plan, std::string_view name) {
  int64_t *const members[] = {
      &plan.dpReplicate, &plan.dpShard,      &plan.tp,
      &plan.pp,          &plan.cp,           &plan.ep,
      &plan.etp,         &plan.microbatches, &plan.gradientAccumulationSteps};
  const auto &names = ParallelPlan::fieldNames();
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name)
      return members[i];
  return nullptr;
}

Status ParallelPlan::validate() const {
  auto values = fields();
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] < 1)
      return Status::error(std::string(fieldNames()[i]) +
                           " must be an exact positive integer.");
  int64_t product = 1;
  for (size_t i = 0; i < numMeshAxes; ++i)
    if (__builtin_mul_overflow(product, values[i], &product))
      return Status::error("the plan's world size does not fit in a 64-bit "
                           "integer; make the axes smaller.");
  if (dataParallelSize() % ep != 0)
    return Status::error(
        "expert parallelism must divide the data-parallel domain.");
  return Status::success();
}

int64_t ParallelPlan::worldSize() const {
  return dpReplicate * dpShard * tp * pp * cp;
}

int64_t ParallelPlan::dataParallelSize() const { return dpReplicate * dpShard; }

int64_t ParallelPlan::size(ParallelAxis axis) const {
  return fields()[static_cast<size_t>(axis)];
}

std::vector<ParallelAxis> ParallelPlan::activeAxes() const {
  std::vector<ParallelAxis> active;
  for (ParallelAxis axis : allParallelAxes)
    if (size(axis) > 1)
      active.push_back(axis);
  return active;
}

std::vector<std::pair<ParallelAxis, int64_t>> ParallelPlan::mesh() const {
  std::vector<std::pair<ParallelAxis, int64_t>> result;
  for (size_t i = 0; i < numMeshAxes; ++i)
    if (size(allParallelAxes[i]) > 1)
      result.emplace_back(allParallelAxes[i], size(allParallelAxes[i]));
  if (result.empty())
    result.emplace_back(ParallelAxis::DpReplicate, 1);
  return result;
}

Status ParallelPlan::validateWorldSize(int64_t actual) const {
  if (actual < 1)
    return Status::error(
        "actual world size must be an exact positive integer.");
  if (actual != worldSize())
    return Status::error(
        "parallel plan requires world_size=" + std::to_string(worldSize()) +
        ", but the process group has world_size=" + std::to_string(actual) +
        ".");
  return Status::success();
}

std::string ParallelPlan::asJson() const {
  Json object = Json::object();
  auto values = fields();
  for (size_t i = 0; i < values.size(); ++i)
    object[std::string(fieldNames()[i])] = values[i];
  object["world_size"] = worldSize();
  object["data_parallel_size"] = dataParallelSize();
  return object.dump();
}

std::string ParallelPlan::asText() const {
  std::string text;
  auto values = fields();
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] != 1)
      text += (text.empty() ? "" : ",") + std::string(fieldNames()[i]) + "=" +
              std::to_string(values[i]);
  return text.empty() ? "dp_replicate=1" : text;
}

namespace {
/// A plan while it is read: the nine fields, and the two derived sizes that a
/// file may repeat.
struct PlanReader {
  ParallelPlan plan;
  std::optional<int64_t> worldSize, dataParallelSize;

  static bool isDerived(std::string_view name) {
    return name == "world_size" || name == "data_parallel_size";
  }

  static Status unknown(std::string_view name) {
    std::string list;
    for (std::string_view field : ParallelPlan::fieldNames())
      list += (list.empty() ? "" : ", ") + std::string(field);
    return Status::error("unknown field '" + std::string(name) +
                         "'; a plan has the fields " + list);
  }

  /// Stores a field that exists.
  void set(std::string_view name, int64_t value) {
    if (name == "world_size")
      worldSize = value;
    else if (name == "data_parallel_size")
      dataParallelSize = value;
    else
      *member(plan, name) = value;
  }

  static Status derivedMismatch(std::string_view name, int64_t given,
                                int64_t derived) {
    return Status::error(std::string(name) + "=" + std::to_string(given) +
                         " disagrees with the axes, which make " +
                         std::to_string(derived) +
                         "; correct it or leave it "
                         "out");
  }

  Expected<ParallelPlan> finish() const {
    // The message says what a value must be; say what it is, too.
    auto values = plan.fields();
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] < 1)
        return plan.validate().withContext(
            std::string(ParallelPlan::fieldNames()[i]) + "=" +
            std::to_string(values[i]));
    if (Status status = plan.validate(); !status)
      return status.withContext(plan.asText());
    if (worldSize && *worldSize != plan.worldSize())
      return derivedMismatch("world_size", *worldSize, plan.worldSize());
    if (dataParallelSize && *dataParallelSize != plan.dataParallelSize())
      return derivedMismatch("data_parallel_size", *dataParallelSize,
                             plan.dataParallelSize());
    return plan;
  }
};
} // namespace

Expected<ParallelPlan> ParallelPlan::parseText(std::string_view text) {
  const std::string what = "parallel plan";
  MIXLE_ASSIGN_OR_RETURN(KeyValues parsed, parseKeyValues(text, what));
  if (!parsed.head.empty())
    return Status::error(what + ": '" + parsed.head +
                         "' has no value; expected fields like "
                         "dp_replicate=2,tp=2");
  PlanReader reader;
  for (const auto &[name, value] : parsed.pairs) {
    if (!member(reader.plan, name) && !PlanReader::isDerived(name))
      return PlanReader::unknown(name).withContext(what);
    auto number = parseInteger(value, name);
    if (!number && value.find_first_not_of("0123456789") == std::string::npos)
      return Status::error(what + ": " + name + "=" + value +
                           " is too large: it does not fit in a 64-bit integer");
    if (!number)
      return Status::error(what + ": " + name + "=" + value + ": " + name +
                           " must be an exact positive integer.");
    reader.set(name, *number);
  }
  auto plan = reader.finish();
  if (!plan)
    return plan.status().withContext(what);
  return plan;
}

Expected<ParallelPlan> ParallelPlan::parseJson(std::string_view text,
                                               const std::string &what) {
  MIXLE_ASSIGN_OR_RETURN(Json object, runtime::parseJson(text, what));
  if (!object.is_object())
    return Status::error(what + ": a plan is a JSON object of fields, not " +
                         std::string(object.type_name()));
  PlanReader reader;
  for (const auto &[name, value] : object.items()) {
    if (!member(reader.plan, name) && !PlanReader::isDerived(name))
      return PlanReader::unknown(name).withContext(what);
    bool fits =
        value.is_number_integer() &&
        (!value.is_number_unsigned() ||
         value.get<uint64_t>() <=
             static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (!fits)
      return Status::error(what + ": " + name + "=" + value.dump() + ": " +
                           name + " must be an exact positive integer.");
    reader.set(name, value.get<int64_t>());
  }
  auto plan = reader.finish();
  if (!plan)
    return plan.status().withContext(what);
  return plan;
}

Expected<ParallelPlan> ParallelPlan::load(const std::string &argument) {
  std::string_view text = trimmed(argument);
  if (text.empty())
    return Status::error("parallel plan: the text is empty; expected fields "
                         "like dp_replicate=2,tp=2, or a JSON file");
  if (text.front() == '{')
    return parseJson(text, "parallel plan");
  // A path may hold '=' too: what is there as a file is meant as one.
  if (text.find('=') != std::string_view::npos && !isRegularFile(argument))
    return parseText(text);
  auto content = readFile(argument, /*limit=*/1 << 20);
  if (!content)
    return content.status().withContext(
        "parallel plan: '" + argument +
        "' is neither fields like dp_replicate=2,tp=2 nor a readable JSON "
        "file");
  return parseJson(*content, "parallel plan " + argument);
}

//===----------------------------------------------------------------------===//
// BackendCapabilities
//===----------------------------------------------------------------------===//

static std::string join(const std::vector<std::string> &names,
                        const char *separator) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : separator) + name;
  return text;
}

Status BackendCapabilities::validate(const ParallelPlan &plan,
                                     std::string_view precision) const {
  std::vector<ParallelAxis> active = plan.activeAxes();
  std::vector<std::string> missing;
  for (ParallelAxis axis : active)
    if (!axes.count(axis))
      missing.emplace_back(toString(axis));
  if (!missing.empty())
    return Status::error(name + " does not execute requested parallel axes: " +
                         join(missing, ", "));
  if (!precisions.count(std::string(precision)))
    return Status::error(
        name + " does not support precision='" + std::string(precision) +
        "'; supported: " + join({precisions.begin(), precisions.end()}, ", "));
  for (const std::set<ParallelAxis> &together : incompatibleAxisSets) {
    bool all =
        std::all_of(together.begin(), together.end(),
                    [&](ParallelAxis axis) { return plan.size(axis) > 1; });
    if (!all)
      continue;
    std::vector<std::string> names;
    for (ParallelAxis axis : together)
      names.emplace_back(toString(axis));
    std::sort(names.begin(), names.end());
    return Status::error(name + " does not compose axes " + join(names, "+") +
                         " in one session.");
  }
  return Status::success();
}

const BackendCapabilities &cpuBackend() {
  static const BackendCapabilities backend = [] {
    BackendCapabilities b;
    b.name = "cpu";
    b.axes = {ParallelAxis::DpReplicate, ParallelAxis::DpShard, ParallelAxis::Tp,
              ParallelAxis::Pp};
    b.precisions = {"fp32", "fp64"};
    b.distributedOptimizer = true;
    return b;
  }();
  return backend;
}

//===----------------------------------------------------------------------===//
// Coordinates
//===----------------------------------------------------------------------===//

Expected<WorkerCoordinate> attestWorkerCoordinate(const ParallelPlan &plan,
                                                  int64_t actualWorldSize,
                                                  int64_t rank) {
  MIXLE_RETURN_IF_ERROR(plan.validateWorldSize(actualWorldSize));
  if (rank < 0 || rank >= actualWorldSize)
    return Status::error("rank must be an exact integer in the runtime "
                         "world-size range.");
  WorkerCoordinate worker;
  worker.rank = rank;
  worker.worldSize = actualWorldSize;
  int64_t rest = rank;
  for (size_t i = numMeshAxes; i-- > 0;) {
    int64_t size = plan.size(allParallelAxes[i]);
    worker.coordinate[i] = rest % size;
    rest /= size;
  }
  return worker;
}

int64_t rankOf(const ParallelPlan &plan,
               const std::array<int64_t, numMeshAxes> &coordinate) {
  int64_t rank = 0;
  for (size_t i = 0; i < numMeshAxes; ++i)
    rank = rank * plan.size(allParallelAxes[i]) + coordinate[i];
  return rank;
}

int64_t dataParallelRank(const ParallelPlan &plan,
                         const WorkerCoordinate &worker) {
  return worker.along(ParallelAxis::DpReplicate) * plan.dpShard +
         worker.along(ParallelAxis::DpShard);
}

} // namespace mixle::runtime
