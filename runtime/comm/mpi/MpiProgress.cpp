//===- MpiProgress.cpp - Waiting without burning the core -----------------===//

#include "runtime/comm/mpi/MpiCommunicator.h"
#include "runtime/comm/mpi/WaitNotice.h"
#include <algorithm>
#include <cstring>
#include <ctime>
#include <unistd.h>

namespace mixle::runtime {

using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

/// What a rank tells one that asks where it waits.
struct Reply {
  uint64_t group;
  uint64_t sequence;
  char text[496];
};

/// How a wait passes its time between two looks: it spins at first, and again
/// whenever data moved, then sleeps, longer and longer. It never yields
/// instead: on a busy machine a yield costs whole time slices, whereas who
/// slept is let in at once.
class Backoff {
public:
  using Clock = std::chrono::steady_clock;

  /// Peers that are there answer soon, and MPI moves data only while both sides
  /// call it; a peer that has not come yet may compute for long.
  Backoff(Clock::time_point now, bool moving)
      : shortest(moving ? microseconds(10) : microseconds(50)),
        longest(moving ? microseconds(100) : microseconds(500)) {
    restart(now);
  }

  void restart(Clock::time_point now) {
    spinUntil = now + microseconds(20);
    sleepTime = shortest;
  }
  bool spins(Clock::time_point now) const { return now < spinUntil; }
  void sleep() {
    timespec time{0, static_cast<long>(sleepTime.count()) * 1000};
    nanosleep(&time, nullptr);
    sleepTime = std::min(sleepTime * 3 / 2, longest);
  }

private:
  const microseconds shortest, longest;
  Clock::time_point spinUntil;
  microseconds sleepTime;
};

} // namespace

std::string mpiErrorText(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
    return "MPI error " + std::to_string(code);
  return std::string(text, length);
}

Status MpiCommunicator::fail(const std::string &message) {
  if (failure.ok())
    failure = Status::error(message);
  return Status::error(message);
}

Status MpiCommunicator::fail(int code, const Wait &wait) {
  return fail(wait.describe() + ": " + mpiErrorText(code));
}

/// Waits for `request`, whose start returned `code`.
Status MpiCommunicator::finish(int code, MPI_Request &request,
                               const Wait &wait) {
  if (code != MPI_SUCCESS)
    return fail(code, wait);
  return poll(
      [&](int *done) { return MPI_Test(&request, done, MPI_STATUS_IGNORE); },
      wait);
}

Status MpiCommunicator::poll(const std::function<int(int *)> &test,
                             const Wait &wait) {
  Clock::time_point now = Clock::now();
  Clock::time_point nextService = now + milliseconds(5);
  Backoff backoff(now, wait.moving);
  for (;;) {
    int done = 0;
    int code = test(&done);
    if (code != MPI_SUCCESS)
      return fail(code, wait);
    if (done)
      return Status::success();
    Clock::time_point tested = Clock::now();
    // A test that took long has moved data, and there is probably more to move.
    if (tested - now > microseconds(3))
      backoff.restart(tested);
    now = tested;
    if (options.timeout > 0 &&
        std::chrono::duration<double>(now - wait.begin).count() >
            options.timeout)
      expire(wait);
    if (backoff.spins(now))
      continue;
    if (now >= nextService) {
      answerQueries(wait);
      nextService = now + milliseconds(5);
    }
    backoff.sleep();
    now = Clock::now();
  }
}

/// Copies `data` and starts sending it; never waits. A piece that is full is
/// followed by another, perhaps empty, so that the receiver knows the end.
Status MpiCommunicator::post(MPI_Comm comm, const void *data, int64_t bytes,
                             int peer, int tag) {
  reapSends();
  pending.emplace_back();
  PendingSend &message = pending.back();
  const char *begin = static_cast<const char *>(data);
  message.data.assign(begin, begin + bytes);
  int64_t limit = pieceLimit(comm), sentBytes = 0, piece;
  do {
    piece = std::min(bytes - sentBytes, limit);
    MPI_Request request;
    int code =
        MPI_Isend(message.data.data() + sentBytes, static_cast<int>(piece),
                  MPI_BYTE, peer, tag, comm, &request);
    if (code != MPI_SUCCESS)
      return fail("sending to rank " + std::to_string(peer) + ": " +
                  mpiErrorText(code));
    message.requests.push_back(request);
    sentBytes += piece;
  } while (piece == limit);
  return Status::success();
}

/// Forgets the messages that have left.
void MpiCommunicator::reapSends() {
  for (auto message = pending.begin(); message != pending.end();) {
    int done = 0;
    int code =
        MPI_Testall(static_cast<int>(message->requests.size()),
                    message->requests.data(), &done, MPI_STATUSES_IGNORE);
    message = code == MPI_SUCCESS && done ? pending.erase(message)
                                          : std::next(message);
  }
}

/// Receives exactly `expected` bytes of what post() sent.
Status MpiCommunicator::receive(MPI_Comm comm, int peer, int tag,
                                int64_t expected, void *data,
                                const Wait &wait) {
  int64_t limit = pieceLimit(comm), received = 0;
  int count = 0;
  do {
    int64_t room = std::min(expected - received, limit);
    MPI_Message message;
    MPI_Status status;
    MIXLE_RETURN_IF_ERROR(poll(
        [&](int *found) {
          return MPI_Improbe(peer, tag, comm, found, &message, &status);
        },
        wait));
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (count != room)
      return fail(wait.describe() + ": rank " + std::to_string(peer) +
                  " sent " + (count == limit ? "at least " : "") +
                  std::to_string(received + count) + " bytes");
    MPI_Request request;
    Wait transfer = wait;
    transfer.moving = true;
    int code = MPI_Imrecv(static_cast<char *>(data) + received, count, MPI_BYTE,
                          &message, &request);
    MIXLE_RETURN_IF_ERROR(finish(code, request, transfer));
    received += count;
  } while (count == limit);
  return Status::success();
}

/// Tells ranks whose wait has timed out where this one waits.
void MpiCommunicator::answerQueries(const Wait &wait) {
  for (;;) {
    int found = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tagQuery, control, &found, &status) !=
            MPI_SUCCESS ||
        !found)
      return;
    MPI_Recv(nullptr, 0, MPI_BYTE, status.MPI_SOURCE, tagQuery, control,
             MPI_STATUS_IGNORE);
    Reply reply = {};
    reply.group = wait.group;
    reply.sequence = wait.sequence;
    std::string text = wait.describe();
    std::memcpy(reply.text, text.data(),
                std::min(text.size(), sizeof reply.text - 1));
    // Small and eager; if it cannot be sent, the asker says that we are silent.
    (void)post(control, &reply, sizeof reply, status.MPI_SOURCE, tagReply).ok();
  }
}

/// Asks the ranks on which `wait` depends where they are, and ends the job with
/// a message about those that are missing. The ones that compute, hang or are
/// stopped do not answer.
void MpiCommunicator::expire(const Wait &wait) {
  std::vector<std::string> answers(wait.peers.size(), " and does not answer");
  std::vector<bool> missing(wait.peers.size(), true);
  size_t open = 0;
  for (int peer : wait.peers)
    if (peer != rank()) {
      (void)post(control, nullptr, 0, peer, tagQuery).ok();
      ++open;
    }
  auto deadline = Clock::now() + milliseconds(1000);
  while (open > 0 && Clock::now() < deadline) {
    answerQueries(wait);
    int found = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, tagReply, control, &found, &status);
    if (!found) {
      usleep(500);
      continue;
    }
    Reply reply;
    MPI_Recv(&reply, sizeof reply, MPI_BYTE, status.MPI_SOURCE, tagReply,
             control, MPI_STATUS_IGNORE);
    --open;
    auto peer =
        std::find(wait.peers.begin(), wait.peers.end(), status.MPI_SOURCE);
    if (peer == wait.peers.end())
      continue;
    size_t index = peer - wait.peers.begin();
    missing[index] = wait.group == 0 || reply.group != wait.group ||
                     reply.sequence != wait.sequence;
    answers[index] = std::string(": it waits in ") + reply.text;
  }
  std::string message =
      wait.describe() + ": timed out after " + describeSeconds(options.timeout);
  bool any = false;
  for (size_t i = 0; i < wait.peers.size(); ++i)
    if (wait.peers[i] != rank() && missing[i]) {
      any = true;
      message += "; rank " + std::to_string(wait.peers[i]) + " " +
                 wait.missing + answers[i];
    }
  if (!any)
    message += "; all members have arrived, but the exchange did not end";
  abort(message);
  _exit(1);
}

void MpiCommunicator::abort(const std::string &message) {
  silenceWaitNotice();
  std::string line = "rank " + std::to_string(rank()) + ": " + message + "\n";
  for (size_t done = 0; done < line.size();) {
    ssize_t written =
        write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (written <= 0)
      break;
    done += written;
  }
  MPI_Abort(MPI_COMM_WORLD, 1);
  _exit(1);
}

} // namespace mixle::runtime
