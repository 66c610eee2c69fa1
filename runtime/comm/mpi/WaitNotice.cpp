//===- WaitNotice.cpp - What to say when a signal ends the job ------------===//
//
// When a rank is lost, mpirun ends the others by SIGTERM. A handler may do
// little more than write(2), so the text is prepared at the start of each wait:
// in the one of two buffers that the handler does not look at, which is then
// made the current one.
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/mpi/WaitNotice.h"
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <unistd.h>

namespace mixle::runtime {

namespace {

struct Notice {
  char text[512];
  std::atomic<int> length{0};

  void append(const char *data, size_t size) {
    int used = length.load(std::memory_order_relaxed);
    // One byte is kept for the end of the line.
    size = std::min(size, sizeof text - 1 - used);
    std::memcpy(text + used, data, size);
    length.store(used + static_cast<int>(size), std::memory_order_relaxed);
  }
  void append(const char *data) { append(data, std::strlen(data)); }
  void append(const std::string &data) { append(data.data(), data.size()); }
  void endLine() {
    int used = length.load(std::memory_order_relaxed);
    text[used] = '\n';
    length.store(used + 1, std::memory_order_relaxed);
  }
};

Notice waits[2];
Notice working; // fixed once installed
std::atomic<Notice *> current{nullptr};
std::string prefix;
int nextWait = 0;
struct sigaction previousAction;

extern "C" void mixlePrintWaitNotice(int) {
  const Notice *notice = current.load(std::memory_order_acquire);
  if (notice) {
    // Nothing can be done about a failing write here.
    ssize_t ignored = write(STDERR_FILENO, notice->text,
                            notice->length.load(std::memory_order_relaxed));
    (void)ignored;
  }
  _exit(1);
}

} // namespace

void installWaitNotice(int rank) {
  prefix = "rank " + std::to_string(rank) + ": interrupted ";
  working.length = 0;
  working.append(prefix);
  working.append("outside of any exchange");
  working.endLine();
  current.store(&working, std::memory_order_release);
  struct sigaction action = {};
  action.sa_handler = mixlePrintWaitNotice;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, &previousAction);
}

void removeWaitNotice() {
  sigaction(SIGTERM, &previousAction, nullptr);
  current.store(nullptr, std::memory_order_release);
}

void beginWaitNotice(const char *operation, const CommandContext &context) {
  Notice &notice = waits[nextWait];
  nextWait ^= 1;
  char command[24];
  char *digit = command + sizeof command;
  uint64_t left = context.command < 0 ? 0 : context.command;
  do
    *--digit = static_cast<char>('0' + left % 10);
  while (left /= 10);
  notice.length.store(0, std::memory_order_relaxed);
  notice.append(prefix);
  notice.append("while waiting in entry '");
  notice.append(context.entry);
  notice.append("', command ");
  notice.append(digit, command + sizeof command - digit);
  if (!context.update.empty()) {
    notice.append(", update '");
    notice.append(context.update);
    notice.append("'");
  }
  notice.append(" (");
  notice.append(operation);
  notice.append(")");
  notice.endLine();
  current.store(&notice, std::memory_order_release);
}

void endWaitNotice() { current.store(&working, std::memory_order_release); }

void silenceWaitNotice() { current.store(nullptr, std::memory_order_release); }

} // namespace mixle::runtime
