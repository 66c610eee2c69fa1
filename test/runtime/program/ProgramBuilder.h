//===- ProgramBuilder.h - Programs made by hand -----------------*- C++ -*-===//

#ifndef MIXLE_TEST_RUNTIME_PROGRAM_PROGRAMBUILDER_H
#define MIXLE_TEST_RUNTIME_PROGRAM_PROGRAMBUILDER_H

#include "runtime/program/ProgramFile.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace mixle::runtime::test {

// Scalars.
fb::Scalar constant(int64_t a);
fb::Scalar rows(int64_t a);
fb::Scalar rowStart(int64_t a);
fb::Scalar offset(fb::Axis axis, int64_t a);
fb::Scalar owned(fb::Axis axis, int64_t part, int64_t all);
fb::Scalar coordinate(fb::Axis axis, int64_t a, int64_t b);

using CommandList = std::vector<std::unique_ptr<fb::CommandT>>;

/// Appends commands to a list.
class CommandWriter {
public:
  explicit CommandWriter(CommandList &list) : list(list) {}

  fb::CommandT &call(const std::string &function, std::vector<uint32_t> buffers,
                     std::vector<fb::Scalar> scalars = {},
                     std::vector<double> floats = {},
                     const std::string &text = "");
  fb::CommandT &launch(const std::string &kernel, std::vector<uint32_t> buffers,
                       std::vector<fb::Scalar> scalars = {});
  fb::CommandT &collective(const std::string &name,
                           std::vector<uint32_t> buffers,
                           std::vector<fb::Scalar> scalars, fb::DataType dtype,
                           fb::Combine combine, std::vector<fb::Axis> axes,
                           std::vector<uint32_t> updates);
  fb::CommandT &copy(uint32_t from, uint32_t to, fb::Scalar bytes);
  fb::CommandT &fill(uint32_t to, fb::Scalar bytes);
  /// The writer of the loop's body; valid while the list lives.
  CommandWriter loop(int64_t iterations);
  fb::CommandT &retry(uint32_t flag);
  fb::CommandT &commitIf(uint32_t flag, const std::string &reason);

private:
  fb::CommandT &append(fb::CommandKind kind);
  CommandList &list;
};

/// A program of one rank class; buffers are placed one after another.
class ProgramBuilder {
public:
  ProgramBuilder(const std::string &kind, const ParallelPlan &plan,
                 int64_t maxRows);

  uint32_t buffer(const std::string &name, fb::BufferKind kind,
                  fb::DataType dtype, int64_t fixed, int64_t perRow = 0,
                  int32_t parameter = -1, const std::string &slot = "");
  /// Also makes its buffer; `parameter.shape` and the cuts are the caller's.
  uint32_t parameter(const fb::ParameterT &parameter);
  uint32_t update(const std::string &id, fb::Payload payload,
                  fb::Collective collective, std::vector<fb::Axis> axes,
                  fb::Order order, fb::DataType dtype, int64_t elements);
  CommandWriter entry(const std::string &name);
  void input(const std::string &entry, const std::string &role,
             uint32_t buffer);
  void output(const std::string &entry, const std::string &role,
              uint32_t buffer);

  /// The axes of the plan with more than one rank.
  std::vector<fb::Axis> activeAxes() const;
  int64_t axisSize(fb::Axis axis) const;

  /// Adds the entries that the kind needs and that were not made, empty; the
  /// arenas' sizes were kept up to date.
  fb::ProgramT finish();

private:
  fb::EntryT &entryNamed(const std::string &name);

  ParallelPlan plan;
  fb::ProgramT program;
  fb::RankClassT &body();
};

/// The program as loading its file gives it; a failed check fails the test that
/// dereferences the result.
Expected<std::shared_ptr<const LoadedProgram>>
loadBytes(const fb::ProgramT &program);

} // namespace mixle::runtime::test

#endif // MIXLE_TEST_RUNTIME_PROGRAM_PROGRAMBUILDER_H
