//===- VerifyTest.cpp - Every refusal of the verifier, by its message -----===//

#include "test/runtime/program/TinyPrograms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <elf.h>
#include <functional>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

ParallelPlan plan() { return *ParallelPlan::parseText("dp_shard=2,tp=2"); }

/// What the verifier says of the tiny program after `change`.
std::string errorAfter(const std::function<void(fb::ProgramT &)> &change) {
  fb::ProgramT program = tinyTrainingProgram(plan());
  change(program);
  return verifyProgram(program).message();
}

fb::BufferT &bufferNamed(fb::ProgramT &program, const std::string &name) {
  for (auto &buffer : program.classes[0]->buffers)
    if (buffer->name == name)
      return *buffer;
  throw std::runtime_error("no buffer " + name);
}

#define EXPECT_REFUSED(text, ...)                                              \
  EXPECT_PRED_FORMAT2(testing::IsSubstring, text,                              \
                      errorAfter([](fb::ProgramT &p) { __VA_ARGS__; }))

TEST(Verify, acceptsTheTinyProgramUnderManyPlans) {
  for (const char *text :
       {"tp=1", "tp=2", "tp=3", "tp=8", "dp_replicate=3", "dp_shard=4",
        "dp_replicate=2,dp_shard=3,tp=5,microbatches=4"}) {
    Status status =
        verifyProgram(tinyTrainingProgram(*ParallelPlan::parseText(text)));
    EXPECT_TRUE(status.ok()) << text << ": " << status.message();
  }
}

TEST(Verify, header) {
  EXPECT_REFUSED("schema version 99", p.schema_version = 99);
  EXPECT_REFUSED("kind is 'both'", p.kind = "both");
  EXPECT_REFUSED("numerics are 'exact'", p.numerics = "exact");
  EXPECT_REFUSED("precision is i32", p.precision = fb::DataType::I32);
  EXPECT_REFUSED("batch 0 and sequence 4", p.batch = 0);
  EXPECT_REFUSED("states no plan", p.plan.reset());
  EXPECT_REFUSED("tp must be an exact positive integer", p.plan->tp = 0);
  EXPECT_REFUSED("dp_shard must be an exact positive integer",
                 p.plan->dp_shard = -2);
  EXPECT_REFUSED("expected at most 1048576", p.plan->cp = 1 << 30);
  EXPECT_REFUSED("covers 3 rank(s) from rank 0; expected stage -1 and 4", p.classes[0]->rank_count = 3);
  EXPECT_REFUSED("it has 0 rank classes", p.classes.clear());
}

TEST(Verify, parameters) {
  EXPECT_REFUSED("no logical_id", p.parameters[0]->logical_id = "");
  EXPECT_REFUSED("parameter 'table': its type is i64",
                 p.parameters[0]->dtype = fb::DataType::I64);
  EXPECT_REFUSED("two parameters have the logical_id 'table'",
                 p.parameters.push_back(
                     std::make_unique<fb::ParameterT>(*p.parameters[0])));
  EXPECT_REFUSED("has a size below 1", p.parameters[0]->shape[0] = 0);
  EXPECT_REFUSED("too many elements",
                 p.parameters[0]->shape = {int64_t(1) << 40, int64_t(1) << 40});
  EXPECT_REFUSED("file_shape [7, 4] has not the elements",
                 p.parameters[0]->file_shape[1] = 4);
  EXPECT_REFUSED("shard_dim is 2", p.parameters[0]->shard_dim = 2);
  EXPECT_REFUSED("shard_size is 3, but 2 rank(s) along tp have to cover 7",
                 p.parameters[0]->shard_size = 3);
  EXPECT_REFUSED("dp_shard cuts it twice",
                 p.parameters[0]->shard_axis = fb::Axis::DpShard);
  EXPECT_REFUSED("flat_shard is 5, but 2 rank(s) along dp_shard have to cover "
                 "12 elements",
                 p.parameters[0]->flat_shard = 5);
  EXPECT_REFUSED("shard_axis is no axis",
                 p.parameters[0]->shard_axis = static_cast<fb::Axis>(9));
  EXPECT_REFUSED("init is 7",
                 p.parameters[0]->init = static_cast<fb::InitKind>(7));
  EXPECT_REFUSED("not finite", p.parameters[0]->init_b = HUGE_VAL);
  EXPECT_REFUSED("unit_index is -3", p.parameters[0]->unit_index = -3);
  EXPECT_REFUSED("max_blocks is 0", p.parameters[0]->max_blocks = 0);
}

TEST(Verify, updates) {
  EXPECT_REFUSED("blank node_id", p.updates[0]->node_id = " ");
  EXPECT_REFUSED("update 'amax': it claims to be exact with collective "
                 "all_reduce",
                 p.updates[0]->exact = true);
  EXPECT_REFUSED("evidence is all or nothing",
                 p.updates[0]->numerics_sample_count = 4);
  EXPECT_REFUSED("evidence is all or nothing",
                 p.updates[0]->determinism_observed = true);
  EXPECT_REFUSED("needs a sample count",
                 p.updates[0]->numerics_evidence_id = "run 1");
  EXPECT_REFUSED("finite, non-negative errors",
                 p.updates[0]->numerics_evidence_id = "run 1";
                 p.updates[0]->numerics_sample_count = 2;
                 p.updates[0]->maximum_relative_error = -1);
  EXPECT_REFUSED("payload (9)",
                 p.updates[0]->payload = static_cast<fb::Payload>(9));
  EXPECT_REFUSED("axis dp_shard occurs twice",
                 p.updates[0]->mesh_axes.push_back(fb::Axis::DpShard));
  EXPECT_REFUSED("negative number of elements",
                 p.updates[0]->elements_per_row = -1);
}

TEST(Verify, buffers) {
  EXPECT_REFUSED("max_rows is 0", p.classes[0]->max_rows = 0);
  EXPECT_REFUSED("kind (77)",
                 bufferNamed(p, "acc").kind = static_cast<fb::BufferKind>(77));
  EXPECT_REFUSED("buffer 'acc': its name is empty or another buffer's",
                 bufferNamed(p, "amax").name = "acc");
  EXPECT_REFUSED("is negative or too large", bufferNamed(p, "acc").fixed = -1);
  EXPECT_REFUSED("is negative or too large",
                 bufferNamed(p, "ids").per_row = INT64_MAX / 2);
  EXPECT_REFUSED("not within the persistent arena",
                 bufferNamed(p, "acc").fixed = 1 << 20);
  EXPECT_REFUSED("or not at a multiple of 64",
                 bufferNamed(p, "acc").offset += 8);
  EXPECT_REFUSED("not within the scratch arena",
                 bufferNamed(p, "gradient").offset = -64);
  EXPECT_REFUSED("scratch arena has 1099511627776 bytes, but its buffers end",
                 p.classes[0]->scratch_bytes = int64_t(1) << 40);
  EXPECT_REFUSED("persistent buffers 'amax' and 'acc' overlap",
                 bufferNamed(p, "amax").offset = bufferNamed(p, "acc").offset);
  EXPECT_REFUSED("but has the offset 0", bufferNamed(p, "ids").offset = 0);
  EXPECT_REFUSED("of rows and of a fixed part",
                 bufferNamed(p, "ids").fixed = 4);
  EXPECT_REFUSED("belongs to parameter 4", bufferNamed(p, "acc").parameter = 4);
  EXPECT_REFUSED("has the slot 'first'",
                 bufferNamed(p, "table").slot = "first");
  EXPECT_REFUSED("does not say whose", bufferNamed(p, "table").parameter = -1);
  EXPECT_REFUSED("has no slot", bufferNamed(p, "table.momentum").slot = "");
  EXPECT_REFUSED(
      "its size depends on rows", bufferNamed(p, "units").per_row = 0;
      bufferNamed(p, "step").per_row = 1; bufferNamed(p, "step").fixed = 0);
  EXPECT_REFUSED("holds 5 elements, but a rank's part of parameter 'table' "
                 "has 6",
                 bufferNamed(p, "table").fixed = 5);
  EXPECT_REFUSED("holds the same slot 'unit'",
                 bufferNamed(p, "step").slot = "unit");
  EXPECT_REFUSED("it has 1 parameters, but buffers for 0",
                 bufferNamed(p, "table").kind = fb::BufferKind::Accumulator);
}

TEST(Verify, entries) {
  EXPECT_REFUSED("has no entry 'reset'", p.classes[0]->entries[1]->name = "x");
  EXPECT_REFUSED("two entries are named 'reset'",
                 p.classes[0]->entries[2]->name = "reset");
  EXPECT_REFUSED("has no entry 'estimate'", p.kind = "estimation");
  auto &&accumulate = [](fb::ProgramT &p) -> fb::EntryT & {
    return *p.classes[0]->entries[2];
  };
  EXPECT_EQ(errorAfter([&](fb::ProgramT &p) {
              accumulate(p).inputs[1]->role = "tokens";
            }),
            "entry 'accumulate': input 'tokens': its role is empty or another "
            "one's");
  EXPECT_EQ(errorAfter([&](fb::ProgramT &p) {
              accumulate(p).inputs[1]->buffer = 1000;
            }),
            "entry 'accumulate': input 'features' is bound to buffer 1000 of "
            "23");
  EXPECT_EQ(
      errorAfter([&](fb::ProgramT &p) { accumulate(p).inputs[1]->buffer = 0; }),
      "entry 'accumulate': input 'features' is bound to buffer 'table' "
      "of kind parameter");
  EXPECT_EQ(errorAfter(
                [&](fb::ProgramT &p) { accumulate(p).inputs[1]->per_row = 3; }),
            "entry 'accumulate': input 'features' has 3 f32 a row, but its "
            "buffer 'features' has 12 f32");
  EXPECT_EQ(errorAfter([&](fb::ProgramT &p) { accumulate(p).inputs.clear(); }),
            "entry 'accumulate': command 1 (call accumulate_scatter_f32): it "
            "uses buffer 'ids', which is no input of this entry");
}

//===----------------------------------------------------------------------===//
// Code objects
//===----------------------------------------------------------------------===//

/// The least that the verifier takes for a shared object.
std::vector<uint8_t>
smallElf(const std::function<void(Elf64_Ehdr &, Elf64_Phdr &)> &change) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_phoff = sizeof(header);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  Elf64_Phdr segment = {};
  segment.p_type = PT_LOAD;
  segment.p_filesz = sizeof(header) + sizeof(segment);
  change(header, segment);
  std::vector<uint8_t> image(sizeof(header) + sizeof(segment));
  std::memcpy(image.data(), &header, sizeof(header));
  std::memcpy(image.data() + sizeof(header), &segment, sizeof(segment));
  return image;
}

std::string
codeError(const std::function<void(Elf64_Ehdr &, Elf64_Phdr &)> &change,
          const std::string &kernel = "kernel_0") {
  return errorAfter([&](fb::ProgramT &p) {
    p.kernels = {kernel};
    p.code.push_back(std::make_unique<fb::CodeT>());
    p.code[0]->target = "x86_64-linux-gnu";
    p.code[0]->elf = smallElf(change);
  });
}

TEST(Verify, code) {
  EXPECT_EQ(codeError([](auto &, auto &) {}), "");
  EXPECT_EQ(codeError([](auto &, auto &) {}, "0kernel"),
            "kernel name '0kernel' is no symbol");
  EXPECT_EQ(errorAfter([](fb::ProgramT &p) { p.kernels = {"k"}; }),
            "it has kernels but no code object");
  EXPECT_EQ(codeError([](Elf64_Ehdr &h, auto &) { h.e_ident[0] = 0; }),
            "code object 0: it is no ELF file");
  EXPECT_EQ(codeError([](Elf64_Ehdr &h, auto &) { h.e_machine = EM_AARCH64; }),
            "code object 0: it is an ELF file of another machine than x86-64 "
            "with 64 bits");
  EXPECT_EQ(codeError([](Elf64_Ehdr &h, auto &) { h.e_type = ET_EXEC; }),
            "code object 0: it is an ELF file of type 2; expected a shared "
            "object");
  EXPECT_EQ(codeError([](Elf64_Ehdr &h, auto &) { h.e_phoff = 1 << 20; }),
            "code object 0: its program headers lie outside it");
  EXPECT_EQ(codeError([](Elf64_Ehdr &h, auto &) { h.e_phnum = 9; }),
            "code object 0: its program headers lie outside it");
  EXPECT_EQ(codeError([](auto &, Elf64_Phdr &s) { s.p_filesz = UINT64_MAX; }),
            "code object 0: its segment 0 lies outside it");
  EXPECT_EQ(errorAfter([](fb::ProgramT &p) {
              p.code.push_back(std::make_unique<fb::CodeT>());
              p.code[0]->target = "aarch64-linux-gnu";
            }),
            "code object 0 is for target 'aarch64-linux-gnu'; this runtime "
            "executes x86_64 code");
}

} // namespace
