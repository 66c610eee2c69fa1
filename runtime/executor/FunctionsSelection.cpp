//===- FunctionsSelection.cpp - Rows and labels that one rank owns --------===//

#include "runtime/executor/Functions.h"
#include "runtime/kernels/Select.h"

namespace mixle::runtime {

namespace {

using detail::anyNumber;
using detail::maxIndex;

template <typename T> struct Embedding {
  enum { M, D, FirstRow, OwnedRows };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    touched[0] = Extent(s[OwnedRows]) * s[D];
    touched[1] = s[M];
    touched[2] = Extent(s[M]) * s[D];
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    const int64_t *s = call.scalars;
    gatherRows<T>(s[M], s[D], call.at<const int32_t>(1), s[FirstRow],
                  s[OwnedRows], call.at<const T>(0), s[D], call.at<T>(2), s[D]);
    return Status::success();
  }
};

template <typename T> struct SelectLabel {
  enum { M, Columns, FirstColumn, ValidColumns };

  static Status check(const CallArguments &call, Extent *touched) {
    const int64_t *s = call.scalars;
    if (s[ValidColumns] > s[Columns])
      return Status::error(std::to_string(s[ValidColumns]) +
                           " valid columns of " + std::to_string(s[Columns]));
    touched[0] = Extent(s[M]) * s[Columns];
    touched[1] = s[M];
    touched[2] = s[M];
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    const int64_t *s = call.scalars;
    selectLabel<T>(s[M], call.at<const int32_t>(1), s[FirstColumn],
                   s[ValidColumns], call.at<const T>(0), s[Columns],
                   call.at<T>(2));
    return Status::success();
  }
};

struct CountLabels {
  enum { M, Ignore };

  static Status check(const CallArguments &call, Extent *touched) {
    touched[0] = 1;
    touched[1] = call.scalars[M];
    return Status::success();
  }
  static Status execute(const FunctionCall &call) {
    const int32_t *labels = call.at<const int32_t>(1);
    int64_t counted = 0;
    for (int64_t i = 0; i < call.scalars[M]; ++i)
      counted += labels[i] != call.scalars[Ignore];
    *call.at<int64_t>(0) += counted;
    return Status::success();
  }
};

template <typename T>
void addSelectionFunctionsOf(detail::FunctionTable &table) {
  constexpr fb::DataType type = detail::dataTypeOf<T>();
  const std::string suffix = detail::suffixOf<T>();
  table.push_back(
      {"embedding" + suffix,
       {{"table", type}, {"ids", fb::DataType::I32}, {"out", type, true}},
       {{"M", 0, anyNumber},
        {"D", 0, anyNumber},
        {"first_row", 0, maxIndex},
        {"owned_rows", 0, anyNumber}},
       {},
       false,
       Embedding<T>::check,
       Embedding<T>::execute});
  table.push_back(
      {"select_label" + suffix,
       {{"logits", type}, {"labels", fb::DataType::I32}, {"out", type, true}},
       {{"M", 0, anyNumber},
        {"columns", 0, anyNumber},
        {"first_column", 0, maxIndex},
        {"valid_columns", 0, anyNumber}},
       {},
       false,
       SelectLabel<T>::check,
       SelectLabel<T>::execute});
}

} // namespace

void detail::addSelectionFunctions(FunctionTable &table) {
  addSelectionFunctionsOf<float>(table);
  addSelectionFunctionsOf<double>(table);
  table.push_back(
      {"count_labels",
       {{"count", fb::DataType::I64, true}, {"labels", fb::DataType::I32}},
       {{"M", 0, anyNumber}, {"ignore", INT32_MIN, INT32_MAX}},
       {},
       false,
       CountLabels::check,
       CountLabels::execute});
}

} // namespace mixle::runtime
