//===- Planner.cpp - From one sharding to another -------------------------===//

#include "passes/sharding/planner/Planner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

using namespace sheaf::planner;

namespace {
/// Seconds to start a collective, and bytes a second of a local copy: small,
/// there to prefer fewer moves.
constexpr double kStart = 1e-6;
constexpr double kCopyBandwidth = 1e12;
constexpr double kCopyStart = 1e-9;
/// By how much a larger group starts later, each time it doubles: of two ways
/// that send the same the one with smaller groups is taken.
constexpr double kGroupStart = 1e-3;

using Shape = std::vector<int64_t>;
using Axes = std::vector<int>;

bool contains(const Axes &axes, int axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

/// Calls `use` with every ordered choice of at least one of `axes`.
template <typename Use>
void orderedChoices(const Axes &axes, Axes &chosen, const Use &use) {
  for (int axis : axes) {
    if (contains(chosen, axis))
      continue;
    chosen.push_back(axis);
    use(chosen);
    orderedChoices(axes, chosen, use);
    chosen.pop_back();
  }
}

/// Calls `use` with every non-empty subset of `axes`, ascending.
template <typename Use>
void subsets(const Axes &axes, const Use &use) {
  for (uint64_t bits = 1; bits < uint64_t(1) << axes.size(); ++bits) {
    Axes chosen;
    for (size_t i = 0; i < axes.size(); ++i)
      if (bits >> i & 1)
        chosen.push_back(axes[i]);
    use(chosen);
  }
}
} // namespace

const char *sheaf::planner::nameOf(MoveKind kind) {
  switch (kind) {
  case MoveKind::AllGather:
    return "all-gather";
  case MoveKind::ReduceScatter:
    return "reduce-scatter";
  case MoveKind::AllReduce:
    return "all-reduce";
  case MoveKind::AllToAll:
    return "all-to-all";
  case MoveKind::Permute:
    return "permute";
  case MoveKind::Slice:
    return "slice";
  case MoveKind::MakePartial:
    return "make-partial";
  }
  return "";
}

std::string State::str() const {
  auto list = [](const Axes &axes) {
    std::string text = "[";
    for (int axis : axes)
      text += (text.size() > 1 ? " " : "") + std::to_string(axis);
    return text + "]";
  };
  std::string text;
  for (const Axes &axes : dims)
    text += list(axes);
  return partial.empty() ? text : text + " + " + list(partial);
}

int64_t Planner::localSize(int64_t size, const Axes &axes) const {
  int64_t devices = 1;
  for (int axis : axes)
    devices *= mesh[axis].size;
  return (size + devices - 1) / devices;
}

int64_t Planner::localElements(const Shape &shape, const State &state) const {
  int64_t elements = 1;
  for (size_t i = 0; i < shape.size(); ++i)
    elements *= localSize(shape[i], state.dims[i]);
  return elements;
}

double Planner::seconds(MoveKind kind, const Axes &axes, double bytes) const {
  if (kind == MoveKind::Slice || kind == MoveKind::MakePartial)
    return kCopyStart + bytes / kCopyBandwidth;
  double group = 1, latency = 0,
         bandwidth = std::numeric_limits<double>::infinity();
  for (int axis : axes) {
    group *= mesh[axis].size;
    latency = std::max(latency, mesh[axis].link.latency);
    bandwidth = std::min(bandwidth, mesh[axis].link.bandwidth);
  }
  double steps = std::log2(group);
  if (kind == MoveKind::AllReduce)
    steps *= 2;
  if (kind == MoveKind::Permute)
    steps = group = 1;
  return kStart * (1 + kGroupStart * std::log2(group)) + steps * latency +
         bytes / bandwidth;
}

std::vector<Move> Planner::movesFrom(const Shape &shape, int64_t elementBytes,
                                     const State &from, const Axes &allowed,
                                     int64_t bound) const {
  std::vector<Move> moves;
  Axes unused;
  for (int axis : allowed)
    if (!contains(from.partial, axis) &&
        std::none_of(from.dims.begin(), from.dims.end(),
                     [&](const Axes &dim) { return contains(dim, axis); }))
      unused.push_back(axis);

  double localBytes = double(localElements(shape, from)) * elementBytes;

  // Whether a shard of `outer` is cut by `inner` into the shards of both:
  // always where there is no outer axis (what is behind the end is cut off or
  // padded).
  auto nests = [&](size_t dim, const Axes &outer, const Axes &both) {
    if (outer.empty())
      return true;
    int64_t count = 1;
    for (size_t i = outer.size(); i < both.size(); ++i)
      count *= mesh[both[i]].size;
    return localSize(shape[dim], outer) == count * localSize(shape[dim], both);
  };

  auto emit = [&](MoveKind kind, Axes axes, int dim, int toDim, State after) {
    int64_t afterBytes = localElements(shape, after) * elementBytes;
    if (afterBytes > bound)
      return;
    Move move{kind, std::move(axes), dim, toDim, std::move(after), 0, 0};
    double group = 1;
    for (int axis : move.axes)
      group *= mesh[axis].size;
    double share = (group - 1) / group;
    Axes over = move.axes;
    switch (kind) {
    case MoveKind::AllGather:
      move.bytes = share * afterBytes;
      break;
    case MoveKind::ReduceScatter:
    case MoveKind::AllToAll:
      move.bytes = share * localBytes;
      break;
    case MoveKind::AllReduce:
      move.bytes = 2 * share * localBytes;
      break;
    case MoveKind::Permute:
      // Over the axes whose place changes.
      move.bytes = localBytes;
      for (const State *side : {&from, static_cast<const State *>(&move.after)})
        for (size_t i = 0; i < from.dims.size(); ++i)
          if (from.dims[i] != move.after.dims[i])
            over.insert(over.end(), side->dims[i].begin(), side->dims[i].end());
      break;
    case MoveKind::Slice:
    case MoveKind::MakePartial:
      move.bytes = afterBytes;
      break;
    }
    move.cost = seconds(kind, over, move.bytes);
    if (kind == MoveKind::Slice || kind == MoveKind::MakePartial)
      move.bytes = 0;
    moves.push_back(std::move(move));
  };

  for (size_t d = 0; d < from.dims.size(); ++d) {
    const Axes &axes = from.dims[d];
    for (size_t keep = 0; keep < axes.size(); ++keep) {
      Axes outer(axes.begin(), axes.begin() + keep),
          last(axes.begin() + keep, axes.end());
      if (!nests(d, outer, axes))
        continue;
      State after = from;
      after.dims[d] = outer;
      emit(MoveKind::AllGather, last, d, -1, after);
      for (size_t to = 0; to < from.dims.size(); ++to) {
        if (to == d)
          continue;
        State moved = after;
        moved.dims[to].insert(moved.dims[to].end(), last.begin(), last.end());
        if (nests(to, from.dims[to], moved.dims[to]))
          emit(MoveKind::AllToAll, last, d, to, std::move(moved));
      }
    }
    auto append = [&](MoveKind kind) {
      return [&, kind](const Axes &chosen) {
        State after = from;
        after.dims[d].insert(after.dims[d].end(), chosen.begin(), chosen.end());
        if (!nests(d, axes, after.dims[d]))
          return;
        if (kind == MoveKind::ReduceScatter)
          std::erase_if(after.partial,
                        [&](int axis) { return contains(chosen, axis); });
        emit(kind, chosen, d, -1, std::move(after));
      };
    };
    Axes chosen;
    orderedChoices(unused, chosen, append(MoveKind::Slice));
    orderedChoices(from.partial, chosen, append(MoveKind::ReduceScatter));
  }

  subsets(from.partial, [&](const Axes &chosen) {
    State after = from;
    std::erase_if(after.partial,
                  [&](int axis) { return contains(chosen, axis); });
    emit(MoveKind::AllReduce, chosen, -1, -1, std::move(after));
  });
  subsets(unused, [&](const Axes &chosen) {
    State after = from;
    after.partial.insert(after.partial.end(), chosen.begin(), chosen.end());
    std::sort(after.partial.begin(), after.partial.end());
    emit(MoveKind::MakePartial, chosen, -1, -1, std::move(after));
  });

  // Other axes in the same numbers: whole shards change hands.
  Axes movable;
  for (int axis : allowed)
    if (!contains(from.partial, axis))
      movable.push_back(axis);
  auto devices = [&](const Axes &axes) {
    int64_t count = 1;
    for (int axis : axes)
      count *= mesh[axis].size;
    return count;
  };
  State target = from;
  auto choose = [&](auto &self, size_t d) -> void {
    if (d == from.dims.size()) {
      if (target.dims != from.dims)
        emit(MoveKind::Permute, {}, -1, -1, target);
      return;
    }
    int64_t wanted = devices(from.dims[d]);
    Axes free;
    for (int axis : movable) {
      bool taken = false;
      for (size_t before = 0; before < d; ++before)
        taken |= contains(target.dims[before], axis);
      if (!taken)
        free.push_back(axis);
    }
    if (from.dims[d].empty()) {
      target.dims[d].clear();
      self(self, d + 1);
      return;
    }
    Axes chosen;
    orderedChoices(free, chosen, [&](const Axes &axes) {
      if (devices(axes) != wanted)
        return;
      Axes copy = axes;
      target.dims[d] = copy;
      self(self, d + 1);
    });
  };
  choose(choose, 0);
  return moves;
}

Plan Planner::search(const Shape &shape, int64_t elementBytes,
                     const State &from, const State &to, int64_t bound) const {
  Axes allowed;
  for (int axis = 0; axis < static_cast<int>(mesh.size()); ++axis)
    for (const State *state : {&from, &to})
      if (!contains(allowed, axis) &&
          (contains(state->partial, axis) ||
           std::any_of(state->dims.begin(), state->dims.end(),
                       [&](const Axes &dim) { return contains(dim, axis); })))
        allowed.push_back(axis);

  struct Reached {
    double cost;
    int count;
    State before;
    Move move;
  };
  auto bytes = [&](const State &state) {
    return localElements(shape, state) * elementBytes;
  };
  Plan plan;
  plan.peakBytes = std::max(bytes(from), bytes(to));
  plan.cost = std::numeric_limits<double>::infinity();
  if (plan.peakBytes > bound)
    return plan;
  // Dijkstra; the number of moves breaks ties, then the order of states.
  std::map<State, Reached> reached;
  std::set<std::tuple<double, int, State>> open{{0.0, 0, from}};
  reached[from] = {0, 0, {}, {}};
  while (!open.empty()) {
    auto [cost, count, state] = *open.begin();
    open.erase(open.begin());
    if (state == to) {
      plan.cost = cost;
      while (!(state == from)) {
        Reached &entry = reached.at(state);
        plan.peakBytes = std::max(plan.peakBytes, bytes(state));
        plan.moves.push_back(entry.move);
        state = entry.before;
      }
      std::reverse(plan.moves.begin(), plan.moves.end());
      return plan;
    }
    for (Move &move : movesFrom(shape, elementBytes, state, allowed, bound)) {
      double next = cost + move.cost;
      auto it = reached.find(move.after);
      if (it != reached.end()) {
        if (std::tie(it->second.cost, it->second.count) <=
            std::make_tuple(next, count + 1))
          continue;
        open.erase({it->second.cost, it->second.count, move.after});
      }
      State after = move.after;
      open.insert({next, count + 1, after});
      reached[after] = {next, count + 1, state, std::move(move)};
    }
  }
  return plan;
}

const Plan &Planner::plan(const Shape &shape, int64_t elementBytes,
                          const State &from, const State &to, int64_t bound) {
  auto [it, isNew] =
      known.try_emplace(Key{shape, elementBytes, bound, from, to});
  Plan &plan = it->second;
  if (!isNew)
    return plan;
  if (bound != 0) {
    plan = search(shape, elementBytes, from, to, bound);
    return plan;
  }
  int64_t whole = elementBytes;
  for (int64_t size : shape)
    whole *= size;
  int64_t limit = elementBytes * std::max(localElements(shape, from),
                                          localElements(shape, to));
  while (true) {
    plan = search(shape, elementBytes, from, to, limit);
    if (!plan.moves.empty() || from == to || limit > 2 * whole)
      return plan;
    limit *= 2;
  }
}
