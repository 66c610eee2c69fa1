//===- ThreadWorld.cpp - Ranks as threads of one process ------------------===//

#include "runtime/comm/ThreadWorld.h"
#include "runtime/comm/ThreadInternal.h"
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

namespace mixle::runtime {

using Clock = std::chrono::steady_clock;

static Clock::duration toDuration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double>(seconds));
}

//===----------------------------------------------------------------------===//
// The state of the world
//===----------------------------------------------------------------------===//

ThreadWorldState::ThreadWorldState(int size, ThreadWorldOptions options)
    : options(options), mailboxes(size) {
  for (int rank = 0; rank < size; ++rank)
    communicators.push_back(
        std::make_unique<ThreadCommunicator>(*this, rank, size));
}

ThreadWorldState::~ThreadWorldState() = default;

void ThreadWorldState::fail(int rank, const std::string &message) {
  std::lock_guard<std::mutex> lock(mutex);
  if (hasFailed.load(std::memory_order_relaxed))
    return;
  firstRank = rank;
  firstMessage = message;
  hasFailed.store(true, std::memory_order_release);
  for (auto &entry : groups)
    for (auto &group : entry.second.instances)
      group->arrival.fail();
  for (ThreadMailbox &mailbox : mailboxes) {
    std::lock_guard<std::mutex> mailboxLock(mailbox.mutex);
    mailbox.changed.notify_all();
  }
}

Status ThreadWorldState::failure() {
  std::lock_guard<std::mutex> lock(mutex);
  return Status::error("rank " + std::to_string(firstRank) +
                       " failed: " + firstMessage);
}

int ThreadWorldState::failedRank() {
  std::lock_guard<std::mutex> lock(mutex);
  return firstRank;
}

Expected<std::shared_ptr<ThreadGroupState>>
ThreadWorldState::joinGroup(int rank, const std::vector<int> &ranks) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (!hasFailed.load(std::memory_order_relaxed)) {
      GroupKey &key = groups[ranks];
      size_t instance = key.made[rank]++;
      if (instance == key.instances.size())
        key.instances.push_back(
            std::make_shared<ThreadGroupState>(ranks.size()));
      return key.instances[instance];
    }
  }
  return failure().withContext("group of " + listRanks(ranks));
}

//===----------------------------------------------------------------------===//
// Messages between two ranks
//===----------------------------------------------------------------------===//

static std::string describeMessage(const char *what, int64_t bytes,
                                   const char *direction, int peer, int tag,
                                   const CommandContext &context) {
  return std::string(what) + " of " + std::to_string(bytes) + " bytes " +
         direction + " rank " + std::to_string(peer) + " with tag " +
         std::to_string(tag) + " in " + describe(context);
}

Status ThreadCommunicator::sendBytes(const CommandContext &context,
                                     const void *data, int64_t bytes, int peer,
                                     int tag) {
  ThreadMailbox &mailbox = world.mailboxes[peer];
  std::lock_guard<std::mutex> lock(mailbox.mutex);
  ThreadMailbox::Waiting *waiting = mailbox.waiting;
  // A receiver waits only when nothing queued matches, so it takes this one.
  if (waiting && !waiting->delivered && waiting->source == rank() &&
      waiting->tag == tag) {
    if (bytes == waiting->bytes && bytes > 0)
      std::memcpy(waiting->data, data, bytes);
    waiting->deliveredBytes = bytes;
    waiting->delivered = true;
    mailbox.changed.notify_all();
    return Status::success();
  }
  const char *begin = static_cast<const char *>(data);
  mailbox.messages.push_back(
      {rank(), tag, std::vector<char>(begin, begin + bytes)});
  return Status::success();
}

Status ThreadCommunicator::recvBytes(const CommandContext &context, void *data,
                                     int64_t bytes, int peer, int tag) {
  std::string what = describeMessage("recv", bytes, "from", peer, tag, context);
  ThreadMailbox &mailbox = world.mailboxes[rank()];
  ThreadMailbox::Waiting waiting{peer, tag, data, bytes};
  bool expired = false;
  {
    std::unique_lock<std::mutex> lock(mailbox.mutex);
    for (auto message = mailbox.messages.begin();
         message != mailbox.messages.end(); ++message) {
      if (message->source != peer || message->tag != tag)
        continue;
      waiting.delivered = true;
      waiting.deliveredBytes = static_cast<int64_t>(message->data.size());
      if (waiting.deliveredBytes == bytes && bytes > 0)
        std::memcpy(data, message->data.data(), bytes);
      mailbox.messages.erase(message);
      break;
    }
    auto deadline = Clock::now() + toDuration(world.options.timeout);
    mailbox.waiting = &waiting;
    while (!waiting.delivered && !world.failed() && !expired) {
      if (world.options.timeout <= 0)
        mailbox.changed.wait(lock);
      else
        expired = mailbox.changed.wait_until(lock, deadline) ==
                      std::cv_status::timeout &&
                  !waiting.delivered;
    }
    mailbox.waiting = nullptr;
  }
  if (waiting.delivered && waiting.deliveredBytes == bytes)
    return Status::success();
  std::string problem;
  if (waiting.delivered)
    problem = what + ": rank " + std::to_string(peer) + " sent " +
              std::to_string(waiting.deliveredBytes) + " bytes";
  else if (expired && !world.failed())
    problem = what + ": timed out after " +
              describeSeconds(world.options.timeout) + "; rank " +
              std::to_string(peer) + " has not sent it";
  else
    return world.failure().withContext(what);
  world.fail(rank(), problem);
  return Status::error(problem);
}

//===----------------------------------------------------------------------===//
// The public face
//===----------------------------------------------------------------------===//

ThreadWorld::ThreadWorld(std::shared_ptr<ThreadWorldState> state)
    : state(std::move(state)) {}

ThreadWorld::~ThreadWorld() = default;

Expected<std::shared_ptr<ThreadWorld>>
ThreadWorld::create(int size, ThreadWorldOptions options) {
  if (size < 1 || size > 65535)
    return Status::error("a world of " + std::to_string(size) +
                         " thread ranks: expected 1 to 65535");
  if (!(options.timeout >= 0) || options.timeout > 1e9)
    return Status::error("a collective timeout of " +
                         describeSeconds(options.timeout) +
                         ": expected 0 (for ever) to 1e9 s");
  return std::shared_ptr<ThreadWorld>(
      new ThreadWorld(std::make_shared<ThreadWorldState>(size, options)));
}

int ThreadWorld::size() const {
  return static_cast<int>(state->communicators.size());
}

Communicator &ThreadWorld::communicator(int rank) {
  return *state->communicators[rank];
}

void ThreadWorld::abort(int rank, const std::string &message) {
  state->fail(rank, message);
}

namespace {

/// How the ranks of one run() ended. Shared with the threads, which may outlive
/// it.
struct RunState {
  explicit RunState(int size) : ended(size, false), results(size) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> ended;
  std::vector<Status> results;
  int running = 0;
};

Status runGuarded(const std::function<Status(Communicator &)> &body,
                  Communicator &communicator) {
  try {
    return body(communicator);
  } catch (const std::exception &exception) {
    return Status::error(std::string("exception: ") + exception.what());
  } catch (...) {
    return Status::error("exception of an unknown type");
  }
}

} // namespace

Status ThreadWorld::run(const std::function<Status(Communicator &)> &body) {
  int ranks = size();
  auto shared = std::make_shared<RunState>(ranks);
  shared->running = ranks;
  std::vector<std::thread> threads;
  auto runRank = [world = state, shared](int rank, auto &&work) {
    Status result = runGuarded(work, *world->communicators[rank]);
    if (!result.ok())
      world->fail(rank, result.message());
    std::lock_guard<std::mutex> lock(shared->mutex);
    shared->results[rank] = std::move(result);
    shared->ended[rank] = true;
    --shared->running;
    shared->changed.notify_all();
  };
  for (int rank = 0; rank < ranks; ++rank) {
    try {
      threads.emplace_back([=] { runRank(rank, body); });
    } catch (const std::system_error &error) {
      threads.emplace_back();
      std::string message = error.what();
      runRank(rank, [&](Communicator &) {
        return Status::error("cannot start its thread: " + message);
      });
    }
  }

  leftBehind.clear();
  std::vector<bool> ended;
  std::vector<Status> results;
  {
    std::unique_lock<std::mutex> lock(shared->mutex);
    // Sleep until all are done or one has failed; a rank that failed inside a
    // call ends soon, and its end is what wakes this thread.
    auto anyError = [&] {
      for (const Status &result : shared->results)
        if (!result.ok())
          return true;
      return false;
    };
    shared->changed.wait(lock,
                         [&] { return shared->running == 0 || anyError(); });
    auto deadline = Clock::now() + toDuration(state->options.stopGrace);
    while (shared->running > 0 && shared->changed.wait_until(lock, deadline) !=
                                      std::cv_status::timeout) {
    }
    ended = shared->ended;
    results = shared->results;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (ended[rank]) {
      if (threads[rank].joinable())
        threads[rank].join();
    } else {
      threads[rank].detach();
      leftBehind.push_back(rank);
    }
  }

  auto line = [&](int rank) {
    return "rank " + std::to_string(rank) + ": " + results[rank].message();
  };
  int first = state->failedRank();
  std::string text;
  if (first >= 0 && first < ranks && !results[first].ok())
    text = line(first);
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != first && !results[rank].ok())
      text += (text.empty() ? "" : "\n") + line(rank);
  if (text.empty() && first >= 0)
    text = state->failure().message();
  if (!leftBehind.empty())
    text += (text.empty() ? "" : "\n") + listRanks(leftBehind) +
            " did not stop within " +
            describeSeconds(state->options.stopGrace) + " of the failure";
  return text.empty() ? Status::success() : Status::error(text);
}

} // namespace mixle::runtime
