//===- Dump.h - Programs as a person reads them -----------------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_PROGRAM_DUMP_H
#define MIXLE_RUNTIME_PROGRAM_DUMP_H

#include "runtime/base/Json.h"
#include "runtime/program/ProgramFile.h"

#include <string>

namespace mixle::runtime {

/// Everything that was decided, as text: what the program is, its plan and
/// granules, memory, how parameters lie, every update with its exactness and
/// payload, and each entry's commands with the names of buffers.
std::string dumpText(const LoadedProgram &program);

/// The same as one JSON object, with the keys of the schema; enums are names
/// (runtime/program/Names.h), buffers and updates of commands are names,
/// scalars as in the text. Code objects are given by their size.
Json dumpJson(const LoadedProgram &program);

/// A scalar as the dump writes it: "384", "rows*64", "row_start*64",
/// "tp*32" (the coordinate times 32), "owned(257-tp*129, 129)" (clamped to
/// 0..129), "tp*2+1".
std::string scalarText(const fb::Scalar &scalar);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_PROGRAM_DUMP_H
