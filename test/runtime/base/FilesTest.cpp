//===- FilesTest.cpp
//--------------------------------------------------------===//

#include "runtime/base/Files.h"
#include "test/runtime/base/TestFiles.h"

#include <cerrno>
#include <csignal>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mixle::runtime;
using mixle::test::Folder;

TEST(ReadFile, WholeContentOrACause) {
  Folder folder;
  std::string path = folder.put("a", std::string("x\0y\n", 4));
  EXPECT_EQ(*readFile(path), std::string("x\0y\n", 4));
  EXPECT_EQ(*readFile(folder.put("empty", "")), "");
  EXPECT_EQ(readFile(folder / "none").status().message(),
            "cannot read '" + folder / "none" + "': No such file or directory");
  EXPECT_EQ(readFile(folder.path).status().message(),
            "cannot read '" + folder.path + "': Is a directory");
  EXPECT_TRUE(readFile(path, 4));
  EXPECT_EQ(readFile(path, 3).status().message(),
            "cannot read '" + path + "': it has 4 bytes, expected at most 3");
  // An endless device is stopped at the limit.
  EXPECT_FALSE(readFile("/dev/zero", 1 << 20));
}

TEST(MappedFile, MapsMovesAndRefuses) {
  Folder folder;
  auto file = MappedFile::open(folder.put("a", "hello"));
  ASSERT_TRUE(file) << file.status().message();
  MappedFile moved = file.take();
  EXPECT_EQ(
      std::string(reinterpret_cast<const char *>(moved.data()), moved.size()),
      "hello");
  EXPECT_EQ(moved.path(), folder / "a");
  auto empty = MappedFile::open(folder.put("b", ""));
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->size(), 0u);
  EXPECT_EQ(MappedFile::open(folder.path).status().message(),
            "cannot read '" + folder.path +
                "': it is a directory, expected a regular file");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(folder / "pipe").status().message(),
            "cannot read '" + folder / "pipe" +
                "': it is a device or pipe, expected a regular file");
  EXPECT_FALSE(MappedFile::open(folder / "none"));
}

TEST(AtomicFile, AppearsAtCommit) {
  Folder folder;
  auto file = AtomicFile::create(folder / "out");
  ASSERT_TRUE(file) << file.status().message();
  std::string big(3 << 20, 'b');
  EXPECT_TRUE(file->write("a"));
  EXPECT_TRUE(file->write(big));
  EXPECT_TRUE(file->write("c"));
  EXPECT_FALSE(isRegularFile(folder / "out"));
  EXPECT_TRUE(file->commit());
  EXPECT_EQ(folder.get("out"), "a" + big + "c");
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_FALSE(file->commit());
  EXPECT_FALSE(file->write("d"));
  EXPECT_EQ(folder.count(), 1u);
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  Folder folder;
  folder.put("out", "before");
  {
    auto file = AtomicFile::create(folder / "out");
    ASSERT_TRUE(file);
    EXPECT_TRUE(file->write(std::string(2 << 20, 'x')));
    EXPECT_EQ(folder.count(), 2u);
    EXPECT_EQ(folder.get("out"), "before");
  }
  EXPECT_EQ(folder.get("out"), "before");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(AtomicFile, KeepsModeAndLink) {
  Folder folder;
  folder.put("real", "before");
  ASSERT_EQ(chmod((folder / "real").c_str(), 0640), 0);
  ASSERT_EQ(symlink("real", (folder / "link").c_str()), 0);
  auto file = AtomicFile::create(folder / "link");
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->write("after"));
  EXPECT_TRUE(file->commit());
  EXPECT_EQ(folder.get("real"), "after");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  struct stat info;
  ASSERT_EQ(stat((folder / "real").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
}

TEST(AtomicFile, RefusesImpossibleTargets) {
  Folder folder;
  EXPECT_EQ(AtomicFile::create(folder / "no/such/out").status().message(),
            "cannot write '" + folder / "no/such/out" +
                "': No such file or directory");
  EXPECT_EQ(AtomicFile::create(folder.path).status().message(),
            "cannot write '" + folder.path + "': Is a directory");
  EXPECT_FALSE(AtomicFile::create(""));
}

TEST(AtomicFile, DevicesAreWrittenDirectly) {
  auto full = AtomicFile::create("/dev/full");
  ASSERT_TRUE(full) << full.status().message();
  EXPECT_TRUE(full->write("x")); // buffered
  EXPECT_EQ(full->commit().message(),
            "cannot write '/dev/full': No space left on device");
  auto null = AtomicFile::create("/dev/null");
  ASSERT_TRUE(null);
  EXPECT_TRUE(null->write(std::string(5 << 20, 'x')));
  EXPECT_TRUE(null->commit());
  struct stat info;
  ASSERT_EQ(stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode)); // not renamed over
}

TEST(AtomicFile, ABrokenPipeIsAnErrorNotASignal) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_FALSE(writeFully(ends[1], "x", 1));
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
}

TEST(AtomicFile, AFileSizeLimitIsAnErrorNotASignal) {
  Folder folder;
  folder.put("out", "before");
  struct rlimit old, small;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  {
    auto file = AtomicFile::create(folder / "out");
    if (file)
      message = file->write(std::string((1 << 20) + 1, 'x')).message();
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_EQ(message, "cannot write '" + folder / "out" + "': File too large");
  EXPECT_EQ(folder.get("out"), "before");
  EXPECT_EQ(folder.count(), 1u);
  // The signal that the limit raised is gone, not waiting.
  sigset_t pending;
  sigpending(&pending);
  EXPECT_FALSE(sigismember(&pending, SIGXFSZ));
}

TEST(AtomicFile, AFullDiskLeavesNothing) {
  Folder folder;
  std::string disk = folder / "disk";
  ASSERT_EQ(mkdir(disk.c_str(), 0700), 0);
  if (mount("none", disk.c_str(), "tmpfs", 0, "size=256k") != 0)
    GTEST_SKIP() << "mounting a small tmpfs needs privileges";
  std::string message;
  size_t left = 0;
  {
    auto file = AtomicFile::create(disk + "/out");
    if (file)
      message = file->write(std::string(2 << 20, 'x')).message();
    left = std::distance(std::filesystem::directory_iterator(disk), {});
  }
  ASSERT_EQ(umount(disk.c_str()), 0);
  EXPECT_EQ(message,
            "cannot write '" + disk + "/out': No space left on device");
  EXPECT_EQ(left, 0u);
}

//===----------------------------------------------------------------------===//
// The Nth call fails, for every N
//===----------------------------------------------------------------------===//

namespace {
int callsLeft = 0; // calls that succeed before one fails
int fails() {
  if (callsLeft-- > 0)
    return 0;
  errno = ENOSPC;
  return -1;
}
const FileCalls failing = {
    [](int descriptor, const void *data, size_t bytes) -> ssize_t {
      // Short writes on top.
      return fails() ? -1 : ::write(descriptor, data, (bytes + 1) / 2);
    },
    [](int descriptor) { return fails() ? -1 : fsync(descriptor); },
    [](int descriptor) {
      int result = close(descriptor);
      return fails() ? -1 : result;
    },
    [](const char *from, const char *to) {
      return fails() ? -1 : rename(from, to);
    }};
} // namespace

TEST(AtomicFile, AnyFailingCallLeavesNothing) {
  Folder folder;
  std::string content = std::string(1 << 20, 'x') + "end";
  int n = 0;
  for (;; ++n) {
    folder.put("out", "before");
    callsLeft = n;
    auto file = AtomicFile::create(folder / "out", failing);
    ASSERT_TRUE(file);
    Status status = file->write(content.substr(0, 100));
    if (status)
      status = file->write(content.substr(100));
    if (status)
      status = file->commit();
    if (status)
      break;
    EXPECT_EQ(status.message(),
              "cannot write '" + folder / "out" + "': No space left on device");
    EXPECT_EQ(folder.get("out"), "before") << n;
    EXPECT_EQ(folder.count(), 1u) << n;
    // The error stays.
    EXPECT_FALSE(file->write("more"));
    EXPECT_FALSE(file->commit());
    EXPECT_EQ(folder.get("out"), "before") << n;
  }
  EXPECT_GT(n, 10); // halved writes, sync, close and rename have all failed
  EXPECT_EQ(folder.get("out"), content);
  EXPECT_EQ(folder.count(), 1u);
}
