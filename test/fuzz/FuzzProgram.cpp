//===- FuzzProgram.cpp - Damaged programs must be refused -----------------===//
//
// Changes a valid program file at random. As it is, every mutant must be
// refused (the digest is wrong). With its trailer repaired a mutant may load;
// then what loads must be what the verifier promises, and dumping it must be
// safe. Run it under the sanitizers: a crash or a hang is the failure it looks
// for.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Files.h"
#include "runtime/program/Dump.h"
#include "runtime/program/ProgramFile.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

using namespace mixle::runtime;

namespace {

constexpr size_t trailerBytes = 24;

class Mutator {
public:
  Mutator(std::string original, uint64_t seed)
      : original(std::move(original)), random(seed) {}

  /// A program's bytes after one to three changes of its content; the trailer
  /// is the original's.
  std::string next() {
    std::string bytes = original.substr(0, original.size() - trailerBytes);
    for (size_t i = 0, n = 1 + below(3); i < n; ++i)
      change(bytes);
    return bytes + original.substr(original.size() - trailerBytes);
  }

private:
  size_t below(size_t n) { return n == 0 ? 0 : random() % n; }

  /// Positions, of which half lie in the front: the tables of a program with
  /// code are few among the bytes of its kernels.
  size_t position(const std::string &bytes) {
    size_t n = bytes.size();
    return below(2) ? below(n) : below(std::min<size_t>(n, 1 << 14));
  }

  void change(std::string &bytes) {
    if (bytes.size() < 8)
      return;
    // What moves everything behind it is rare: hardly any offset survives it.
    switch (below(16) ? below(4) : 4 + below(2)) {
    case 0: // one bit
      bytes[position(bytes)] ^= static_cast<char>(1 << below(8));
      break;
    case 1: { // a telling word
      static const uint32_t words[] = {0xffffffff, 0,      0x7fffffff,
                                       0x80000000, 1,      0xfffffffe,
                                       0x10000,    1 << 28};
      put(bytes, words[below(std::size(words))]);
      break;
    }
    case 2: // a small number, as offsets and counts are
      put(bytes, static_cast<uint32_t>(below(bytes.size() + 64)));
      break;
    case 4: // cut off
      bytes.resize(8 + below(bytes.size() - 8));
      break;
    case 3: { // one part over another
      size_t from = position(bytes), to = position(bytes);
      size_t n = std::min(below(64), bytes.size() - std::max(from, to));
      std::memmove(&bytes[to], &bytes[from], n);
      break;
    }
    case 5: { // a part taken out or doubled
      size_t at = position(bytes) & ~size_t(3);
      size_t n = std::min<size_t>(4 * (1 + below(16)), bytes.size() - at);
      std::string part = bytes.substr(at, n);
      if (below(2))
        bytes.insert(at, part);
      else
        bytes.erase(at, n);
      break;
    }
    default: // one byte
      bytes[position(bytes)] = static_cast<char>(random());
    }
  }

  void put(std::string &bytes, uint32_t word) {
    if (bytes.size() < 8)
      return;
    size_t at = std::min(position(bytes) & ~size_t(3), bytes.size() - 4);
    std::memcpy(&bytes[at], &word, 4);
  }

  std::string original;
  std::mt19937_64 random;
};

Expected<std::shared_ptr<const LoadedProgram>> load(const std::string &bytes) {
  return parseProgram(reinterpret_cast<const uint8_t *>(bytes.data()),
                      bytes.size(), "mutant");
}

int fail(long mutant, const char *what, const std::string &bytes) {
  std::fprintf(stderr, "mutant %ld (%zu bytes): %s\n", mutant, bytes.size(),
               what);
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2 || argc > 4) {
    std::fprintf(stderr, "usage: %s PROGRAM [COUNT] [SEED]\n", argv[0]);
    return 2;
  }
  long count = argc > 2 ? std::atol(argv[2]) : 2000;
  uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  Expected<std::string> original = readFile(argv[1]);
  if (!original.ok()) {
    std::fprintf(stderr, "%s\n", original.status().message().c_str());
    return 1;
  }
  if (auto valid = load(*original); !valid.ok()) {
    std::fprintf(stderr, "the program is not valid to begin with: %s\n",
                 valid.status().message().c_str());
    return 1;
  }

  Mutator mutator(*original, seed);
  long accepted = 0, unchanged = 0;
  double slowest = 0;
  std::map<std::string, long> reasons;
  for (long i = 0; i < count; ++i) {
    std::string bytes = mutator.next();
    if (bytes == *original) {
      ++unchanged;
      continue;
    }
    if (load(bytes).ok())
      return fail(i, "was accepted with a wrong digest", bytes);
    repairTrailer(bytes);
    auto begin = std::chrono::steady_clock::now();
    auto loaded = load(bytes);
    slowest = std::max(slowest, std::chrono::duration<double>(
                                    std::chrono::steady_clock::now() - begin)
                                    .count());
    if (!loaded.ok()) {
      const std::string text = loaded.status().message();
      if (text.empty() || text.find('\n') != std::string::npos)
        return fail(i, "its message is not one line", bytes);
      // "program 'mutant': it has ..." up to the first name or number.
      std::string reason = text.substr(18);
      ++reasons[reason.substr(0, reason.find_first_of("'0123456789"))];
      continue;
    }
    ++accepted;
    if (!verifyProgram((*loaded)->program).ok())
      return fail(i, "verifies in the file but not in memory", bytes);
    // Dumps take far longer than loading: those of some mutants will do.
    if (accepted % 16 != 1)
      continue;
    if (dumpText(**loaded).empty() ||
        dumpJson(**loaded)
            .dump(-1, ' ', false, Json::error_handler_t::replace)
            .empty())
      return fail(i, "has no dump", bytes);
  }
  std::printf("%ld mutants: all refused as they were; repaired, %ld refused, "
              "%ld accepted, %ld unchanged; slowest %.3f s\n",
              count, count - accepted - unchanged, accepted, unchanged,
              slowest);
  for (const auto &reason : reasons)
    std::printf("%8ld  %s...\n", reason.second, reason.first.c_str());
  return 0;
}
