//===- FileStructure.h - Checks before a file is unpacked -------*- C++ -*-===//

#ifndef MIXLE_RUNTIME_PROGRAM_FILESTRUCTURE_H
#define MIXLE_RUNTIME_PROGRAM_FILESTRUCTURE_H

#include "mixle/Status.h"
#include "runtime/schema/program_generated.h"

#include <cstdint>

namespace mixle::runtime {

/// What the FlatBuffers verifier leaves unchecked: that vectors of numbers are
/// aligned, that texts are UTF-8, and that parts of the file are not used so
/// often that unpacking them would take much more memory than the file's
/// `bytes`.
Status checkFileStructure(const fb::Program &program, uint64_t bytes);

/// Refuses another version, naming both.
Status checkSchemaVersion(int32_t version);

} // namespace mixle::runtime

#endif // MIXLE_RUNTIME_PROGRAM_FILESTRUCTURE_H
