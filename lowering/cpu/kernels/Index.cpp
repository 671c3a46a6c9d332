//===- Index.cpp - Indices of tensor elements, as expressions -------------===//

#include "lowering/cpu/kernels/Index.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace sheaf::cpu;
using namespace llvm;

unsigned Indexing::addLoop(int64_t low, int64_t high, unsigned depth,
                           int64_t lanes, mlir::Value value) {
  variables.push_back(
      {Variable::Kind::Loop, low, high, depth, lanes, Index(), 1, value});
  return variables.size() - 1;
}

unsigned Indexing::addData(int64_t low, int64_t high, unsigned depth,
                           int64_t lanes, mlir::Value value) {
  variables.push_back(
      {Variable::Kind::Data, low, high, depth, lanes, Index(), 1, value});
  return variables.size() - 1;
}

unsigned Indexing::derived(Variable::Kind kind, const Index &base,
                           int64_t divisor) {
  for (auto [i, variable] : enumerate(variables))
    if (variable.kind == kind && variable.divisor == divisor &&
        variable.base == base)
      return i;
  auto [low, high] = range(base);
  if (kind == Variable::Kind::Div) {
    low = divideFloorSigned(low, divisor);
    high = divideFloorSigned(high, divisor);
  } else {
    low = 0;
    high = divisor - 1;
  }
  variables.push_back({kind, low, high, depth(base), lanes(base).count, base,
                       divisor, nullptr});
  return variables.size() - 1;
}

/// divisor * floor(x / divisor) + x mod divisor is x.
void Indexing::normalize(Index &index) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (const Index::Term &rest : index.terms) {
      const Variable &mod = variables[rest.variable];
      if (mod.kind != Variable::Kind::Mod)
        continue;
      for (const Index::Term &quotient : index.terms) {
        const Variable &div = variables[quotient.variable];
        if (div.kind != Variable::Kind::Div || div.divisor != mod.divisor ||
            !(div.base == mod.base) ||
            quotient.coefficient != rest.coefficient * mod.divisor)
          continue;
        Index::Term gone[] = {rest, quotient};
        Index base = scale(mod.base, rest.coefficient);
        erase_if(index.terms, [&](const Index::Term &term) {
          return term == gone[0] || term == gone[1];
        });
        index = add(index, base);
        changed = true;
        break;
      }
      if (changed)
        break;
    }
  }
}

Index Indexing::add(const Index &a, const Index &b) {
  Index sum(a.constant + b.constant);
  auto i = a.terms.begin(), j = b.terms.begin();
  while (i != a.terms.end() || j != b.terms.end()) {
    if (j == b.terms.end() ||
        (i != a.terms.end() && i->variable < j->variable)) {
      sum.terms.push_back(*i++);
    } else if (i == a.terms.end() || j->variable < i->variable) {
      sum.terms.push_back(*j++);
    } else {
      if (int64_t coefficient = i->coefficient + j->coefficient)
        sum.terms.push_back({i->variable, coefficient});
      ++i, ++j;
    }
  }
  normalize(sum);
  return sum;
}

Index Indexing::scale(const Index &a, int64_t factor) {
  if (factor == 0)
    return Index(0);
  Index scaled = a;
  scaled.constant *= factor;
  for (Index::Term &term : scaled.terms)
    term.coefficient *= factor;
  return scaled;
}

/// The part of `a` that `divisor` divides, and the rest.
static std::pair<Index, Index> split(const Index &a, int64_t divisor) {
  Index whole, rest;
  whole.constant = divideFloorSigned(a.constant, divisor);
  rest.constant = a.constant - whole.constant * divisor;
  for (const Index::Term &term : a.terms) {
    if (term.coefficient % divisor == 0)
      whole.terms.push_back({term.variable, term.coefficient / divisor});
    else
      rest.terms.push_back(term);
  }
  return {whole, rest};
}

Index Indexing::floorDiv(const Index &a, int64_t divisor) {
  if (divisor == 1)
    return a;
  auto [whole, rest] = split(a, divisor);
  auto [low, high] = range(rest);
  int64_t first = divideFloorSigned(low, divisor);
  if (first == divideFloorSigned(high, divisor))
    return add(whole, Index(first));
  return add(whole, of(derived(Variable::Kind::Div, rest, divisor)));
}

Index Indexing::mod(const Index &a, int64_t divisor) {
  if (divisor == 1)
    return Index(0);
  auto [whole, rest] = split(a, divisor);
  auto [low, high] = range(rest);
  int64_t first = divideFloorSigned(low, divisor);
  if (first == divideFloorSigned(high, divisor))
    return add(rest, Index(-first * divisor));
  return of(derived(Variable::Kind::Mod, rest, divisor));
}

Index Indexing::linearize(ArrayRef<Index> place, ArrayRef<int64_t> shape) {
  // The sum is taken at once, so that quotients and rests meet.
  Index offset;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    offset = add(offset, scale(place[i], stride));
    stride *= shape[i];
  }
  return offset;
}

Indices Indexing::delinearize(const Index &offset, ArrayRef<int64_t> shape) {
  Indices place(shape.size());
  Index left = offset;
  for (size_t i = shape.size(); i-- > 0;) {
    place[i] = mod(left, shape[i]);
    left = floorDiv(left, shape[i]);
  }
  return place;
}

std::pair<int64_t, int64_t> Indexing::range(const Index &index) const {
  int64_t low = index.constant, high = index.constant;
  for (const Index::Term &term : index.terms) {
    const Variable &variable = variables[term.variable];
    low += term.coefficient *
           (term.coefficient > 0 ? variable.low : variable.high);
    high += term.coefficient *
            (term.coefficient > 0 ? variable.high : variable.low);
  }
  return {low, high};
}

unsigned Indexing::depth(const Index &index) const {
  unsigned depth = 0;
  for (const Index::Term &term : index.terms)
    depth = std::max(depth, variables[term.variable].depth);
  return depth;
}

unsigned Indexing::depth(ArrayRef<Index> place) const {
  unsigned deepest = 0;
  for (const Index &index : place)
    deepest = std::max(deepest, depth(index));
  return deepest;
}

bool Indexing::dependsOn(const Index &index, unsigned variable) const {
  return any_of(index.terms, [&](const Index::Term &term) {
    if (term.variable == variable)
      return true;
    const Variable &v = variables[term.variable];
    return (v.kind == Variable::Kind::Div || v.kind == Variable::Kind::Mod ||
            v.kind == Variable::Kind::Data) &&
           dependsOn(v.base, variable);
  });
}

bool Indexing::isKnown(const Index &index) const {
  return all_of(index.terms, [&](const Index::Term &term) {
    const Variable &v = variables[term.variable];
    bool derived =
        v.kind == Variable::Kind::Div || v.kind == Variable::Kind::Mod;
    return derived ? isKnown(v.base) : static_cast<bool>(v.value);
  });
}

Indexing::Lanes Indexing::lanes(const Index &index) const {
  Lanes lanes;
  for (const Index::Term &term : index.terms) {
    const Variable &variable = variables[term.variable];
    if (variable.lanes == 1)
      continue;
    lanes.count = variable.lanes;
    if (variable.kind != Variable::Kind::Loop)
      lanes.step = std::nullopt;
    else if (lanes.step)
      *lanes.step += term.coefficient;
  }
  return lanes;
}
