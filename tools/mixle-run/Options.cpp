//===- Options.cpp - The command line of mixle-run ------------------------===//

#include "tools/mixle-run/Options.h"
#include "runtime/base/KeyValues.h"
#include "tools/CommandLine.h"

#include <algorithm>

namespace mixle::tools {

using runtime::Status;

bool RunOptions::has(const std::string &option) const {
  return std::find(given.begin(), given.end(), option) != given.end();
}

namespace {

const std::vector<std::string> trainingOnly = {
    "--text",   "--tokens",      "--batches",       "--labels",
    "--steps",  "--evaluate",    "--digest-every",  "--generate",
    "--prompt", "--temperature", "--inject-failure"};
const std::vector<std::string> estimationOnly = {
    "--data", "--row-weights", "--chunk-rows", "--iterations", "--tolerance"};

void addOptions(CLI::App &app, RunOptions &o) {
  addFile(app, "program", o.program, "A program file of mixle-compile")
      ->required();

  const std::string training = "Training";
  auto group = [](CLI::Option *option, const std::string &name) {
    option->group(name);
    return option;
  };
  group(addFile(app, "--text", o.text,
                "Train on this text: bytes are tokens, rows are "
                "non-overlapping runs of sequence + 1"),
        training);
  group(addFile(app, "--tokens", o.tokens,
                "Train on these tokens: uint16 (.bin) or .npy"),
        training);
  group(addFile(app, "--batches", o.batches,
                "Train on these batches: .npy of integers [steps, "
                "batch, sequence + 1], one optimizer step an entry, "
                "used as given"),
        training);
  group(addFile(app, "--labels", o.labels,
                "Replace the shifted targets of --batches: .npy "
                "[steps, batch, sequence], -100 is ignored"),
        training);
  group(addInteger(app, "--steps", o.steps, 1,
                   "Optimizer steps (default: all of --batches)"),
        training);
  group(app.add_flag("--evaluate", o.evaluate,
                     "Print the mean loss over all of the data at the end; "
                     "without --steps nothing is trained"),
        training);
  group(addInteger(app, "--digest-every", o.digestEvery, 1,
                   "Put state_digest into every Nth receipt and the last "
                   "(default: every one below a million parameters, else "
                   "the last)"),
        training);
  group(addInteger(app, "--generate", o.generate, 1,
                   "Print text of N bytes after the prompt at the end"),
        training);
  group(app.add_option("--prompt", o.prompt,
                       "What the text begins with (default: a line's end)"),
        training);
  group(addReal(app, "--temperature", o.temperature,
                "Of the generated text; 0 takes the likeliest byte "
                "(default: 1)"),
        training);

  const std::string estimation = "Estimation";
  group(addFile(app, "--data", o.data, "Rows of numbers: .npy or CSV"),
        estimation);
  group(addFile(app, "--row-weights", o.rowWeights,
                "A weight for each row: .npy"),
        estimation);
  group(addInteger(app, "--chunk-rows", o.chunkRows, 1,
                   "Rows that are read at once (default: 16384)"),
        estimation);
  group(addInteger(app, "--iterations", o.iterations, 1,
                   "Most iterations (default: 100)"),
        estimation);
  group(addReal(app, "--tolerance", o.tolerance,
                "Stop when the mean log-likelihood of a row changes by no more "
                "(default: all iterations are made)"),
        estimation);

  const std::string both = "Both";
  group(addInteger(app, "--seed", o.seed, 0,
                   "Of initial parameters, row order and generated text "
                   "(default: 0)"),
        both);
  group(addFile(app, "--weights", o.weights,
                "Begin with these parameters: safetensors, the index of "
                "several, or the folder that holds either"),
        both);
  group(
      addFile(app, "--save", o.save, "Write the final parameters: safetensors"),
      both);
  group(addFile(app, "--receipts", o.receipts,
                "Write a JSON line for each step or iteration; a run that "
                "SIGINT or SIGTERM ends leaves those that it finished"),
        both);
  group(app.add_flag("--quiet,-q", o.quiet, "No progress on stderr"), both);

  const std::string ranks = "Ranks";
  group(app.add_option("--communicator", o.communicator,
                       "threads or mpi (default: mpi under mpirun, else "
                       "threads)")
            ->check(CLI::IsMember({"threads", "mpi"})),
        ranks);
  group(addReal(app, "--collective-timeout", o.collectiveTimeout,
                "Seconds after which a rank that waits for others gives "
                "up; 0: never (default: 1800)"),
        ranks);
  group(app.add_option("--inject-failure", o.inject,
                       "For tests: rank=R,step=S,kind=error|kill|hang"
                       "[,entry=accumulate|step] makes rank R fail before that "
                       "entry of optimizer step S"),
        ranks);

  const std::string instead = "Instead of running";
  group(app.add_flag("--dump{text}", o.dump,
                     "Print the program; --dump=json for programs"),
        instead);
  group(app.add_flag("--verify", o.verify, "Only check the program"), instead);
}

Status requireWith(const RunOptions &o, const char *option, bool condition,
                   const char *needed) {
  if (!o.has(option) || condition)
    return Status::success();
  return Status::error(std::string(option) + " needs " + needed);
}

Status exclude(const RunOptions &o, const std::vector<std::string> &options) {
  std::string first;
  for (const std::string &option : options) {
    if (!o.has(option))
      continue;
    if (!first.empty())
      return Status::error(first + " and " + option +
                           " exclude each other: give one of them");
    first = option;
  }
  return Status::success();
}

Status parseInjection(RunOptions &o) {
  if (!o.has("--inject-failure"))
    return Status::success();
  const std::string what = "--inject-failure";
  MIXLE_ASSIGN_OR_RETURN(runtime::KeyValues given,
                         runtime::parseKeyValues(o.inject, what));
  if (!given.head.empty())
    return Status::error(what + ": '" + given.head + "' has no value");
  MIXLE_RETURN_IF_ERROR(
      given.requireKnown(what, {"rank", "step", "kind", "entry"}));
  for (const char *key : {"rank", "step", "kind"})
    if (!given.find(key))
      return Status::error(what + ": it has no '" + key +
                           "'; write rank=R,step=S,kind=error|kill|hang");
  InjectedFailure failure;
  MIXLE_ASSIGN_OR_RETURN(
      failure.rank,
      runtime::parseInteger(*given.find("rank"), what + ": rank"));
  MIXLE_ASSIGN_OR_RETURN(
      failure.step,
      runtime::parseInteger(*given.find("step"), what + ": step"));
  if (failure.rank < 0 || failure.step < 1)
    return Status::error(what + ": ranks count from 0, steps from 1");
  const std::string &kind = *given.find("kind");
  if (kind == "error")
    failure.kind = InjectedFailure::Kind::Error;
  else if (kind == "kill")
    failure.kind = InjectedFailure::Kind::Kill;
  else if (kind == "hang")
    failure.kind = InjectedFailure::Kind::Hang;
  else
    return Status::error(what + ": kind '" + kind +
                         "' is none of error, kill and hang");
  if (const std::string *entry = given.find("entry"))
    failure.entry = *entry;
  if (failure.entry != "accumulate" && failure.entry != "step")
    return Status::error(what + ": entry '" + failure.entry +
                         "' is neither accumulate nor step");
  o.failure = failure;
  return Status::success();
}

/// What a run writes replaces nothing that it reads. (--save may replace
/// --weights, which are read by then.)
Status checkOutputs(const RunOptions &o) {
  const std::string partial = o.receipts.empty() ? "" : o.receipts + ".partial";
  const std::vector<NamedFile> inputs = {
      {"the program", o.program},   {"--text", o.text},
      {"--tokens", o.tokens},       {"--batches", o.batches},
      {"--labels", o.labels},       {"--data", o.data},
      {"--row-weights", o.rowWeights}};
  const NamedFile weights = {"--weights", o.weights};
  MIXLE_RETURN_IF_ERROR(refuseOverwriting({{"--receipts", o.receipts},
                                           {"--receipts", partial}},
                                          {weights}));
  return refuseOverwriting({{"--save", o.save},
                            {"--receipts", o.receipts},
                            {"--receipts", partial}},
                           inputs);
}

/// What options say about each other, whatever the program is.
Status checkTogether(RunOptions &o) {
  MIXLE_RETURN_IF_ERROR(parseInjection(o));
  if (!o.dump.empty() && o.dump != "text" && o.dump != "json")
    return Status::error("--dump=" + o.dump +
                         ": expected --dump or --dump=json");
  if (o.verify || !o.dump.empty()) {
    const std::string which = o.verify ? "--verify" : "--dump";
    for (const std::string &option : o.given)
      if (option != which && option != "--communicator" && option != "--quiet")
        return Status::error(which + " runs nothing, so " + option +
                             " has no effect: leave it out");
    return Status::success();
  }
  MIXLE_RETURN_IF_ERROR(exclude(o, {"--text", "--tokens", "--batches"}));
  MIXLE_RETURN_IF_ERROR(
      requireWith(o, "--labels", o.has("--batches"), "--batches"));
  MIXLE_RETURN_IF_ERROR(
      requireWith(o, "--digest-every", o.has("--receipts"), "--receipts"));
  MIXLE_RETURN_IF_ERROR(
      requireWith(o, "--prompt", o.has("--generate"), "--generate"));
  MIXLE_RETURN_IF_ERROR(
      requireWith(o, "--temperature", o.has("--generate"), "--generate"));
  return checkOutputs(o);
}

Status checkTraining(const RunOptions &o) {
  const char *data = "--text, --tokens or --batches";
  MIXLE_RETURN_IF_ERROR(requireWith(o, "--steps", o.hasTrainingData(), data));
  MIXLE_RETURN_IF_ERROR(
      requireWith(o, "--evaluate", o.hasTrainingData(), data));
  MIXLE_RETURN_IF_ERROR(requireWith(o, "--receipts", o.trains(),
                                    "steps to write about: give --steps"));
  MIXLE_RETURN_IF_ERROR(requireWith(o, "--inject-failure", o.trains(),
                                    "steps to fail in: give --steps"));
  if (o.hasTrainingData() && !o.trains() && !o.evaluate)
    return Status::error("the data has no use without --steps N (to train) or "
                         "--evaluate");
  if (!o.hasTrainingData() && !o.has("--generate") && !o.has("--save"))
    return Status::error("nothing to do: give --text, --tokens or --batches to "
                         "train on, or --generate, --save, --dump or "
                         "--verify");
  // What else --seed draws: parameters, the order of rows, generated text.
  if (o.has("--seed") && !o.weights.empty() && !o.has("--generate") &&
      !(o.trains() && o.batches.empty()))
    return Status::error(
        "--seed has no effect: --weights gives the parameters, "
        "and neither rows nor text are drawn; leave it out");
  return Status::success();
}

Status checkEstimation(const RunOptions &o) {
  if (o.has("--seed") && !o.weights.empty())
    return Status::error(
        "--seed has no effect: it draws the rows that a fit "
        "starts from, and --weights gives a start; leave one of "
        "them out");
  return Status::success();
}

} // namespace

ParsedOptions parseOptions(int argc, char **argv) {
  ParsedOptions parsed;
  RunOptions &o = parsed.options;
  CLI::App app("Runs a program of mixle-compile: trains a model, or fits an "
               "estimator, on the ranks of the program's plan.\nExit status: "
               "0, 1 for bad input or a failed run, 2 for a bad command line, "
               "128 + N after signal N.",
               "mixle-run");
  addOptions(app, o);
  parsed.leave = true;
  parsed.status = 2;
  if (Status status = refuseEmptyValues(app, argc, argv); !status.ok()) {
    parsed.error = status.message() + " (see mixle-run --help)";
    return parsed;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    parsed.status = 0;
    parsed.help = app.help();
    return parsed;
  } catch (const CLI::ParseError &error) {
    parsed.error = std::string(error.what()) + " (see mixle-run --help)";
    std::replace(parsed.error.begin(), parsed.error.end(), '\n', ' ');
    return parsed;
  }
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0 && !option->get_lnames().empty())
      o.given.push_back("--" + option->get_lnames().front());
  if (Status status = checkTogether(o); !status.ok()) {
    parsed.error = status.message();
    return parsed;
  }
  parsed.leave = false;
  parsed.status = 0;
  return parsed;
}

Status checkAgainstProgram(const RunOptions &options,
                           const runtime::LoadedProgram &program) {
  bool training = program.isTraining();
  for (const std::string &option : training ? estimationOnly : trainingOnly)
    if (options.has(option))
      return Status::error(
          option + " has no effect on program '" + program.path +
          "', which is " +
          (training ? "a training program: it is an option of estimation"
                    : "an estimation program: it is an option of training") +
          "; leave it out");
  if (options.failure && options.failure->rank >= program.plan.worldSize())
    return Status::error("--inject-failure: rank " +
                         std::to_string(options.failure->rank) +
                         " is none of the program's " +
                         std::to_string(program.plan.worldSize()) + " ranks");
  return training ? checkTraining(options) : checkEstimation(options);
}

} // namespace mixle::tools
