//===- RunTesting.h - mixle-run as a process --------------------*- C++ -*-===//

#ifndef MIXLE_TEST_TOOLS_RUN_RUNTESTING_H
#define MIXLE_TEST_TOOLS_RUN_RUNTESTING_H

#include "runtime/base/Json.h"
#include "test/runtime/base/TestFiles.h"
#include "test/runtime/training/SessionTesting.h"

#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

namespace mixle::test {

using runtime::Json;
using runtime::test::SessionSizes;

/// How a command ended.
struct Outcome {
  int status = -1;
  std::string out, err;

  /// Lines of stderr.
  int64_t errorLines() const {
    return std::count(err.begin(), err.end(), '\n');
  }
  bool says(const std::string &phrase) const {
    return err.find(phrase) != std::string::npos;
  }
  /// The value of a "key: value" line of stdout.
  std::string value(const std::string &key) const {
    size_t at = ("\n" + out).find("\n" + key + ": ");
    if (at == std::string::npos)
      return "";
    size_t begin = at + key.size() + 2;
    return out.substr(begin, out.find('\n', begin) - begin);
  }
};

/// Runs a shell command; a minute later it is killed (status 124).
inline Outcome runShell(const std::string &command) {
  Folder folder;
  std::string script = folder.put("script", command);
  std::string line = "timeout -k 5 60 sh " + script + " >" + (folder / "out") +
                     " 2>" + (folder / "err") + " </dev/null";
  int status = std::system(line.c_str());
  Outcome outcome;
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.out = folder.get("out");
  outcome.err = folder.get("err");
  return outcome;
}

inline Outcome mixleRun(const std::string &arguments) {
  return runShell(std::string("exec ") + MIXLE_TEST_RUN + " " + arguments);
}

/// Why there is no mpirun, or "".
inline std::string missingMpi() {
#ifdef MIXLE_TEST_MPIEXEC
  return access(MIXLE_TEST_MPIEXEC, X_OK) == 0
             ? ""
             : std::string(MIXLE_TEST_MPIEXEC) + " is not there";
#else
  return "this build found no MPI, so the mpi communicator is left out";
#endif
}

/// mixle-run under mpirun.
inline Outcome mixleRunMpi(int ranks, const std::string &arguments) {
#ifdef MIXLE_TEST_MPIEXEC
  static const bool isOpenMpi =
      runShell(std::string(MIXLE_TEST_MPIEXEC) + " --version")
          .out.find("open-mpi.org") != std::string::npos;
  std::string launcher = MIXLE_TEST_MPIEXEC;
  // Containers run as root and often forbid reading another process's memory.
  if (isOpenMpi)
    launcher += " --allow-run-as-root --oversubscribe"
                " --mca btl_vader_single_copy_mechanism none";
  return runShell("exec " + launcher + " -n " + std::to_string(ranks) + " " +
                  MIXLE_TEST_RUN + " " + arguments);
#else
  return {};
#endif
}

/// Writes sessionProgram(plan) to `name` and returns its path.
inline std::string putProgram(const Folder &folder, const std::string &name,
                              const std::string &plan,
                              const SessionSizes &sizes) {
  runtime::Status status = runtime::writeProgram(
      runtime::test::sessionProgram(runtime::test::planOf(plan), sizes),
      folder / name);
  EXPECT_TRUE(status.ok()) << status.message();
  return folder / name;
}

/// Sizes of a model of bytes.
constexpr SessionSizes byteSizes = {257, 4, 8};

/// Text of some rows.
inline std::string someText(int64_t bytes) {
  std::string text;
  for (int64_t i = 0; i < bytes; ++i)
    text.push_back(static_cast<char>('a' + (i * i + i / 7) % 26));
  return text;
}

inline std::vector<Json> linesOf(const std::string &text) {
  std::vector<Json> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    lines.push_back(Json::parse(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return lines;
}

} // namespace mixle::test

#endif // MIXLE_TEST_TOOLS_RUN_RUNTESTING_H
