//===- Interrupt.cpp - SIGINT and SIGTERM as requests to stop -------------===//

#include "tools/mixle-run/Interrupt.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <iterator>

namespace mixle::tools {

using namespace runtime;

static constexpr int signals[] = {SIGINT, SIGTERM};

static_assert(std::atomic<int>::is_always_lock_free &&
                  std::atomic<int64_t>::is_always_lock_free,
              "signal handlers may touch lock-free atomics only");
static std::atomic<int> noted{0};
static std::atomic<int64_t> notedAt{0};
static std::atomic<bool> heard{false}; // by whoever asked with agree()
static struct sigaction before[std::size(signals)];

// mpirun also ends by SIGTERM what is left of a job that has lost a rank, and
// by SIGKILL a second later. No step ends then, and MPI's own handler, which
// says what a rank waits in, has to have its turn before that.
static constexpr int64_t patienceForHandler = 400; // ms
static timer_t timer;
static bool hasTimer = false;

static int64_t milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

static const struct sigaction &actionBefore(int signal) {
  return before[signal == signals[0] ? 0 : 1];
}

static bool isHandler(const struct sigaction &action) {
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

static void setTimer(int64_t after) {
  const itimerspec when = {{0, 0}, {0, static_cast<long>(after) * 1000000}};
  if (hasTimer)
    timer_settime(timer, 0, &when, nullptr);
}

static void passOn(int signal) {
  sigaction(signal, &actionBefore(signal), nullptr);
  std::raise(signal);
}

/// The first one asks; one of a second later, from somebody who has lost
/// patience, means what it meant before. (timeout(1) sends every signal twice
/// at once.)
static void note(int signal) {
  const int saved = errno;
  int none = 0;
  if (noted.compare_exchange_strong(none, signal)) {
    notedAt = milliseconds();
    if (isHandler(actionBefore(signal)) && !heard)
      setTimer(patienceForHandler);
  } else if (milliseconds() - notedAt > 1000) {
    passOn(signal);
  }
  errno = saved;
}

static void timeIsUp(int) { passOn(noted); }

InterruptWatch::InterruptWatch() {
  noted = 0;
  heard = false;
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(signals); ++i)
    sigaction(signals[i], nullptr, &before[i]);
  if (isHandler(before[0]) || isHandler(before[1])) {
    action.sa_handler = timeIsUp;
    sigaction(SIGALRM, &action, nullptr);
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGALRM;
    hasTimer = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
  }
  action.sa_handler = note;
  for (size_t i = 0; i < std::size(signals); ++i)
    if (before[i].sa_handler != SIG_IGN)
      sigaction(signals[i], &action, nullptr);
}

Expected<int> InterruptWatch::agree(Communicator &communicator, Group &world) {
  int64_t signal = noted;
  MIXLE_RETURN_IF_ERROR(
      communicator.allReduce(world, {"interrupt", 0, "signal"}, &signal, 1,
                             DataType::i64, ReduceOp::max));
  if (signal != 0) {
    heard = true;
    setTimer(0);
  }
  return static_cast<int>(signal);
}

void InterruptWatch::end() {
  if (!watching)
    return;
  watching = false;
  for (size_t i = 0; i < std::size(signals); ++i)
    sigaction(signals[i], &before[i], nullptr);
  if (hasTimer)
    timer_delete(timer);
  hasTimer = false;
  if (noted != 0 && !heard)
    std::raise(noted);
}

std::string describeInterrupt(int signal) {
  const char *name = strsignal(signal);
  return "interrupted by signal " + std::to_string(signal) +
         (name ? std::string(" (") + name + ")" : "");
}

} // namespace mixle::tools
