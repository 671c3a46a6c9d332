//===- AttentionTest.cpp - Attention kernels against plain loops ----------===//
//
// Builds the attention kernels for many shapes and options, runs them and
// compares with double-precision loops over the whole score matrix. Every
// array ends at an unmapped page, so that a read or write past it faults, and
// outputs start as NaN, so that an element not written is seen.
//
// Usage: attention-test [number of random specs] [seed]
//
//===----------------------------------------------------------------------===//

#include "KernelJit.h"

#include "lowering/cpu/attention/Attention.h"
#include "lowering/cpu/attention/TileEmitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/TargetParser/Host.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace sheaf::cpu;
using sheaf::test::KernelJit;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::numeric_limits<double>::quiet_NaN();

int failures = 0;

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

/// `bytes` of memory that end where an unmapped page begins.
class GuardedMemory {
public:
  explicit GuardedMemory(size_t bytes) {
    size_t page = size_t(sysconf(_SC_PAGESIZE));
    size_t payload = (bytes + page - 1) / page * page;
    mapped = payload + page;
    base = static_cast<char *>(mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base == MAP_FAILED || mprotect(base + payload, page, PROT_NONE) != 0) {
      std::perror("mmap");
      std::exit(1);
    }
    data = base + payload - bytes;
  }
  ~GuardedMemory() { munmap(base, mapped); }
  GuardedMemory(const GuardedMemory &) = delete;
  GuardedMemory &operator=(const GuardedMemory &) = delete;
  char *data;

private:
  char *base;
  size_t mapped;
};

/// Doubles for the reference and the same values in the kernel's type.
struct Array {
  std::vector<double> reference;
  /// For gradients: the sum of the absolute values of what is added up, which
  /// rounding errors are in proportion to where the sum cancels.
  std::vector<double> magnitude;
  std::unique_ptr<GuardedMemory> memory;
  bool isF32 = true;

  void allocate(size_t count, bool f32) {
    isF32 = f32;
    reference.assign(count, 0.0);
    memory = std::make_unique<GuardedMemory>(count * (f32 ? 4 : 8));
  }
  size_t size() const { return reference.size(); }
  void *data() const { return memory->data; }
  double get(size_t i) const {
    if (isF32)
      return reinterpret_cast<float *>(memory->data)[i];
    return reinterpret_cast<double *>(memory->data)[i];
  }
  /// Sets both, rounded to the kernel's type.
  void set(size_t i, double value) {
    if (isF32)
      reinterpret_cast<float *>(memory->data)[i] = float(value);
    else
      reinterpret_cast<double *>(memory->data)[i] = value;
    reference[i] = get(i);
  }
  void fillKernelSide(double value) {
    for (size_t i = 0; i < size(); ++i)
      if (isF32)
        reinterpret_cast<float *>(memory->data)[i] = float(value);
      else
        reinterpret_cast<double *>(memory->data)[i] = value;
  }
  std::vector<char> bytes() const {
    return {memory->data, memory->data + size() * (isF32 ? 4 : 8)};
  }
};

struct Problem {
  AttentionSpec spec;
  Array q, k, v, out, lse, dout, dlse, bias, dq, dk, dv, dbias;
  std::vector<int32_t> queryDocuments, keyDocuments;
  std::unique_ptr<GuardedMemory> queryIds, keyIds, first;

  /// The position of the first query.
  int64_t firstPosition() const {
    return spec.hasFirstPosition ? *reinterpret_cast<int32_t *>(first->data)
                                 : spec.keys - spec.queries;
  }
  void setFirstPosition(int64_t position) {
    *reinterpret_cast<int32_t *>(first->data) = int32_t(position);
  }

  size_t at(int64_t b, int64_t i, int64_t h, int64_t rows, int64_t heads,
            int64_t columns, int64_t c) const {
    return size_t(((b * rows + i) * heads + h) * columns + c);
  }
  size_t biasAt(int64_t b, int64_t h, int64_t i, int64_t j) const {
    auto [bb, hb] = *spec.bias;
    return size_t(
        (((bb == 1 ? 0 : b) * hb + (hb == 1 ? 0 : h)) * spec.queries + i) *
            spec.keys +
        j);
  }
  bool visible(int64_t b, int64_t i, int64_t j) const {
    int64_t p = i + firstPosition();
    if (spec.causal && j > p)
      return false;
    if (spec.window && std::abs(p - j) >= *spec.window)
      return false;
    if (spec.hasDocuments && queryDocuments[size_t(b * spec.queries + i)] !=
                                 keyDocuments[size_t(b * spec.keys + j)])
      return false;
    return true;
  }

  void initialize(std::mt19937 &random) {
    const AttentionSpec &s = spec;
    bool f32 = s.elementType.isF32();
    std::normal_distribution<double> normal(0.0, 1.0);
    auto fill = [&](Array &array, int64_t count, bool isInput) {
      array.allocate(size_t(count), f32);
      if (isInput)
        for (size_t i = 0; i < array.size(); ++i)
          array.set(i, normal(random));
    };
    int64_t B = s.batch, S = s.queries, T = s.keys, H = s.heads, G = s.kvHeads;
    fill(q, B * S * H * s.headDim, true);
    fill(k, B * T * G * s.headDim, true);
    fill(v, B * T * G * s.valueDim, true);
    fill(out, B * S * H * s.valueDim, false);
    fill(lse, B * S * H, false);
    fill(dout, B * S * H * s.valueDim, true);
    if (s.hasLseGradient)
      fill(dlse, B * S * H, true);
    fill(dq, B * S * H * s.headDim, false);
    fill(dk, B * T * G * s.headDim, false);
    fill(dv, B * T * G * s.valueDim, false);
    if (s.bias) {
      int64_t count = (*s.bias)[0] * (*s.bias)[1] * S * T;
      fill(bias, count, true);
      // -inf hides a pair, as masks given as a bias do; also a whole row.
      for (size_t i = 0; i < bias.size(); ++i)
        if (random() % 8 == 0 || i / size_t(T) % 37 == 5)
          bias.set(i, -kInfinity);
      fill(dbias, count, false);
    }
    if (s.hasDocuments) {
      // Ascending ids as in a packed batch, with one that no key has.
      auto ids = [&](std::vector<int32_t> &ids,
                     std::unique_ptr<GuardedMemory> &m, int64_t length,
                     int shift) {
        ids.resize(size_t(B * length));
        for (int64_t b = 0; b < B; ++b)
          for (int64_t i = 0; i < length; ++i)
            ids[size_t(b * length + i)] =
                int32_t(i * 3 / std::max<int64_t>(length, 1) + shift +
                        (random() % 16 == 0 ? 7 : 0));
        m = std::make_unique<GuardedMemory>(ids.size() * 4);
        std::memcpy(m->data, ids.data(), ids.size() * 4);
      };
      ids(queryDocuments, queryIds, S, 0);
      ids(keyDocuments, keyIds, T, random() % 4 == 0 ? 1 : 0);
    }
    if (s.hasFirstPosition) {
      first = std::make_unique<GuardedMemory>(4);
      setFirstPosition(T - S);
    }
  }

  /// Forward, then gradients, in plain loops. NaN reaches what depends on it
  /// through visible pairs.
  void reference() {
    const AttentionSpec &s = spec;
    int64_t B = s.batch, S = s.queries, T = s.keys, H = s.heads, G = s.kvHeads;
    int64_t D = s.headDim, Dv = s.valueDim;
    for (Array *a : {&dq, &dk, &dv, &dbias, &out}) {
      std::fill(a->reference.begin(), a->reference.end(), 0.0);
      a->magnitude.assign(a->size(), 0.0);
    }
    std::vector<double> p(size_t(T), 0.0);
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < H; ++h) {
        int64_t g = h / (H / G);
        for (int64_t i = 0; i < S; ++i) {
          auto qa = [&](int64_t d) { return at(b, i, h, S, H, D, d); };
          auto oa = [&](int64_t d) { return at(b, i, h, S, H, Dv, d); };
          auto ka = [&](int64_t j, int64_t d) {
            return at(b, j, g, T, G, D, d);
          };
          auto va = [&](int64_t j, int64_t d) {
            return at(b, j, g, T, G, Dv, d);
          };
          size_t row = at(b, i, h, S, H, 1, 0);
          double peak = -kInfinity;
          for (int64_t j = 0; j < T; ++j) {
            p[size_t(j)] = -kInfinity;
            if (!visible(b, i, j))
              continue;
            double sum = 0;
            for (int64_t d = 0; d < D; ++d)
              sum += q.reference[qa(d)] * k.reference[ka(j, d)];
            sum = s.scale * sum +
                  (s.bias ? bias.reference[biasAt(b, h, i, j)] : 0);
            p[size_t(j)] = sum;
            peak = std::isnan(sum) || std::isnan(peak) ? kNaN
                                                       : std::max(peak, sum);
          }
          double total = 0;
          for (int64_t j = 0; j < T; ++j)
            if (visible(b, i, j) && peak != -kInfinity)
              total += std::exp(p[size_t(j)] - peak);
          lse.reference[row] = peak + std::log(total);
          if (total == 0)
            continue;
          double delta = s.hasLseGradient ? -dlse.reference[row] : 0.0;
          for (int64_t j = 0; j < T; ++j) {
            if (!visible(b, i, j))
              continue;
            p[size_t(j)] = std::exp(p[size_t(j)] - lse.reference[row]);
            for (int64_t d = 0; d < Dv; ++d)
              out.reference[oa(d)] += p[size_t(j)] * v.reference[va(j, d)];
          }
          double deltaMagnitude = std::fabs(delta);
          for (int64_t d = 0; d < Dv; ++d) {
            double term = dout.reference[oa(d)] * out.reference[oa(d)];
            delta += term;
            deltaMagnitude += std::fabs(term);
          }
          for (int64_t j = 0; j < T; ++j) {
            if (!visible(b, i, j))
              continue;
            double dp = 0, dpMagnitude = 0;
            for (int64_t d = 0; d < Dv; ++d) {
              double term = dout.reference[oa(d)] * v.reference[va(j, d)];
              dp += term;
              dpMagnitude += std::fabs(term);
              dv.reference[va(j, d)] += p[size_t(j)] * dout.reference[oa(d)];
              dv.magnitude[va(j, d)] +=
                  std::fabs(p[size_t(j)] * dout.reference[oa(d)]);
            }
            double ds = p[size_t(j)] * (dp - delta);
            double dsMagnitude = p[size_t(j)] * (dpMagnitude + deltaMagnitude);
            if (s.bias) {
              dbias.reference[biasAt(b, h, i, j)] += ds;
              dbias.magnitude[biasAt(b, h, i, j)] += dsMagnitude;
            }
            for (int64_t d = 0; d < D; ++d) {
              double kd = k.reference[ka(j, d)], qd = q.reference[qa(d)];
              dq.reference[qa(d)] += s.scale * ds * kd;
              dk.reference[ka(j, d)] += s.scale * ds * qd;
              dq.magnitude[qa(d)] += std::fabs(s.scale * dsMagnitude * kd);
              dk.magnitude[ka(j, d)] += std::fabs(s.scale * dsMagnitude * qd);
            }
          }
        }
      }
  }
};

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

struct Kernels {
  std::unique_ptr<KernelJit> jit;
  BuiltKernel forward, backward, queryGradientSum, biasGradient;
  int64_t pieces = 1;

  Kernels(MLIRContext &context, const AttentionSpec &spec,
          const AttentionTuning &tuning, const std::string &cpu = "") {
    OpBuilder builder(&context);
    Location loc = builder.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
    auto take = [&](FailureOr<BuiltKernel> built) {
      if (failed(built)) {
        std::fprintf(stderr, "error: no kernel\n");
        std::exit(1);
      }
      return *built;
    };
    forward =
        take(buildAttentionForward(builder, loc, "forward", spec, tuning));
    backward =
        take(buildAttentionBackward(builder, loc, "backward", spec, tuning));
    pieces = *attentionBackwardPieces(loc, spec, tuning);
    if (pieces > 1)
      queryGradientSum = take(buildAttentionQueryGradientSum(
          builder, loc, "query_gradient_sum", spec, tuning));
    if (spec.bias)
      biasGradient = take(buildAttentionBiasGradient(
          builder, loc, "bias_gradient", spec, tuning));
    if (failed(verify(*module)))
      std::exit(1);
    jit = std::make_unique<KernelJit>(*module, cpu);
  }

  /// Calls `name` on [0, extent) in pieces: 0 whole, 1 task by task from the
  /// end, 2 in two uneven parts, the second first.
  void callCut(const std::string &name, const std::vector<void *> &data,
               int64_t extent, int cut) const {
    if (cut == 0) {
      jit->call(name, data, 0, extent);
    } else if (cut == 1) {
      for (int64_t task = extent; task-- > 0;)
        jit->call(name, data, task, task + 1);
    } else {
      int64_t middle = (extent + 2) / 3;
      jit->call(name, data, middle, extent);
      jit->call(name, data, 0, middle);
    }
  }

  void runForward(Problem &p, int cut = 0) const {
    std::vector<void *> data = {p.q.data(), p.k.data(), p.v.data()};
    optional(p, data);
    data.push_back(p.out.data());
    if (p.spec.wantsLse)
      data.push_back(p.lse.data());
    callCut("forward", data, forward.extent, cut);
  }
  void runBackward(Problem &p, int cut = 0) const {
    std::vector<void *> data = {p.q.data(),   p.k.data(),   p.v.data(),
                                p.out.data(), p.lse.data(), p.dout.data()};
    if (p.spec.hasLseGradient)
      data.push_back(p.dlse.data());
    optional(p, data);
    std::vector<void *> reads = data;
    Array parts;
    if (pieces > 1) {
      parts.allocate(size_t(pieces) * p.dq.size(), p.dq.isF32);
      parts.fillKernelSide(kNaN);
      data.push_back(parts.data());
    } else {
      data.push_back(p.dq.data());
    }
    data.push_back(p.dk.data());
    data.push_back(p.dv.data());
    callCut("backward", data, backward.extent, cut);
    if (pieces > 1)
      callCut("query_gradient_sum", {parts.data(), p.dq.data()},
              queryGradientSum.extent, cut);
    if (p.spec.bias) {
      reads.push_back(p.dbias.data());
      callCut("bias_gradient", reads, biasGradient.extent, cut);
    }
  }

private:
  static void optional(Problem &p, std::vector<void *> &data) {
    if (p.spec.bias)
      data.push_back(p.bias.data());
    if (p.spec.hasDocuments) {
      data.push_back(p.queryIds->data);
      data.push_back(p.keyIds->data);
    }
    if (p.spec.hasFirstPosition)
      data.push_back(p.first->data);
  }
};

std::string describe(const AttentionSpec &s, const AttentionTuning &t) {
  char text[420];
  std::snprintf(
      text, sizeof text,
      "B=%ld S=%ld T=%ld H=%ld G=%ld D=%ld Dv=%ld %s%s%s window=%ld docs=%d "
      "bias=%ldx%ld dlse=%d vector=%ld micro=%ldx%ld tile=%ldx%ld tasks=%ld",
      long(s.batch), long(s.queries), long(s.keys), long(s.heads),
      long(s.kvHeads), long(s.headDim), long(s.valueDim),
      s.elementType.isF32() ? "f32" : "f64", s.causal ? " causal" : "",
      s.hasFirstPosition ? " from" : "", long(s.window.value_or(0)),
      s.hasDocuments, s.bias ? long((*s.bias)[0]) : 0,
      s.bias ? long((*s.bias)[1]) : 0, s.hasLseGradient, long(t.vectorBytes),
      long(t.microRows), long(t.microVectors), long(t.tileQueries),
      long(t.tileKeys), long(t.minBackwardTasks));
  return text;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

void report(const std::string &what, const std::string &spec) {
  if (++failures <= 20)
    std::fprintf(stderr, "FAILED %s: %s\n", what.c_str(), spec.c_str());
}

/// Largest difference relative to the largest reference value or magnitude;
/// infinity where one is NaN or infinite and the other is not the same.
double difference(const Array &a) {
  double worst = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    double want = a.reference[i], got = a.get(i);
    if (std::isnan(want) || std::isnan(got))
      return std::isnan(want) && std::isnan(got) ? worst : kInfinity;
    if (std::isinf(want) || std::isinf(got)) {
      if (want != got)
        return kInfinity;
      continue;
    }
    largest = std::max(largest, std::fabs(want));
    if (!a.magnitude.empty())
      largest = std::max(largest, a.magnitude[i]);
    worst = std::max(worst, std::fabs(want - got));
  }
  return worst / std::max(largest, 1e-3);
}

double worstSeen[2] = {0, 0};
int specsWithPieces = 0;

void compare(Problem &p, const Kernels &kernels, const std::string &text) {
  // Exponentials turn the absolute error of a score, which grows with the
  // score, into a relative one.
  double tolerance = p.spec.elementType.isF32() ? 5e-6 : 2e-14;
  double size = std::fabs(p.spec.scale) * std::sqrt(double(p.spec.headDim));
  tolerance *= std::max(1.0, size);
  p.reference();
  std::vector<std::pair<const char *, Array *>> outputs = {
      {"out", &p.out}, {"dq", &p.dq}, {"dk", &p.dk}, {"dv", &p.dv}};
  if (p.spec.wantsLse)
    outputs.push_back({"lse", &p.lse});
  if (p.spec.bias)
    outputs.push_back({"dbias", &p.dbias});

  std::vector<std::vector<char>> first;
  for (int cut = 0; cut < 3; ++cut) {
    for (auto &[name, array] : outputs)
      array->fillKernelSide(kNaN);
    kernels.runForward(p, cut);
    if (!p.spec.wantsLse)
      for (size_t i = 0; i < p.lse.size(); ++i)
        p.lse.set(i, p.lse.reference[i]);
    kernels.runBackward(p, cut);
    for (size_t o = 0; o < outputs.size(); ++o) {
      auto [name, array] = outputs[o];
      if (cut == 0) {
        first.push_back(array->bytes());
        double error = difference(*array);
        double &worst = worstSeen[p.spec.elementType.isF32() ? 0 : 1];
        worst = std::max(worst, error / std::max(1.0, size));
        if (!(error <= tolerance))
          report(std::string(name) + " differs by " + number(error), text);
      } else if (array->bytes() != first[o]) {
        report(std::string(name) + " depends on the cut of the index space",
               text);
      }
    }
  }
}

/// Queries behind the valid ones may hold anything, and change no bit of the
/// others' results.
void checkPadding(Problem &p, const Kernels &kernels, std::mt19937 &random,
                  const std::string &text) {
  const AttentionSpec &s = p.spec;
  int64_t valid = int64_t(random() % uint64_t(s.queries));
  kernels.runForward(p);
  std::vector<char> before = p.out.bytes();
  std::vector<double> saved = p.q.reference;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t i = valid; i < s.queries; ++i)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t d = 0; d < s.headDim; ++d)
          p.q.set(p.at(b, i, h, s.queries, s.heads, s.headDim, d),
                  d % 2 ? kNaN : kInfinity);
  kernels.runForward(p);
  std::vector<char> after = p.out.bytes();
  size_t row = before.size() / size_t(s.batch * s.queries);
  for (int64_t b = 0; b < s.batch; ++b)
    if (std::memcmp(&before[size_t(b * s.queries) * row],
                    &after[size_t(b * s.queries) * row],
                    size_t(valid) * row) != 0)
      report("padding of the queries reaches other rows", text);
  for (size_t i = 0; i < saved.size(); ++i)
    p.q.set(i, saved[i]);
}

/// NaN in one element of an input: wherever the loops have NaN, so must the
/// kernels.
void checkNaN(Problem &p, const Kernels &kernels, std::mt19937 &random,
              const std::string &text) {
  std::vector<std::pair<const char *, Array *>> inputs = {
      {"q", &p.q}, {"k", &p.k}, {"v", &p.v}, {"dout", &p.dout}};
  if (p.spec.bias)
    inputs.push_back({"bias", &p.bias});
  if (p.spec.hasLseGradient)
    inputs.push_back({"dlse", &p.dlse});
  for (auto &[name, input] : inputs) {
    size_t where = random() % input->size();
    double saved = input->reference[where];
    input->set(where, kNaN);
    p.reference();
    kernels.runForward(p);
    if (!p.spec.wantsLse)
      for (size_t i = 0; i < p.lse.size(); ++i)
        p.lse.set(i, p.lse.reference[i]);
    kernels.runBackward(p);
    for (Array *a : {&p.out, &p.lse, &p.dq, &p.dk, &p.dv, &p.dbias})
      for (size_t i = 0; i < a->size(); ++i)
        if (std::isnan(a->reference[i]) && !std::isnan(a->get(i))) {
          report(std::string("NaN in ") + name + " is lost", text);
          break;
        }
    input->set(where, saved);
  }
}

/// Central differences of sum(dout * out) + sum(dlse * lse), all by kernels.
void checkFiniteDifferences(Problem &p, const Kernels &kernels,
                            std::mt19937 &random, const std::string &text) {
  kernels.runForward(p);
  kernels.runBackward(p);
  auto loss = [&] {
    kernels.runForward(p);
    double sum = 0;
    for (size_t i = 0; i < p.out.size(); ++i)
      sum += p.dout.get(i) * p.out.get(i);
    if (p.spec.hasLseGradient)
      for (size_t i = 0; i < p.lse.size(); ++i)
        if (!std::isinf(p.lse.get(i)))
          sum += p.dlse.get(i) * p.lse.get(i);
    return sum;
  };
  std::vector<std::pair<Array *, Array *>> pairs = {
      {&p.q, &p.dq}, {&p.k, &p.dk}, {&p.v, &p.dv}};
  if (p.spec.bias)
    pairs.push_back({&p.bias, &p.dbias});
  for (auto [input, gradient] : pairs)
    for (int sample = 0; sample < 6; ++sample) {
      size_t i = random() % input->size();
      double value = input->reference[i], step = 1e-5;
      if (std::isinf(value))
        continue;
      input->set(i, value + step);
      double up = loss();
      input->set(i, value - step);
      double down = loss();
      input->set(i, value);
      double numeric = (up - down) / (2 * step), exact = gradient->get(i);
      if (!(std::fabs(numeric - exact) <= 1e-7 * (1 + std::fabs(exact))))
        report("finite difference " + std::to_string(numeric) + " against " +
                   std::to_string(exact),
               text);
    }
}

//===----------------------------------------------------------------------===//
// The exponential
//===----------------------------------------------------------------------===//

void checkExponential(MLIRContext &context, int64_t lanes) {
  OpBuilder builder(&context);
  Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  int64_t count = 1 << 16;
  auto type = MemRefType::get({count}, builder.getF32Type());
  auto function = func::FuncOp::create(
      builder, loc, "exponential",
      builder.getFunctionType(
          {type, type, builder.getIndexType(), builder.getIndexType()}, {}));
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  TileEmitter emitter(builder, loc, builder.getF32Type(), lanes, 4, 4);
  auto window = [&](unsigned argument) {
    Window w;
    w.memref = entry->getArgument(argument);
    w.origin = {emitter.index(0)};
    w.rowDim = w.columnDim = 0;
    return w;
  };
  Window from = window(0), to = window(1);
  emitter.loop(
      entry->getArgument(2), entry->getArgument(3), lanes, [&](Value i) {
        emitter.store(emitter.exp(emitter.load(from, emitter.index(0), i),
                                  /*nonPositive=*/false),
                      to, emitter.index(0), i);
      });
  func::ReturnOp::create(builder, loc);
  KernelJit jit(*module);

  std::vector<float> x(size_t(count), 0.f), y(size_t(count), 0.f);
  auto run = [&] { jit.call("exponential", {x.data(), y.data()}, 0, count); };
  // Every 4096th float of either sign, in runs.
  double worst = 0;
  uint32_t bits = 0;
  for (int block = 0; block < 16; ++block) {
    for (float &value : x) {
      std::memcpy(&value, &bits, 4);
      bits += 4096;
    }
    run();
    for (size_t i = 0; i < x.size(); ++i) {
      double want = std::exp(double(x[i]));
      bool good;
      if (std::isnan(x[i]))
        good = std::isnan(y[i]);
      else if (x[i] > 88.37f)
        good = std::isinf(y[i]) || (x[i] < 88.73f && y[i] > 2e38f);
      else if (x[i] < -87.33f)
        good = y[i] >= 0 && y[i] <= 1.2e-38f;
      else {
        float rounded = float(want);
        double ulp = double(std::nextafterf(rounded, INFINITY)) - rounded;
        double error = std::fabs(double(y[i]) - want) / ulp;
        worst = std::max(worst, error);
        good = error < 2;
      }
      if (!good) {
        report("exp(" + std::to_string(x[i]) + ") = " + std::to_string(y[i]),
               "lanes " + std::to_string(lanes));
        return;
      }
    }
  }
  x[0] = -INFINITY;
  x[1] = INFINITY;
  x[2] = NAN;
  x[3] = 0;
  run();
  if (y[0] != 0 || !std::isinf(y[1]) || !std::isnan(y[2]) || y[3] != 1)
    report("special values of exp", "lanes " + std::to_string(lanes));
  std::printf("exp, %ld lanes: largest error %.3f ulp\n", long(lanes), worst);
}

//===----------------------------------------------------------------------===//
// Specs
//===----------------------------------------------------------------------===//

AttentionSpec randomSpec(std::mt19937 &random, MLIRContext &context) {
  auto pick = [&](std::vector<int64_t> values) {
    return values[random() % values.size()];
  };
  AttentionSpec s;
  s.batch = pick({1, 1, 2, 3});
  s.kvHeads = pick({1, 1, 2});
  s.heads = s.kvHeads * pick({1, 1, 2, 3});
  s.queries = pick({1, 2, 15, 16, 17, 31, 64, 65, 100, 128, 130});
  switch (random() % 4) {
  case 0:
  case 1:
    s.keys = s.queries;
    break;
  case 2:
    s.keys = pick({1, 5, 16, 64, 77});
    break;
  default:
    s.keys = s.queries + pick({1, 13, 64, 90});
  }
  s.headDim = pick({1, 3, 8, 16, 20, 33, 64, 72, 128});
  s.valueDim = random() % 2 ? s.headDim : pick({1, 5, 16, 40, 64, 80});
  s.causal = random() % 2;
  if (random() % 3 == 0)
    s.window = pick({1, 2, 7, 16, 40, 64, 70, 1000000000000});
  s.hasFirstPosition = (s.causal || s.window) && random() % 2;
  s.hasDocuments = random() % 4 == 0;
  if (random() % 3 == 0)
    s.bias = {random() % 2 ? 1 : s.batch, random() % 2 ? 1 : s.heads};
  s.hasLseGradient = random() % 2;
  s.wantsLse = random() % 8 != 0;
  s.scale = 1.0 / std::sqrt(double(s.headDim));
  // Scores of a few hundred overflow an exponential without its maximum.
  switch (random() % 6) {
  case 0:
    s.scale *= -2;
    break;
  case 1:
    s.scale *= 100;
    break;
  default:
    break;
  }
  s.elementType = random() % 4 == 0 ? Type(Float64Type::get(&context))
                                    : Type(Float32Type::get(&context));
  return s;
}

AttentionTuning randomTuning(std::mt19937 &random) {
  AttentionTuning t;
  switch (random() % 8) {
  case 0:
  case 1:
    t = AttentionTuning::forTarget(/*hasAvx512=*/false);
    break;
  case 2:
    t.vectorBytes = 16;
    break;
  case 3:
    t.microRows = 3;
    t.microVectors = 3;
    t.tileQueries = 32;
    t.tileKeys = 16;
    break;
  case 4:
    t.microRows = 6;
    t.microVectors = 2;
    t.tileQueries = 48;
    t.tileKeys = 96;
    break;
  default:
    break;
  }
  t.minBackwardTasks = std::vector<int64_t>{1, 8, 8, 100}[random() % 4];
  return t;
}

void checkDiagnostics(MLIRContext &context) {
  OpBuilder builder(&context);
  std::string message;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  auto refused = [&](auto change, const char *expected) {
    AttentionSpec spec;
    spec.elementType = builder.getF32Type();
    change(spec);
    OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToEnd(module->getBody());
    message.clear();
    if (succeeded(buildAttentionForward(builder, builder.getUnknownLoc(), "f",
                                        spec)) ||
        message.find(expected) == std::string::npos)
      report(std::string("no diagnostic with '") + expected + "', got '" +
                 message + "'",
             "");
  };
  refused([&](AttentionSpec &s) { s.elementType = builder.getBF16Type(); },
          "expected f32 or f64");
  refused([](AttentionSpec &s) { s.heads = 3, s.kvHeads = 2; },
          "expected a multiple");
  refused([](AttentionSpec &s) { s.window = 0; }, "expected at least 1");
  refused([](AttentionSpec &s) { s.queries = 0; }, "got queries 0");
  refused([](AttentionSpec &s) { s.batch = 2, s.bias = {3, 1}; },
          "got a bias for 3 samples");
  refused([](AttentionSpec &s) { s.headDim = 100000; }, "bytes of stack");
}

} // namespace

int main(int argc, char **argv) {
  int specs = argc > 1 ? std::atoi(argv[1]) : 60;
  unsigned seed = argc > 2 ? unsigned(std::atoi(argv[2])) : 1;
  std::mt19937 random(seed);
  auto context = sheaf::test::createContext();

  checkDiagnostics(*context);
  checkExponential(*context, 16);
  checkExponential(*context, 8);

  // Vectors are never wider than the machine's: LLVM 22 reads past the end
  // where it cuts a masked load of 16 floats in two for AVX2.
  bool isWide = llvm::sys::getHostCPUFeatures().lookup("avx512f");
  auto check = [&](AttentionSpec spec, AttentionTuning tuning,
                   const std::string &cpu = "") {
    if (!isWide)
      tuning.vectorBytes = std::min<int64_t>(tuning.vectorBytes, 32);
    std::string text = describe(spec, tuning) + (cpu.empty() ? "" : " " + cpu);
    if (std::getenv("SHEAF_TEST_VERBOSE"))
      std::fprintf(stderr, "%s\n", text.c_str());
    Problem problem;
    problem.spec = spec;
    problem.initialize(random);
    Kernels kernels(*context, spec, tuning, cpu);
    specsWithPieces += kernels.pieces > 1;
    compare(problem, kernels, text);
    checkPadding(problem, kernels, random, text);
    if (spec.hasFirstPosition) {
      // Before, in, across the end of and behind the keys.
      for (int64_t position :
           {int64_t(0), -spec.queries - 3, spec.keys / 2 + 1, spec.keys - 1,
            spec.keys + 50, int64_t(1) << 28, -(int64_t(1) << 28)}) {
        problem.setFirstPosition(position);
        compare(problem, kernels,
                text + " position=" + std::to_string(position));
      }
      problem.setFirstPosition(spec.keys / 3);
    }
    checkNaN(problem, kernels, random, text);
    // Sharp softmaxes have too large third derivatives for the step.
    bool smooth = std::fabs(spec.scale) * std::sqrt(double(spec.headDim)) < 3;
    if (spec.elementType.isF64() && spec.wantsLse && smooth)
      checkFiniteDifferences(problem, kernels, random, text);
  };

  int done = 0;
  // A large head shrinks the tiles; both element types.
  for (bool f64 : {false, true}) {
    AttentionSpec s;
    s.queries = 40, s.keys = 50, s.headDim = 576, s.valueDim = 512;
    s.causal = true;
    s.scale = 0.04;
    s.elementType = f64 ? Type(Float64Type::get(context.get()))
                        : Type(Float32Type::get(context.get()));
    check(s, {});
    ++done;
  }
  // Code for AVX2, as a machine without AVX-512 gets it.
  {
    AttentionSpec s;
    s.queries = 130, s.keys = 130, s.heads = 4, s.kvHeads = 2, s.headDim = 64,
    s.valueDim = 64;
    s.causal = true;
    s.scale = 0.125;
    s.elementType = Float32Type::get(context.get());
    check(s, AttentionTuning::forTarget(/*hasAvx512=*/false), "x86-64-v3");
    ++done;
  }
  for (; done < specs; ++done)
    check(randomSpec(random, *context), randomTuning(random));
  std::printf(
      "%d specs (%d with keys in pieces), %d failures, largest relative "
      "error f32 %.2g f64 %.2g\n",
      done, specsWithPieces, failures, worstSeen[0], worstSeen[1]);
  return failures ? 1 : 0;
}
