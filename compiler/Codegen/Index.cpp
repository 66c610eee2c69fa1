//===- Index.cpp - Index expressions of loops -----------------------------===//

#include "compiler/Codegen/Index.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace mlir::mixle::codegen;

Index Index::operator+(const Index &other) const {
  Index sum;
  sum.constant = constant + other.constant;
  auto a = terms.begin(), b = other.terms.begin();
  while (a != terms.end() || b != other.terms.end()) {
    if (b == other.terms.end() || (a != terms.end() && a->first < b->first)) {
      sum.terms.push_back(*a++);
    } else if (a == terms.end() || b->first < a->first) {
      sum.terms.push_back(*b++);
    } else {
      int64_t coefficient = a->second + b->second;
      if (coefficient)
        sum.terms.push_back({a->first, coefficient});
      ++a, ++b;
    }
  }
  return sum;
}

Index Index::operator*(int64_t factor) const {
  Index product;
  if (factor == 0)
    return product;
  product = *this;
  product.constant *= factor;
  for (auto &term : product.terms)
    term.second *= factor;
  return product;
}

int64_t Index::coefficient(unsigned term) const {
  for (auto [t, c] : terms)
    if (t == term)
      return c;
  return 0;
}

bool IndexSpace::range(const Index &index, int64_t &low, int64_t &high) const {
  low = high = index.constant;
  for (auto [term, coefficient] : index.terms) {
    int64_t extent = terms[term].extent;
    if (extent < 0)
      return false;
    int64_t span = coefficient * std::max<int64_t>(extent - 1, 0);
    (coefficient > 0 ? high : low) += span;
  }
  return true;
}

bool IndexSpace::alwaysHolds(const Condition &condition) const {
  int64_t low, high;
  return range(condition.index, low, high) && low >= condition.low &&
         high < condition.high;
}

void IndexSpace::collectLoops(const Index &index,
                              SmallVectorImpl<unsigned> &loops) const {
  for (auto [term, coefficient] : index.terms) {
    if (terms[term].kind == Term::Loop)
      loops.push_back(term);
    else
      collectLoops(terms[term].operand, loops);
  }
}

unsigned IndexSpace::addPart(Term::Kind kind, const Index &operand,
                             int64_t divisor, int64_t extent) {
  for (unsigned i = 0; i < terms.size(); ++i)
    if (terms[i].kind == kind && terms[i].divisor == divisor &&
        terms[i].operand == operand)
      return i;
  terms.push_back({kind, extent, operand, divisor});
  return terms.size() - 1;
}

std::pair<Index, Index> IndexSpace::divide(const Index &index,
                                           int64_t divisor) {
  if (divisor <= 1) // 0: no element exists, any index will do
    return {index, Index()};
  Index quotient, rest;
  quotient.constant = index.constant / divisor;
  rest.constant = index.constant % divisor;
  if (rest.constant < 0) {
    rest.constant += divisor;
    quotient.constant -= 1;
  }
  for (auto [term, coefficient] : index.terms) {
    if (coefficient % divisor == 0)
      quotient.terms.push_back({term, coefficient / divisor});
    else
      rest.terms.push_back({term, coefficient});
  }
  int64_t low, high;
  bool bounded = range(rest, low, high);
  if (bounded && low >= 0 && high < divisor)
    return {quotient, rest};

  for (auto [term, coefficient] : rest.terms) {
    const Term &t = terms[term];
    if (t.kind != Term::Loop || coefficient <= 0 || divisor % coefficient)
      continue;
    int64_t inner = divisor / coefficient;
    if (t.extent > inner && t.extent % inner == 0)
      wantedSplits.push_back({term, inner});
  }
  int64_t parts = bounded && low >= 0 ? high / divisor + 1 : kUnbounded;
  unsigned q = addPart(Term::Quotient, rest, divisor, parts);
  unsigned r = addPart(Term::Remainder, rest, divisor, divisor);
  return {quotient + Index::ofTerm(q), Index::ofTerm(r)};
}

/// (i / d) * d + i % d = i, and multiples of it.
Index IndexSpace::simplified(Index index) const {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [q, coefficient] : index.terms) {
      const Term &quotient = terms[q];
      if (quotient.kind != Term::Quotient || coefficient % quotient.divisor)
        continue;
      for (auto [r, factor] : index.terms) {
        const Term &remainder = terms[r];
        if (remainder.kind != Term::Remainder ||
            remainder.divisor != quotient.divisor ||
            factor != coefficient / quotient.divisor ||
            remainder.operand != quotient.operand)
          continue;
        index = index + Index::ofTerm(q) * -coefficient +
                Index::ofTerm(r) * -factor + quotient.operand * factor;
        changed = true;
        break;
      }
      if (changed)
        break;
    }
  }
  return index;
}

Index IndexSpace::linearize(ArrayRef<Index> indices, ArrayRef<int64_t> shape) {
  Index sum;
  int64_t stride = 1;
  for (size_t i = indices.size(); i-- > 0;) {
    sum = sum + indices[i] * stride;
    if (!ShapedType::isDynamic(shape[i]))
      stride *= shape[i];
  }
  return simplified(sum);
}

Indices IndexSpace::delinearize(Index index, ArrayRef<int64_t> shape) {
  Indices indices(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    if (i == 0) {
      indices[0] = index;
    } else {
      auto [quotient, remainder] = divide(index, shape[i]);
      indices[i] = shape[i] == 1 ? Index() : remainder;
      index = quotient;
    }
  }
  return indices;
}
