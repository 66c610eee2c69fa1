//===- ProgramFile.cpp - Writing and loading programs ---------------------===//

#include "runtime/program/ProgramFile.h"
#include "runtime/base/Files.h"
#include "runtime/program/FileStructure.h"
#include "runtime/program/Names.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <new>

namespace mixle::runtime {

static constexpr size_t digestBytes = 16;
static constexpr char trailerMagic[] = "MIXPEND1";
static constexpr size_t magicBytes = sizeof(trailerMagic) - 1;
static constexpr size_t trailerBytes = digestBytes + magicBytes;

static std::array<uint8_t, digestBytes> digestOf(const void *data,
                                                 size_t size) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
  std::array<uint8_t, digestBytes> digest;
  std::memcpy(digest.data(), canonical.digest, digestBytes);
  return digest;
}

const fb::EntryT *LoadedProgram::findEntry(std::string_view name) const {
  for (const auto &entry : rankClass().entries)
    if (entry->name == name)
      return entry.get();
  return nullptr;
}

Status
LoadedProgram::expectInputs(std::string_view name,
                            std::initializer_list<GivenInput> given) const {
  for (const auto &rankClass : program.classes)
    for (const auto &entry : rankClass->entries)
      if (entry->name == name)
        MIXLE_RETURN_IF_ERROR(expectInputs(*rankClass, *entry, given));
  return Status::success();
}

Status
LoadedProgram::expectInputs(const fb::RankClassT &rankClass,
                            const fb::EntryT &entry,
                            std::initializer_list<GivenInput> given) const {
  for (const auto &binding : entry.inputs) {
    const fb::BufferT &buffer = *rankClass.buffers[binding->buffer];
    const GivenInput *match = nullptr;
    for (const GivenInput &input : given)
      if (input.role == binding->role)
        match = &input;
    if (match && match->dtype == buffer.dtype &&
        match->perRow == buffer.per_row && buffer.fixed == 0)
      continue;
    return Status::error(
        "program '" + path + "': entry '" + entry.name + "' takes " +
        std::to_string(buffer.fixed) + " + " + std::to_string(buffer.per_row) +
        " x rows " + nameOf(buffer.dtype) + " of '" + binding->role + "'; " +
        (match ? std::to_string(match->perRow) + " x rows " +
                     nameOf(match->dtype) + " are"
               : std::string("nothing of the kind is")) +
        " given");
  }
  return Status::success();
}

std::string LoadedProgram::config(std::string_view key) const {
  for (const auto &attribute : program.config)
    if (attribute->key == key)
      return attribute->value;
  return std::string();
}

ParallelPlan planOf(const fb::ProgramT &program) {
  ParallelPlan plan;
  if (!program.plan)
    return plan;
  const fb::PlanT &stored = *program.plan;
  plan.dpReplicate = stored.dp_replicate;
  plan.dpShard = stored.dp_shard;
  plan.tp = stored.tp;
  plan.pp = stored.pp;
  plan.cp = stored.cp;
  plan.ep = stored.ep;
  plan.etp = stored.etp;
  plan.microbatches = stored.microbatches;
  plan.gradientAccumulationSteps = stored.gradient_accumulation_steps;
  return plan;
}

std::string serializeProgram(const fb::ProgramT &program) {
  flatbuffers::FlatBufferBuilder builder(1 << 16);
  builder.Finish(fb::Program::Pack(builder, &program), fb::ProgramIdentifier());
  std::string bytes(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                    builder.GetSize());
  bytes.append(trailerBytes, '\0');
  repairTrailer(bytes);
  return bytes;
}

void repairTrailer(std::string &bytes) {
  size_t content = bytes.size() - trailerBytes;
  auto digest = digestOf(bytes.data(), content);
  std::memcpy(&bytes[content], digest.data(), digestBytes);
  std::memcpy(&bytes[content + digestBytes], trailerMagic, magicBytes);
}

/// A message on one line, whatever the names in a damaged file are.
static Status printable(const Status &status) {
  if (status.ok())
    return status;
  std::string text = status.message();
  for (char &c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      c = '?';
  return Status::error(text);
}

Status writeProgram(const fb::ProgramT &program, const std::string &path) {
  MIXLE_RETURN_IF_ERROR(
      verifyProgram(program).withContext("refusing to write '" + path + "'"));
  std::string bytes = serializeProgram(program);
  MIXLE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  MIXLE_RETURN_IF_ERROR(file.write(bytes));
  return file.commit();
}

/// Everything before the meaning of the content.
static Expected<const fb::Program *> checkStructure(const uint8_t *data,
                                                    uint64_t size) {
  if (size < trailerBytes + 8)
    return Status::error("it is " + std::to_string(size) +
                         " bytes long, too short for a program file");
  if (size >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return Status::error("it is " + std::to_string(size) +
                         " bytes long; program files end below 2 GiB");
  size_t content = size - trailerBytes;
  if (std::memcmp(data + content + digestBytes, trailerMagic, magicBytes) != 0)
    return Status::error("it does not end as a program file does: it is "
                         "another kind of file, or cut short");
  auto digest = digestOf(data, content);
  if (std::memcmp(data + content, digest.data(), digestBytes) != 0)
    return Status::error("its content does not match its digest: it is "
                         "damaged; compile it again");
  if (!fb::ProgramBufferHasIdentifier(data))
    return Status::error("its identifier is not \"" +
                         std::string(fb::ProgramIdentifier()) +
                         "\": it is not a program");
  // No table takes fewer than 8 bytes, of which 4 point at it.
  flatbuffers::Verifier::Options options;
  options.max_depth = 16;
  options.max_tables = static_cast<flatbuffers::uoffset_t>(content / 8 + 1);
  flatbuffers::Verifier verifier(data, content, options);
  if (!fb::VerifyProgramBuffer(verifier))
    return Status::error("its structure is damaged (offsets or lengths point "
                         "outside it)");
  const fb::Program *root = fb::GetProgram(data);
  MIXLE_RETURN_IF_ERROR(checkFileStructure(*root, content));
  return root;
}

Expected<std::shared_ptr<const LoadedProgram>>
parseProgram(const uint8_t *data, uint64_t size, const std::string &path) {
  const std::string context = "program '" + path + "'";
  try {
    // The format's numbers are read where they lie.
    std::vector<uint64_t> aligned;
    if (reinterpret_cast<uintptr_t>(data) % alignof(uint64_t) != 0) {
      aligned.resize(size / sizeof(uint64_t) + 1);
      std::memcpy(aligned.data(), data, size);
      data = reinterpret_cast<const uint8_t *>(aligned.data());
    }
    Expected<const fb::Program *> root = checkStructure(data, size);
    if (!root.ok())
      return root.status().withContext(context);
    MIXLE_RETURN_IF_ERROR(
        checkSchemaVersion((*root)->schema_version()).withContext(context));
    auto loaded = std::make_shared<LoadedProgram>();
    (*root)->UnPackTo(&loaded->program);
    MIXLE_RETURN_IF_ERROR(
        printable(verifyProgram(loaded->program)).withContext(context));
    loaded->plan = planOf(loaded->program);
    std::memcpy(loaded->digest.data(), data + size - trailerBytes, digestBytes);
    loaded->fileBytes = size;
    loaded->path = path;
    return std::shared_ptr<const LoadedProgram>(std::move(loaded));
  } catch (const std::bad_alloc &) {
    return Status::error(context + ": out of memory while reading its " +
                         std::to_string(size) + " bytes");
  }
}

Expected<std::shared_ptr<const LoadedProgram>>
loadProgram(const std::string &path) {
  Expected<std::string> bytes = readFile(path, FLATBUFFERS_MAX_BUFFER_SIZE);
  if (!bytes.ok())
    return bytes.status().withContext("program '" + path + "'");
  return parseProgram(reinterpret_cast<const uint8_t *>(bytes->data()),
                      bytes->size(), path);
}

} // namespace mixle::runtime
