//===- ProgramFile.h - Writing, loading and checking programs ---*- C++ -*-===//
//
// A program file is the FlatBuffers bytes of runtime/schema/program.fbs, then a
// 16-byte digest of them (xxh3, 128 bits, canonical byte order), then the magic
// "MIXPEND1". Loading checks everything before it uses anything: trailer,
// digest, structure, schema version, and then what the program says
// (verifyProgram). What passes may still be wrong about its kernels: code in a
// program is trusted as an executable is.
//
// The compiled code works on the object form (fb::ProgramT) that flatc
// generates; `mixle_schema` is the CMake target that makes its header.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_RUNTIME_PROGRAM_PROGRAMFILE_H
#define MIXLE_RUNTIME_PROGRAM_PROGRAMFILE_H

#include "mixle/ParallelPlan.h"
#include "mixle/Status.h"
#include "runtime/schema/program_generated.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace mixle::runtime {

/// The version that this runtime writes and reads; see program.fbs.
constexpr int32_t programSchemaVersion = 2;

/// What a caller hands over as an input of an entry: `perRow` elements of
/// `dtype` for every row.
struct GivenInput {
  std::string_view role;
  fb::DataType dtype;
  int64_t perRow;
};

/// A program that passed every check.
struct LoadedProgram {
  fb::ProgramT program;
  ParallelPlan plan;
  /// xxh3-128 of the FlatBuffers bytes.
  std::array<uint8_t, 16> digest = {};
  uint64_t fileBytes = 0;
  /// Where it came from, for messages.
  std::string path;

  bool isTraining() const { return program.kind == "training"; }
  /// What the ranks at a coordinate along pp run.
  const fb::RankClassT &rankClass(int64_t stage = 0) const {
    return *program.classes[program.classes.size() == 1 ? 0 : stage];
  }
  /// Null when there is none.
  const fb::EntryT *findEntry(std::string_view name) const;
  /// Refuses a program whose entry `name` (if there is one) takes anything else
  /// than `given`. Commands read their inputs as far as the program says, so
  /// whoever hands over memory asks first.
  Status expectInputs(std::string_view name,
                      std::initializer_list<GivenInput> given) const;
  Status expectInputs(const fb::RankClassT &rankClass, const fb::EntryT &entry,
                      std::initializer_list<GivenInput> given) const;
  /// The value of a config key; empty when there is none.
  std::string config(std::string_view key) const;
};

/// The plan that the program states (not validated).
ParallelPlan planOf(const fb::ProgramT &program);

/// All that can be checked without running: numbers of the plan, indices,
/// sizes and offsets without overflow, the arguments of every command against
/// what it will access, updates against collectives. One message, for the
/// first thing that is wrong.
Status verifyProgram(const fb::ProgramT &program);

/// The bytes of a program file. Sets nothing: schema_version must be the
/// caller's programSchemaVersion.
std::string serializeProgram(const fb::ProgramT &program);

/// Verifies, then writes the file whole or not at all.
Status writeProgram(const fb::ProgramT &program, const std::string &path);

/// Parses and verifies the bytes of a program file; `path` names them in
/// messages. Safe on any bytes; memory is bounded by a small multiple of
/// `size`.
Expected<std::shared_ptr<const LoadedProgram>>
parseProgram(const uint8_t *data, uint64_t size, const std::string &path);

/// Reads and parses a file.
Expected<std::shared_ptr<const LoadedProgram>>
loadProgram(const std::string &path);

/// Replaces the trailer of `bytes` (at least 24) by a right one: for tools that
/// change a program's bytes, as the fuzzer does.
void repairTrailer(std::string &bytes);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_PROGRAM_PROGRAMFILE_H
