//===- MpiCommunicator.cpp - Starting MPI, groups and messages ------------===//

#include "runtime/comm/mpi/MpiCommunicator.h"
#include "runtime/comm/Reduce.h"
#include "runtime/comm/mpi/MpiModule.h"
#include "runtime/comm/mpi/WaitNotice.h"
#include <algorithm>
#include <cstring>
#include <sys/prctl.h>

namespace mixle::runtime {

namespace {

/// Compares the members' calls: agreements are equal if their maximum is the
/// complement of the complements' maximum, pairings if they add up to zero. The
/// fourth number is the largest extent.
void combineDigests(void *in, void *inout, int *length, MPI_Datatype *) {
  const auto *from = static_cast<const uint64_t *>(in);
  auto *to = static_cast<uint64_t *>(inout);
  for (int i = 0; i < *length; ++i, from += 4, to += 4) {
    to[0] = std::max(to[0], from[0]);
    to[1] = std::max(to[1], from[1]);
    to[2] += from[2];
    to[3] = std::max(to[3], from[3]);
  }
}

/// MPI leaves NaN and the sign of zero open; Communicator.h does not.
template <ReduceOp op>
void combineFloats(void *in, void *inout, int *length, MPI_Datatype *type) {
  const void *sources[] = {in, inout};
  reduce(inout, sources, 2, *length,
         *type == MPI_FLOAT ? DataType::f32 : DataType::f64, op);
}

/// Errors come back as codes: MPI's default is to end the job without our
/// message.
int returnErrors(MPI_Comm comm) {
  return MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

} // namespace

std::unique_ptr<MpiCommunicator>
MpiCommunicator::create(const MpiOptions &options, bool ownsMpi,
                        std::string &error) {
  int rank = 0, size = 1;
  returnErrors(MPI_COMM_WORLD);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::unique_ptr<MpiCommunicator> communicator(
      new MpiCommunicator(rank, size, options, ownsMpi));
  int code = communicator->setUp();
  if (code != MPI_SUCCESS) {
    error = mpiErrorText(code);
    return nullptr;
  }
  installWaitNotice(rank);
  // Sleeps between looks are 10 to 500 us; by default the kernel adds up to 50.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  return communicator;
}

int MpiCommunicator::setUp() {
  int code = MPI_Comm_dup(MPI_COMM_WORLD, &messages);
  if (code == MPI_SUCCESS)
    code = MPI_Comm_dup(MPI_COMM_WORLD, &control);
  if (code == MPI_SUCCESS)
    code = MPI_Type_contiguous(4, MPI_UINT64_T, &digestType);
  if (code == MPI_SUCCESS)
    code = MPI_Type_commit(&digestType);
  if (code == MPI_SUCCESS)
    code = MPI_Op_create(combineDigests, 1, &digestOp);
  if (code == MPI_SUCCESS)
    code = MPI_Op_create(combineFloats<ReduceOp::max>, 1, &floatMax);
  if (code == MPI_SUCCESS)
    code = MPI_Op_create(combineFloats<ReduceOp::min>, 1, &floatMin);
  if (code != MPI_SUCCESS)
    return code;
  returnErrors(messages);
  returnErrors(control);
  int *limit = nullptr, found = 0;
  MPI_Comm_get_attr(messages, MPI_TAG_UB, &limit, &found);
  if (found)
    tagLimit = *limit;
  return MPI_SUCCESS;
}

MpiCommunicator::~MpiCommunicator() {
  if (!failure.ok())
    abort("closed after a failure: " + failure.message());
  // Ranks do not end at the same time: wait asleep, MPI_Finalize would spin.
  Wait wait;
  wait.describe = [] { return std::string("the end of the job"); };
  for (int peer = 0; peer < worldSize(); ++peer)
    wait.peers.push_back(peer);
  wait.missing = "has not come to its end";
  MPI_Request request;
  int code = MPI_Ibarrier(control, &request);
  Status ended = finish(code, request, wait);
  for (auto &message : pending)
    for (MPI_Request &part : message.requests)
      if (ended.ok())
        ended = finish(MPI_SUCCESS, part, wait);
  if (!ended.ok())
    abort(ended.message());
  MPI_Op_free(&floatMin);
  MPI_Op_free(&floatMax);
  MPI_Op_free(&digestOp);
  MPI_Type_free(&digestType);
  MPI_Comm_free(&control);
  MPI_Comm_free(&messages);
  removeWaitNotice();
  if (ownsMpi)
    MPI_Finalize();
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

MpiGroup::~MpiGroup() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (comm != MPI_COMM_NULL && !finalized)
    MPI_Comm_free(&comm);
}

/// Members tell the first one their list; it answers. After that all of them
/// are known to be there with the same list, so MPI's own call, which cannot
/// time out, does not wait long.
Status MpiCommunicator::agreeOnGroup(const std::vector<int> &ranks, int index,
                                     const Wait &wait) {
  int64_t bytes = static_cast<int64_t>(ranks.size() * sizeof(int));
  char verdict[512] = {};
  if (index > 0) {
    MIXLE_RETURN_IF_ERROR(
        post(control, ranks.data(), bytes, ranks[0], tagHello));
    MIXLE_RETURN_IF_ERROR(
        receive(control, ranks[0], tagVerdict, sizeof verdict, verdict, wait));
  } else {
    for (size_t member = 1; member < ranks.size(); ++member) {
      MPI_Message message;
      MPI_Status status;
      MIXLE_RETURN_IF_ERROR(poll(
          [&](int *found) {
            return MPI_Improbe(ranks[member], tagHello, control, found,
                               &message, &status);
          },
          wait));
      int count = 0;
      MPI_Get_count(&status, MPI_INT, &count);
      std::vector<int> theirs(count);
      MPI_Request request;
      int code = MPI_Imrecv(theirs.data(), count, MPI_INT, &message, &request);
      MIXLE_RETURN_IF_ERROR(finish(code, request, wait));
      if (theirs == ranks || verdict[0])
        continue;
      std::string text = "rank " + std::to_string(ranks[0]) +
                         " makes the group of " + listRanks(ranks) +
                         " while rank " + std::to_string(ranks[member]) +
                         " makes that of " + listRanks(theirs) +
                         "; expected the same list from all members";
      std::memcpy(verdict, text.data(),
                  std::min(text.size(), sizeof verdict - 1));
    }
    for (size_t member = 1; member < ranks.size(); ++member)
      MIXLE_RETURN_IF_ERROR(
          post(control, verdict, sizeof verdict, ranks[member], tagVerdict));
  }
  return verdict[0] ? fail(verdict) : Status::success();
}

Expected<std::unique_ptr<Group>>
MpiCommunicator::makeGroup(std::vector<int> worldRanks, int index) {
  MPI_Comm comm = MPI_COMM_NULL;
  if (worldRanks.size() > 1) {
    Wait wait;
    wait.describe = [&] {
      return "making the group of " + listRanks(worldRanks);
    };
    wait.peers = worldRanks;
    wait.missing = "has not joined";
    beginWaitNotice("making a group", CommandContext{"setup", 0, ""});
    MIXLE_RETURN_IF_ERROR(agreeOnGroup(worldRanks, index, wait));
    MPI_Group everyone, members;
    MPI_Comm_group(MPI_COMM_WORLD, &everyone);
    int code = MPI_Group_incl(everyone, static_cast<int>(worldRanks.size()),
                              worldRanks.data(), &members);
    if (code == MPI_SUCCESS) {
      code = MPI_Comm_create_group(MPI_COMM_WORLD, members, tagHello, &comm);
      MPI_Group_free(&members);
    }
    MPI_Group_free(&everyone);
    endWaitNotice();
    if (code != MPI_SUCCESS)
      return fail(code, wait);
    returnErrors(comm);
  }
  return std::unique_ptr<Group>(
      new MpiGroup(this, std::move(worldRanks), index, comm));
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

Status MpiCommunicator::sendBytes(const CommandContext &context,
                                  const void *data, int64_t bytes, int peer,
                                  int tag) {
  if (tag > tagLimit)
    return Status::error(
        describeMessage("send", bytes, "to", peer, tag, context) +
        ": this MPI has tags up to " + std::to_string(tagLimit));
  Status posted = post(messages, data, bytes, peer, tag);
  if (posted.ok())
    return posted;
  return posted.withContext(
      describeMessage("send", bytes, "to", peer, tag, context));
}

Status MpiCommunicator::recvBytes(const CommandContext &context, void *data,
                                  int64_t bytes, int peer, int tag) {
  Wait wait;
  wait.describe = [&] {
    return describeMessage("recv", bytes, "from", peer, tag, context);
  };
  wait.peers = {peer};
  wait.missing = "has not sent it";
  if (tag > tagLimit)
    return Status::error(wait.describe() + ": this MPI has tags up to " +
                         std::to_string(tagLimit));
  beginWaitNotice("recv", context);
  Status status = receive(messages, peer, tag, bytes, data, wait);
  endWaitNotice();
  return status;
}

} // namespace mixle::runtime

//===----------------------------------------------------------------------===//
// The module's symbol
//===----------------------------------------------------------------------===//

extern "C" __attribute__((visibility("default"))) mixle::runtime::Communicator *
mixleOpenMpiModule(int version, const mixle::runtime::MpiOptions *options,
                   std::string *error) {
  using namespace mixle::runtime;
  if (version != mpiModuleVersion) {
    *error = "libmixle_mpi.so has interface version " +
             std::to_string(mpiModuleVersion) + ", this program needs " +
             std::to_string(version) + ": install both from one build";
    return nullptr;
  }
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (finalized) {
    *error = "MPI has been ended in this process and cannot start again";
    return nullptr;
  }
  if (!initialized) {
    int provided = 0;
    int code =
        MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    if (code != MPI_SUCCESS || provided < MPI_THREAD_FUNNELED) {
      *error = code != MPI_SUCCESS
                   ? mpiErrorText(code)
                   : std::string("this MPI does not support threads");
      return nullptr;
    }
  }
  return MpiCommunicator::create(*options, !initialized, *error).release();
}
