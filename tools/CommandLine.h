//===- CommandLine.h - What the tools' command lines share ------*- C++ -*-===//
//
// Options with numbers that are checked as a whole, values that are empty, and
// outputs that would replace what a command reads.
//
//===----------------------------------------------------------------------===//

#ifndef MIXLE_TOOLS_COMMANDLINE_H
#define MIXLE_TOOLS_COMMANDLINE_H

#include "mixle/Status.h"
#include "runtime/base/KeyValues.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace mixle::tools {

/// Adds an option whose value is an integer in [least, most]. (CLI11's own
/// conversion wraps and saturates.)
template <typename Target>
CLI::Option *addInteger(CLI::App &app, const std::string &name, Target &target,
                        int64_t least, const std::string &description,
                        int64_t most = std::numeric_limits<int64_t>::max()) {
  return app
      .add_option_function<std::string>(
          name,
          [name, &target, least, most](const std::string &text) {
            runtime::Expected<int64_t> value =
                runtime::parseInteger(text, name);
            if (!value.ok())
              throw CLI::ValidationError(value.status().message());
            if (*value < least)
              throw CLI::ValidationError(name + " " + text +
                                         ": expected at least " +
                                         std::to_string(least));
            if (*value > most)
              throw CLI::ValidationError(name + " " + text +
                                         ": expected at most " +
                                         std::to_string(most));
            target = *value;
          },
          description)
      ->type_name("N");
}

/// Adds an option whose value is a finite number of at least 0.
template <typename Target>
CLI::Option *addReal(CLI::App &app, const std::string &name, Target &target,
                     const std::string &description) {
  return app
      .add_option_function<std::string>(
          name,
          [name, &target](const std::string &text) {
            runtime::Expected<double> value = runtime::parseReal(text, name);
            if (!value.ok())
              throw CLI::ValidationError(value.status().message());
            if (*value < 0)
              throw CLI::ValidationError(name + " " + text +
                                         ": expected at least 0");
            target = *value;
          },
          description)
      ->type_name("X");
}

/// Adds an option whose value is a path.
inline CLI::Option *addFile(CLI::App &app, const std::string &name,
                            std::string &target,
                            const std::string &description) {
  return app.add_option(name, target, description)->type_name("FILE");
}

/// An option's name, as users write it.
inline std::string nameOf(const CLI::Option &option) {
  return option.get_lnames().empty() ? option.get_name()
                                     : "--" + option.get_lnames().front();
}

/// Every option takes what it is given, and nothing is no value of any. Checked
/// on the words, so that no option's own check speaks first.
inline runtime::Status refuseEmptyValues(const CLI::App &app, int argc,
                                         char **argv) {
  auto refuse = [](const std::string &name) {
    return runtime::Status::error(name +
                                  ": its value is empty; give one or leave the "
                                  "option out");
  };
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string before = i > 1 ? argv[i - 1] : "";
    if (word.empty()) {
      const CLI::Option *option = app.get_option_no_throw(before);
      if (before.rfind('-', 0) == 0 && option && option->get_expected_max() > 0)
        return refuse(before);
      return runtime::Status::error("an argument is empty");
    }
    if (word.rfind("--", 0) == 0 && word.find('=') == word.size() - 1)
      return refuse(word.substr(0, word.size() - 1));
  }
  return runtime::Status::success();
}

/// A file that a command names, and by which option.
struct NamedFile {
  std::string option;
  std::string path; ///< empty: the option was not given
};

/// Whether two paths name one file, whether it is there yet or not. Devices and
/// pipes do not count: writing replaces nothing there.
inline bool isSameFile(const std::string &a, const std::string &b) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (a.empty() || b.empty())
    return false;
  const fs::file_status status = fs::status(a, error);
  if (fs::exists(status)) {
    if (!fs::is_regular_file(status))
      return false;
    return fs::equivalent(a, b, error) && !error;
  }
  const fs::path first = fs::weakly_canonical(fs::absolute(a, error), error);
  const fs::path second = fs::weakly_canonical(fs::absolute(b, error), error);
  return !error && first == second;
}

/// Refuses an output that is one of the inputs, which it would replace, or
/// another output.
inline runtime::Status refuseOverwriting(const std::vector<NamedFile> &outputs,
                                         const std::vector<NamedFile> &inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile &output = outputs[i];
    for (const NamedFile &input : inputs)
      if (isSameFile(output.path, input.path))
        return runtime::Status::error(
            output.option + " and " + input.option + " both name '" +
            output.path + "': the output would replace the input; give " +
            output.option + " another name");
    for (size_t j = 0; j < i; ++j)
      if (outputs[j].option != output.option &&
          isSameFile(output.path, outputs[j].path))
        return runtime::Status::error(outputs[j].option + " and " +
                                      output.option + " both name '" +
                                      output.path +
                                      "': give each a file of its own");
  }
  return runtime::Status::success();
}

} // namespace mixle::tools

#endif // MIXLE_TOOLS_COMMANDLINE_H
