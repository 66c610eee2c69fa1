//===- Weights.cpp - A model's file of tensors, in and out ----------------===//

#include "runtime/training/Weights.h"
#include "runtime/base/KeyValues.h"
#include "runtime/base/Safetensors.h"
#include "runtime/executor/ParameterLayout.h"
#include "runtime/program/Names.h"
#include "runtime/training/Agreement.h"
#include "runtime/training/WeightFiles.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <set>

namespace mixle::runtime {

namespace {

const std::string gpt2Prefix = "transformer.";

TensorType tensorType(fb::DataType dtype) {
  return dtype == fb::DataType::F64 ? TensorType::F64 : TensorType::F32;
}

bool isReal(TensorType type) {
  return type == TensorType::F64 || type == TensorType::F32 ||
         type == TensorType::F16 || type == TensorType::BF16;
}

bool startsWith(const std::string &text, const std::string &start) {
  return text.compare(0, start.size(), start) == 0;
}

/// "h.3.attn.bias" and "h.3.attn.masked_bias", with or without the prefix: the
/// causal mask that Hugging Face's GPT-2 files carry.
bool isMaskBuffer(std::string name) {
  if (startsWith(name, gpt2Prefix))
    name = name.substr(gpt2Prefix.size());
  if (!startsWith(name, "h."))
    return false;
  size_t digits = name.find_first_not_of("0123456789", 2);
  if (digits == 2 || digits == std::string::npos)
    return false;
  std::string rest = name.substr(digits);
  return rest == ".attn.bias" || rest == ".attn.masked_bias";
}

/// "model.layers.3.self_attn.rotary_emb.inv_freq": frequencies that older Llama
/// files carry, which follow from the configuration.
bool isRotaryBuffer(const std::string &name) {
  const std::string start = "model.layers.",
                    end = ".self_attn.rotary_emb.inv_freq";
  if (!startsWith(name, start) || name.size() <= start.size() + end.size())
    return false;
  size_t digits = name.find_first_not_of("0123456789", start.size());
  return digits != start.size() && digits != std::string::npos &&
         name.substr(digits) == end;
}

/// Other names under which files hold a tied parameter once more.
std::vector<std::string> tiedNames(const fb::ParameterT &parameter) {
  std::vector<std::string> names;
  std::string group = parameter.shared_group;
  for (size_t begin = 0; begin < group.size();) {
    size_t end = std::min(group.find('=', begin), group.size());
    if (group.substr(begin, end - begin) != parameter.logical_id)
      names.push_back(group.substr(begin, end - begin));
    begin = end + 1;
  }
  if (parameter.logical_id == "transformer.wte.weight")
    names.push_back("lm_head.weight");
  if (parameter.logical_id == "model.embed_tokens.weight")
    names.push_back("lm_head.weight");
  if (parameter.logical_id == "tok.weight")
    names.push_back("head.weight");
  return names;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// A tensor's values in the program's precision. `T` is float or double.
template <typename T> std::vector<T> valuesOf(const TensorView &view) {
  std::vector<T> values(static_cast<size_t>(view.elements()));
  // Only tensors of integers are refused, and those do not come here.
  Status status;
  if constexpr (sizeof(T) == 8)
    status = toDouble(view, values.data());
  else
    status = toFloat(view, values.data());
  if (!status.ok())
    values.clear();
  return values;
}

template <typename T>
Status checkFinite(const TensorView &view, const char *precision) {
  std::vector<T> values = valuesOf<T>(view);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]))
      continue;
    TensorView element = view;
    element.data += i * elementSize(view.type);
    element.bytes = elementSize(view.type);
    double stored = valuesOf<double>(element)[0];
    const std::string where = "tensor '" + view.name + "': element " +
                              std::to_string(i) + " is " +
                              numberText(stored);
    if (std::isfinite(stored))
      return Status::error(where + ", which is too large for the program's " +
                           precision);
    return Status::error(where + "; weights must be finite");
  }
  return Status::success();
}

/// Which tensor of a file is which parameter's, checked.
class WeightsReader {
public:
  WeightsReader(const RankExecutor &executor, const WeightFiles &file)
      : executor(executor), file(file) {}

  /// Everything that the file may be refused for.
  Status check();
  const TensorView &tensorOf(size_t parameter) const {
    return *tensors[parameter];
  }

private:
  bool isGpt2() const {
    return executor.program().config("model_type") == "gpt2";
  }
  const TensorView *findTensor(const std::string &id) const;
  Status checkParameter(const fb::ParameterT &parameter,
                        const TensorView &tensor) const;
  Status checkOther(const TensorView &tensor) const;

  const RankExecutor &executor;
  const WeightFiles &file;
  std::vector<const TensorView *> tensors;
};

const TensorView *WeightsReader::findTensor(const std::string &id) const {
  const TensorView *found = file.find(id);
  if (!found && isGpt2() && startsWith(id, gpt2Prefix))
    found = file.find(id.substr(gpt2Prefix.size()));
  return found;
}

Status WeightsReader::check() {
  std::set<const TensorView *> used;
  for (size_t i = 0; i < executor.numParameters(); ++i) {
    const fb::ParameterT &parameter = executor.parameter(i);
    const TensorView *tensor = findTensor(parameter.logical_id);
    if (!tensor)
      return Status::error("it has no tensor '" + parameter.logical_id +
                           "', which the program needs (" +
                           shapeText(parameter.file_shape) + ")");
    MIXLE_RETURN_IF_ERROR(checkParameter(parameter, *tensor));
    tensors.push_back(tensor);
    used.insert(tensor);
  }
  for (const TensorView *tensor : file.tensors())
    if (used.count(tensor) == 0)
      MIXLE_RETURN_IF_ERROR(checkOther(*tensor));
  return Status::success();
}

Status WeightsReader::checkParameter(const fb::ParameterT &parameter,
                                     const TensorView &tensor) const {
  if (tensor.shape != parameter.file_shape)
    return Status::error("tensor '" + tensor.name + "' has shape " +
                         shapeText(tensor.shape) + "; the program expects " +
                         shapeText(parameter.file_shape));
  if (!isReal(tensor.type))
    return Status::error("tensor '" + tensor.name + "' is of type " +
                         std::string(toString(tensor.type)) +
                         "; expected F64, F32, F16 or BF16");
  return parameter.dtype == fb::DataType::F64
             ? checkFinite<double>(tensor, "fp64")
             : checkFinite<float>(tensor, "fp32");
}

Status WeightsReader::checkOther(const TensorView &tensor) const {
  const fb::ProgramT &program = executor.program().program;
  for (const auto &constant : program.file_constants) {
    if (constant->key != tensor.name)
      continue;
    double expected = 0;
    if (!parseNumber(constant->value, expected))
      return Status::error("the program's constant '" + constant->key +
                           "' is '" + constant->value +
                           "', which is no number: compile it again");
    if (!isReal(tensor.type) || !tensor.shape.empty())
      return Status::error("tensor '" + tensor.name + "' is " +
                           std::string(toString(tensor.type)) + " " +
                           shapeText(tensor.shape) +
                           "; expected one floating-point number");
    double value = valuesOf<double>(tensor)[0];
    if (program.precision == fb::DataType::F32) {
      value = static_cast<float>(value);
      expected = static_cast<float>(expected);
    }
    if (value == expected)
      return Status::success();
    return Status::error("tensor '" + tensor.name + "' is " +
                         std::to_string(value) + ", but the program has " +
                         constant->value +
                         " built in: compile a program for "
                         "a model with that value");
  }
  for (size_t i = 0; i < executor.numParameters(); ++i)
    for (const std::string &name : tiedNames(executor.parameter(i))) {
      if (name != tensor.name)
        continue;
      const TensorView &tied = *tensors[i];
      if (tied.type == tensor.type && tied.shape == tensor.shape &&
          std::memcmp(tied.data, tensor.data, tensor.bytes) == 0)
        return Status::success();
      return Status::error("tensor '" + tensor.name + "' differs from '" +
                           tied.name +
                           "'; the program ties the two, so they must be "
                           "equal bit by bit");
    }
  if (isGpt2() && isMaskBuffer(tensor.name))
    return Status::success();
  if (isRotaryBuffer(tensor.name))
    return Status::success();
  return Status::error("tensor '" + tensor.name + "' (" +
                       shapeText(tensor.shape) +
                       ") is no part of the program's model");
}

template <typename T>
Status fillParameter(const RankExecutor &executor, size_t index,
                     const TensorView &tensor) {
  std::vector<T> values = valuesOf<T>(tensor);
  return executor.forEachHeldRange(index, "", [&](const ElementRange &range) {
    std::memcpy(range.data, values.data() + range.globalStart,
                static_cast<size_t>(range.count) * sizeof(T));
    return Status::success();
  });
}

} // namespace

Status loadWeights(RankExecutor &executor, Group &world,
                   const std::string &path, bool *shared) {
  const CommandContext context{"load_weights", 0, ""};
  Expected<WeightFiles> file = WeightFiles::open(path);
  Status status = file.status();
  std::optional<WeightsReader> reader;
  if (status.ok()) {
    reader.emplace(executor, *file);
    status = reader->check().withContext("weights '" + path + "'");
  }
  MIXLE_RETURN_IF_ERROR(
      agree(executor.communicator(), world, context, status, shared));

  MIXLE_ASSIGN_OR_RETURN(EntryResult ended,
                         executor.run("initialize", EntryInputs()));
  (void)ended; // nothing in it can refuse to commit
  for (size_t i = 0; i < executor.numParameters(); ++i) {
    const TensorView &tensor = reader->tensorOf(i);
    MIXLE_RETURN_IF_ERROR(executor.parameter(i).dtype == fb::DataType::F64
                              ? fillParameter<double>(executor, i, tensor)
                              : fillParameter<float>(executor, i, tensor));
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {

constexpr int weightsTag = 0x57;

/// One parameter on its way to rank 0.
class ParameterGather {
public:
  ParameterGather(RankExecutor &executor, size_t index)
      : executor(executor), index(index), parameter(executor.parameter(index)),
        size(sizeOf(parameter.dtype)) {}

  /// The whole tensor on rank 0, nothing elsewhere.
  Expected<std::vector<char>> run();

private:
  /// The elements of the parts that a rank owns, one after another.
  Expected<std::vector<char>> ownPart() const;
  Status placePart(int64_t owner, const std::vector<char> &part,
                   std::vector<char> &whole) const;

  RankExecutor &executor;
  size_t index;
  const fb::ParameterT &parameter;
  int64_t size;
};

Expected<std::vector<char>> ParameterGather::ownPart() const {
  std::vector<char> part;
  MIXLE_RETURN_IF_ERROR(
      executor.forEachOwnedRange(index, "", [&](const ElementRange &range) {
        const char *data = static_cast<const char *>(range.data);
        part.insert(part.end(), data, data + range.count * size);
        return Status::success();
      }));
  return part;
}

Status ParameterGather::placePart(int64_t owner, const std::vector<char> &part,
                                  std::vector<char> &whole) const {
  const ParallelPlan &plan = executor.program().plan;
  MIXLE_ASSIGN_OR_RETURN(WorkerCoordinate worker,
                         attestWorkerCoordinate(plan, plan.worldSize(), owner));
  int64_t position = 0;
  return forEachRange(parameter, plan, worker,
                      [&](int64_t globalStart, int64_t, int64_t count) {
                        std::memcpy(whole.data() + globalStart * size,
                                    part.data() + position,
                                    static_cast<size_t>(count * size));
                        position += count * size;
                        return Status::success();
                      });
}

/// Elements that a rank owns.
Expected<int64_t> ownedElements(const fb::ParameterT &parameter,
                                const ParallelPlan &plan, int64_t owner) {
  MIXLE_ASSIGN_OR_RETURN(WorkerCoordinate worker,
                         attestWorkerCoordinate(plan, plan.worldSize(), owner));
  int64_t elements = 0;
  if (!ownsPart(parameter, plan, worker))
    return elements;
  MIXLE_RETURN_IF_ERROR(forEachRange(parameter, plan, worker,
                                     [&](int64_t, int64_t, int64_t count) {
                                       elements += count;
                                       return Status::success();
                                     }));
  return elements;
}

Expected<std::vector<char>> ParameterGather::run() {
  Communicator &communicator = executor.communicator();
  const CommandContext context{"save_weights", static_cast<int64_t>(index),
                               parameter.logical_id};
  MIXLE_ASSIGN_OR_RETURN(std::vector<char> own, ownPart());
  if (communicator.rank() != 0) {
    if (!own.empty())
      MIXLE_RETURN_IF_ERROR(communicator.send(context, own.data(),
                                              static_cast<int64_t>(own.size()),
                                              0, weightsTag));
    return std::vector<char>();
  }
  std::vector<char> whole(
      static_cast<size_t>(logicalElements(parameter) * size));
  if (!own.empty())
    MIXLE_RETURN_IF_ERROR(placePart(0, own, whole));
  const ParallelPlan &plan = executor.program().plan;
  for (int owner = 1; owner < communicator.worldSize(); ++owner) {
    MIXLE_ASSIGN_OR_RETURN(int64_t elements,
                           ownedElements(parameter, plan, owner));
    if (elements == 0)
      continue;
    std::vector<char> part(static_cast<size_t>(elements * size));
    MIXLE_RETURN_IF_ERROR(communicator.recv(context, part.data(),
                                            static_cast<int64_t>(part.size()),
                                            owner, weightsTag));
    MIXLE_RETURN_IF_ERROR(placePart(owner, part, whole));
  }
  return whole;
}

/// Rank 0's file, laid out for the program.
Expected<SafetensorsWriter> createWriter(const RankExecutor &executor,
                                         const std::string &path) {
  const fb::ProgramT &program = executor.program().program;
  std::vector<TensorSpec> specs;
  for (const auto &parameter : program.parameters)
    specs.push_back({parameter->logical_id, tensorType(parameter->dtype),
                     parameter->file_shape});
  for (const auto &constant : program.file_constants)
    specs.push_back({constant->key, tensorType(program.precision), {}});
  return SafetensorsWriter::create(path, std::move(specs), {{"format", "pt"}});
}

Status writeConstants(const fb::ProgramT &program, SafetensorsWriter &writer) {
  for (const auto &constant : program.file_constants) {
    double value = 0;
    if (!parseNumber(constant->value, value))
      return Status::error("the program's constant '" + constant->key +
                           "' is '" + constant->value +
                           "', which is no number: compile it again");
    float narrow = static_cast<float>(value);
    bool wide = program.precision == fb::DataType::F64;
    MIXLE_RETURN_IF_ERROR(
        wide ? writer.write(constant->key, &value, sizeof(value))
             : writer.write(constant->key, &narrow, sizeof(narrow)));
  }
  return Status::success();
}

} // namespace

Status saveWeights(RankExecutor &executor, Group &world,
                   const std::string &path, bool *shared) {
  Communicator &communicator = executor.communicator();
  const bool writes = communicator.rank() == 0;
  const CommandContext context{"save_weights", 0, ""};
  std::optional<SafetensorsWriter> writer;
  Status status;
  if (writes) {
    Expected<SafetensorsWriter> created = createWriter(executor, path);
    status = created.status();
    if (created.ok())
      writer.emplace(created.take());
  }
  MIXLE_RETURN_IF_ERROR(agree(communicator, world, context, status, shared));

  for (size_t i = 0; i < executor.numParameters(); ++i) {
    MIXLE_ASSIGN_OR_RETURN(std::vector<char> whole,
                           ParameterGather(executor, i).run());
    // After an error rank 0 goes on receiving, or the others would be left with
    // messages that nobody takes.
    if (writes && status.ok())
      status = writer->write(executor.parameter(i).logical_id, whole.data(),
                             whole.size());
    // Senders do not wait for the receiver: keep them from running ahead.
    MIXLE_RETURN_IF_ERROR(communicator.barrier(world, context));
  }
  if (writes && status.ok())
    status = writeConstants(executor.program().program, *writer);
  if (writes && status.ok())
    status = writer->finish();
  return agree(communicator, world, context, status, shared);
}

} // namespace mixle::runtime
