//===- Context.cpp - Which way attention gets its keys --------------------===//

#include "passes/sharding/Context.h"
#include "passes/sharding/Work.h"
#include "support/Divisors.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

double sharding::attentionSpeed(StringRef linkClass) {
  return linkClass == "memory" ? 5e10 : 6e14;
}

std::string sharding::whyNoExchange(int64_t heads, int64_t groups,
                                    int64_t context, int64_t tensor) {
  // What tp does not divide is for the strategy to refuse.
  if (heads % tensor == 0 && heads / tensor % context != 0)
    return "has " + std::to_string(heads) + " query heads" +
           (tensor > 1 ? ", " + std::to_string(heads / tensor) +
                             " on each device of tp"
                       : std::string()) +
           ", which the " + std::to_string(context) +
           " devices of cp do not divide, as Ulysses needs; nearest: cp=" +
           nearestDivisors(heads / tensor, context);
  int64_t ofTensor = std::gcd(tensor, groups), left = groups / ofTensor,
          ofContext = ofTensor == tensor ? std::gcd(context, left) : 1;
  if (left % context != 0 && ofContext != left)
    return "has " + std::to_string(left) +
           " key heads on each device of tp and " + std::to_string(context) +
           " devices of cp, expected one to be a multiple of the other, as "
           "Ulysses needs; nearest: cp=" +
           nearestDivisors(left, context);
  return "";
}

namespace {
/// One attention of a step.
class Costs {
public:
  Costs(nn::AttentionOp op, int64_t times, const ContextMesh &mesh)
      : mesh(mesh), times(times), causal(op.getCausal()) {
    if (op.getWindow())
      window = static_cast<int64_t>(*op.getWindow());
    auto query = cast<RankedTensorType>(op.getQuery().getType()),
         key = cast<RankedTensorType>(op.getKey().getType()),
         value = cast<RankedTensorType>(op.getValue().getType());
    length = query.getDimSize(1);
    samples = ceilDiv(query.getDimSize(0), mesh.data);
    heads = ceilDiv(query.getDimSize(2), mesh.tensor);
    groups = ceilDiv(key.getDimSize(2), mesh.tensor);
    width = query.getDimSize(3), valueWidth = value.getDimSize(3);
    elementBytes = (query.getElementTypeBitWidth() + 7) / 8;
    hasDocuments = static_cast<bool>(op.getKeyDocuments());
  }

  void gather(ContextWay &way) const {
    int64_t c = mesh.context;
    double most = 0;
    for (int64_t device = 0; device < c; ++device)
      most = std::max(most, pairs(part(1), device * part(1), length, 0));
    // Keys and values twice, and their gradients once.
    double keys = (c - 1) * (block() + documentBytes()),
           gradients = (c - 1) * block();
    add(way,
        forwards() * compute(most, true) + compute(most, false) +
            2 * move(keys, 2 * (c - 1)) + move(gradients, 2 * (c - 1)),
        2 * keys + gradients);
  }

  void ring(ContextWay &way, bool zigzag) const {
    int64_t c = mesh.context, chunks = zigzag ? 2 : 1;
    auto begin = [&](int64_t device, int64_t chunk) {
      return (chunk == 0 ? device : 2 * c - 1 - device) * part(chunks);
    };
    // In each step all wait for the one that has most to do.
    std::vector<double> steps;
    for (int64_t step = 0; step < c; ++step) {
      double most = 0;
      for (int64_t device = 0; device < c; ++device) {
        double sum = 0;
        for (int64_t q = 0; q < chunks; ++q)
          for (int64_t k = 0; k < chunks; ++k)
            sum += pairs(part(chunks), begin(device, q), part(chunks),
                         begin((device + c - step) % c, k));
        most = std::max(most, sum);
      }
      steps.push_back(most);
    }
    while (steps.size() > 1 && steps.back() == 0)
      steps.pop_back();
    double seconds = 0, bytes = 0;
    for (auto [step, most] : llvm::enumerate(steps)) {
      // Keys and values leave, and in the backward the gradients that came.
      double keys = step + 1 == steps.size()
                        ? 0
                        : block(chunks) + documentBytes(chunks),
             gradients = step == 0 ? 0 : block(chunks);
      seconds += forwards() * std::max(compute(most, true), move(keys, 2));
      seconds += std::max(compute(most, false), move(keys + gradients, 4));
      bytes += (forwards() + 1) * keys + gradients;
    }
    if (steps.size() > 1) {
      // And home.
      seconds += move(block(chunks), 2);
      bytes += block(chunks);
    }
    add(way, seconds, bytes);
  }

  void exchange(ContextWay &way) const {
    int64_t c = mesh.context;
    double queries = samples * part(1) * elementBytes * heads *
                     double(width + valueWidth) * (c - 1) / c;
    // Key heads that are fewer than devices are on `copies` of them: gathered
    // over those first, and their gradients summed, into parts where nothing
    // more is to be exchanged.
    int64_t copies = std::max<int64_t>(1, c / groups), apart = c / copies;
    double share = double(apart - 1) / apart, whole = block() * c / apart;
    double forward = (copies - 1) * block() + copies * block() * share;
    double backward = (apart == 1 ? 1.0 : 2.0) * (copies - 1) / copies * whole +
                      whole * share;
    // Those of the keys are gathered once forward and once backward.
    double documents = 2 * (c - 1) * documentBytes();
    int64_t messages = 4 * (c - 1);
    double all = pairs(length, 0, length, 0) / c;
    add(way,
        forwards() * compute(all, true) + compute(all, false) +
            forwards() * move(queries + forward, messages) +
            move(queries + backward, messages) + move(documents, 2 * (c - 1)),
        forwards() * (queries + forward) + queries + backward + documents);
  }

private:
  const ContextMesh &mesh;
  int64_t times;
  bool causal, hasDocuments;
  std::optional<int64_t> window;
  int64_t length, samples, heads, groups, width, valueWidth, elementBytes;

  int forwards() const { return mesh.recomputes ? 2 : 1; }
  static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
  /// Positions of a chunk, of which a device has so many.
  int64_t part(int64_t chunks) const {
    return ceilDiv(length, mesh.context * chunks);
  }
  /// Bytes of a device's keys and values, cut in so many chunks.
  double block(int64_t chunks = 1) const {
    return static_cast<double>(samples * chunks * part(chunks) * groups *
                               (width + valueWidth) * elementBytes);
  }
  /// Of the documents of its keys.
  double documentBytes(int64_t chunks = 1) const {
    return hasDocuments
               ? static_cast<double>(samples * chunks * part(chunks) * 4)
               : 0;
  }
  /// Of `queries` from position q on, and `keys` from k on, those that are not
  /// behind the end.
  double pairs(int64_t queries, int64_t q, int64_t keys, int64_t k) const {
    auto inside = [&](int64_t count, int64_t begin) {
      return std::clamp<int64_t>(length - begin, 0, count);
    };
    return countPairs(inside(queries, q), inside(keys, k), q - k, causal,
                      window);
  }
  double compute(double pairs, bool isForward) const {
    double perPair = isForward ? 2.0 * width + 2.0 * valueWidth
                               : 6.0 * width + 4.0 * valueWidth;
    return pairs * samples * heads * perPair / mesh.flopsPerSecond;
  }
  double move(double bytes, int64_t messages) const {
    return bytes == 0
               ? 0
               : bytes / mesh.link.bandwidth + messages * mesh.link.latency;
  }
  void add(ContextWay &way, double seconds, double bytes) const {
    way.seconds += times * seconds;
    way.bytes += times * bytes;
  }
};
} // namespace

ContextChoice sharding::chooseContext(func::FuncOp loss, int64_t microbatches,
                                      const ContextMesh &mesh) {
  ContextWay gather{"gather"}, ring{"ring"}, zigzag{"zigzag"},
      ulysses{"ulysses"};
  for (auto [op, times] : attentionOf(loss)) {
    auto attention = dyn_cast<nn::AttentionOp>(op);
    if (!attention)
      continue;
    auto query = cast<RankedTensorType>(attention.getQuery().getType()),
         key = cast<RankedTensorType>(attention.getKey().getType());
    // Keys of another sequence are gathered in any case.
    if (query.getDimSize(1) != key.getDimSize(1) || query.getDimSize(1) == 1)
      continue;
    std::string noRing;
    if (attention.getBias())
      noRing = "has a bias of its scores, which does not go round";
    if (ring.whyNot.empty())
      ring.whyNot = zigzag.whyNot = noRing;
    if (ulysses.whyNot.empty())
      ulysses.whyNot = whyNoExchange(query.getDimSize(2), key.getDimSize(2),
                                     mesh.context, mesh.tensor);
    Costs costs(attention, times * microbatches, mesh);
    costs.gather(gather);
    costs.ring(ring, false);
    costs.ring(zigzag, true);
    costs.exchange(ulysses);
  }
  ContextChoice choice{{gather, zigzag, ring, ulysses}, 0};
  choice.choose();
  return choice;
}

void ContextChoice::choose() {
  chosen = 0; // A gather can always be had.
  for (auto [i, way] : llvm::enumerate(ways))
    if (way.whyNot.empty() && way.seconds < ways[chosen].seconds)
      chosen = i;
}

llvm::json::Object sharding::explainContext(const ContextChoice &choice) {
  llvm::json::Array ways;
  for (const ContextWay &way : choice.ways) {
    llvm::json::Object entry{{"name", way.name}};
    if (way.whyNot.empty()) {
      entry["seconds"] = way.seconds;
      entry["bytes"] = way.bytes;
    } else {
      entry["why_not"] = way.whyNot;
    }
    ways.push_back(std::move(entry));
  }
  return llvm::json::Object{{"chosen", choice.ways[choice.chosen].name},
                            {"ways", std::move(ways)}};
}

void sharding::printContext(const ContextChoice &choice, raw_ostream &os) {
  os << "attention over cp: --context=" << choice.ways[choice.chosen].name
     << " of\n";
  for (const ContextWay &way : choice.ways)
    if (way.whyNot.empty())
      os << llvm::formatv("    {0,-8} {1,12:f1} us a step, {2:f0} bytes sent "
                          "by each device\n",
                          way.name, 1e6 * way.seconds, way.bytes);
    else
      os << llvm::formatv("    {0,-8} not: {1}\n", way.name, way.whyNot);
}
