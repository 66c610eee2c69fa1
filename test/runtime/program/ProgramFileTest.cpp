//===- ProgramFileTest.cpp - Files of programs, good and bad --------------===//

#include "runtime/base/Files.h"
#include "test/runtime/program/TinyPrograms.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <random>

using namespace mixle::runtime;
using namespace mixle::runtime::test;

namespace {

ParallelPlan planOf(const char *text) { return *ParallelPlan::parseText(text); }

std::string tinyBytes() {
  return serializeProgram(tinyTrainingProgram(planOf("dp_shard=2,tp=2")));
}

/// The error of parsing bytes; empty when they load.
std::string errorOf(const std::string &bytes) {
  auto loaded = parseProgram(reinterpret_cast<const uint8_t *>(bytes.data()),
                             bytes.size(), "p");
  return loaded.ok() ? std::string() : loaded.status().message();
}

TEST(ProgramFile, writesAndLoadsWhatWasWritten) {
  std::string path = testing::TempDir() + "/mixle_program_file_test.fbs";
  fb::ProgramT program = tinyTrainingProgram(planOf("dp_replicate=2,tp=2"));
  ASSERT_TRUE(writeProgram(program, path).ok());
  auto loaded = loadProgram(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ((*loaded)->plan, planOf("dp_replicate=2,tp=2"));
  EXPECT_EQ((*loaded)->path, path);
  // Packing what was loaded gives the same bytes: nothing was lost.
  EXPECT_EQ(serializeProgram((*loaded)->program), *readFile(path));
  EXPECT_NE((*loaded)->findEntry("step"), nullptr);
  EXPECT_EQ((*loaded)->findEntry("stop"), nullptr);
  std::remove(path.c_str());
}

TEST(ProgramFile, isNotWrittenWhenItIsWrong) {
  std::string path = testing::TempDir() + "/mixle_program_wrong.fbs";
  fb::ProgramT program = tinyTrainingProgram(planOf("tp=2"));
  program.kind = "inference";
  Status status = writeProgram(program, path);
  EXPECT_NE(status.message().find("kind is 'inference'"), std::string::npos);
  EXPECT_FALSE(isRegularFile(path));
}

TEST(ProgramFile, namesAFileThatIsNotThere) {
  auto loaded = loadProgram("/nowhere/at/all.fbs");
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.status().message().find("/nowhere/at/all.fbs"),
            std::string::npos);
}

// B103: short or wild files.
TEST(ProgramFile, refusesShortFiles) {
  for (size_t size : {0, 1, 2, 3, 4, 5, 6, 7, 8, 31})
    EXPECT_NE(errorOf(std::string(size, '\xff')).find("too short"),
              std::string::npos)
        << size;
  EXPECT_NE(errorOf(std::string(100, '\xff')).find("does not end as"),
            std::string::npos);
}

TEST(ProgramFile, refusesEveryCut) {
  std::string bytes = tinyBytes();
  for (size_t size = 0; size < bytes.size(); ++size)
    ASSERT_NE(errorOf(bytes.substr(0, size)), "") << size;
}

TEST(ProgramFile, refusesEveryFlippedByte) {
  std::string bytes = tinyBytes();
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] ^= 0x10;
    ASSERT_NE(errorOf(bytes), "") << i;
    bytes[i] ^= 0x10;
  }
  EXPECT_EQ(errorOf(bytes), "");
}

TEST(ProgramFile, survivesEveryReplacedWordBehindARightDigest) {
  const std::string original = tinyBytes();
  size_t content = original.size() - 24;
  size_t refused = 0;
  for (size_t i = 0; i + 4 <= content; i += 4)
    for (uint32_t word : {0xffffffffu, 0u, 0x7fffffffu}) {
      std::string bytes = original;
      std::memcpy(&bytes[i], &word, 4);
      repairTrailer(bytes);
      refused += !errorOf(bytes).empty();
    }
  // What is still accepted differs in numbers that no check can know to be
  // wrong, in names, or not at all.
  EXPECT_GT(refused, content / 4);
}

TEST(ProgramFile, refusesAnotherIdentifier) {
  std::string bytes = tinyBytes();
  bytes.replace(4, 4, "MIXQ");
  repairTrailer(bytes);
  EXPECT_NE(errorOf(bytes).find("identifier is not \"MIXP\""),
            std::string::npos);
}

TEST(ProgramFile, refusesDamageByName) {
  std::string bytes = tinyBytes();
  bytes[100] ^= 1;
  EXPECT_NE(errorOf(bytes).find("does not match its digest"),
            std::string::npos);
  bytes[0] = bytes[1] = bytes[2] = '\xff';
  repairTrailer(bytes);
  EXPECT_NE(errorOf(bytes).find("structure is damaged"), std::string::npos);
}

TEST(ProgramFile, refusesOtherVersionsNamingBoth) {
  for (int32_t version : {0, programSchemaVersion + 1}) {
    fb::ProgramT program = tinyTrainingProgram(planOf("tp=1"));
    program.schema_version = version;
    std::string error = errorOf(serializeProgram(program));
    EXPECT_NE(error.find("schema version " + std::to_string(version)),
              std::string::npos)
        << error;
    EXPECT_NE(
        error.find("reads version " + std::to_string(programSchemaVersion)),
        std::string::npos)
        << error;
  }
}

TEST(ProgramFile, loadsFromAnyAddress) {
  std::string bytes = "x" + tinyBytes();
  auto loaded =
      parseProgram(reinterpret_cast<const uint8_t *>(bytes.data()) + 1,
                   bytes.size() - 1, "p");
  EXPECT_TRUE(loaded.ok()) << loaded.status().message();
}

TEST(ProgramFile, refusesATinyFileThatUnpacksToAHugeProgram) {
  // Every level's list names one table many times.
  flatbuffers::FlatBufferBuilder builder;
  auto entry = fb::CreateEntryDirect(builder, std::string(20000, 'x').c_str());
  std::vector<flatbuffers::Offset<fb::Entry>> entries(400, entry);
  auto body =
      fb::CreateRankClassDirect(builder, 0, 1, 1, nullptr, 0, 0, &entries);
  std::vector<flatbuffers::Offset<fb::RankClass>> bodies(200, body);
  auto classes = builder.CreateVector(bodies);
  fb::ProgramBuilder root(builder);
  root.add_schema_version(programSchemaVersion);
  root.add_classes(classes);
  builder.Finish(root.Finish(), fb::ProgramIdentifier());
  std::string bytes(reinterpret_cast<const char *>(builder.GetBufferPointer()),
                    builder.GetSize());
  bytes.append(24, '\0');
  repairTrailer(bytes);
  std::string error = errorOf(bytes);
  EXPECT_TRUE(error.find("structure is damaged") != std::string::npos ||
              error.find("used so often") != std::string::npos)
      << error;
}

} // namespace
