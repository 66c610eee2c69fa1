//===- TestFiles.h - A folder of one test -----------------------*- C++ -*-===//

#ifndef MIXLE_TEST_RUNTIME_BASE_TESTFILES_H
#define MIXLE_TEST_RUNTIME_BASE_TESTFILES_H

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>

namespace mixle::test {

/// A fresh folder, removed with everything in it.
class Folder {
public:
  Folder() {
    std::string pattern = testing::TempDir() + "mixle-XXXXXX";
    path = mkdtemp(pattern.data());
  }
  Folder(const Folder &) = delete;
  ~Folder() { std::filesystem::remove_all(path); }

  std::string operator/(const std::string &name) const {
    return path + "/" + name;
  }
  /// Writes `content` to `name` and returns its path.
  std::string put(const std::string &name, const std::string &content) const {
    std::ofstream(*this / name, std::ios::binary) << content;
    return *this / name;
  }
  std::string get(const std::string &name) const {
    std::ifstream file(*this / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// How many entries it holds.
  size_t count() const {
    return std::distance(std::filesystem::directory_iterator(path), {});
  }

  std::string path;
};

/// The bytes of a value, as they lie in memory.
template <typename T> std::string bytesOf(const T &value) {
  return {reinterpret_cast<const char *>(&value), sizeof(value)};
}

} // namespace mixle::test

#endif // MIXLE_TEST_RUNTIME_BASE_TESTFILES_H
