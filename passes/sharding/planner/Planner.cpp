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

/// Up to so many axes, those that stand together at both ends counted as one,
/// every way is tried. Beyond, only moves towards the end are: the ways grow
/// faster than the factorial of the number of axes, and few of the others are
/// cheaper.
constexpr size_t kExact = 3;

/// Whether `axes` begins with `first`.
bool beginsWith(const Axes &axes, const Axes &first) {
  return first.size() <= axes.size() &&
         std::equal(first.begin(), first.end(), axes.begin());
}

/// The places of one dimension that lead somewhere in a permutation: as it is,
/// in the order in which its axes are wanted, and what is wanted there of the
/// same devices.
std::vector<Axes> ordersTowards(const State &from, const State &to, size_t dim,
                                const Mesh &mesh) {
  std::vector<Axes> orders{from.dims[dim]};
  auto add = [&](Axes axes) {
    if (std::find(orders.begin(), orders.end(), axes) == orders.end())
      orders.push_back(std::move(axes));
  };
  // What stays comes first, then by the dimension and the place to go to.
  auto key = [&](int axis) {
    for (size_t d = 0; d < to.dims.size(); ++d) {
      auto at = std::find(to.dims[d].begin(), to.dims[d].end(), axis);
      if (at != to.dims[d].end())
        return std::make_tuple(d == dim ? 0 : d + 1,
                               size_t(at - to.dims[d].begin()));
    }
    return std::make_tuple(to.dims.size() + 1, size_t(0));
  };
  Axes sorted = from.dims[dim];
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](int a, int b) { return key(a) < key(b); });
  add(std::move(sorted));
  int64_t wanted = 1, devices = 1;
  for (int axis : from.dims[dim])
    wanted *= mesh[axis].size;
  Axes axes;
  for (int axis : to.dims[dim]) {
    axes.push_back(axis);
    devices *= mesh[axis].size;
    if (devices == wanted)
      add(axes);
  }
  return orders;
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

/// As `Planner::movesFrom`; with a target only those moves that may lead there
/// without a detour. One way there is always: gather, reduce and cut anew.
static std::vector<Move> movesBetween(const Planner &planner,
                                      const Shape &shape, int64_t elementBytes,
                                      const State &from, const State *to,
                                      const Axes &allowed, int64_t bound) {
  const Mesh &mesh = planner.getMesh();
  std::vector<Move> moves;
  Axes unused;
  for (int axis : allowed)
    if (!contains(from.partial, axis) &&
        std::none_of(from.dims.begin(), from.dims.end(),
                     [&](const Axes &dim) { return contains(dim, axis); }))
      unused.push_back(axis);

  double localBytes = double(planner.localElements(shape, from)) * elementBytes;

  // Whether a shard of `outer` is cut by `inner` into the shards of both:
  // always where there is no outer axis (what is behind the end is cut off or
  // padded).
  auto nests = [&](size_t dim, const Axes &outer, const Axes &both) {
    if (outer.empty())
      return true;
    int64_t count = 1;
    for (size_t i = outer.size(); i < both.size(); ++i)
      count *= mesh[both[i]].size;
    return planner.localSize(shape[dim], outer) ==
           count * planner.localSize(shape[dim], both);
  };

  auto emit = [&](MoveKind kind, Axes axes, int dim, int toDim, State after) {
    int64_t afterBytes = planner.localElements(shape, after) * elementBytes;
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
    move.cost = planner.seconds(kind, over, move.bytes);
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
      for (size_t other = 0; other < from.dims.size(); ++other) {
        if (other == d)
          continue;
        State moved = after;
        moved.dims[other].insert(moved.dims[other].end(), last.begin(),
                                 last.end());
        if (nests(other, from.dims[other], moved.dims[other]) &&
            (!to || beginsWith(to->dims[other], moved.dims[other])))
          emit(MoveKind::AllToAll, last, d, other, std::move(moved));
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
    if (to) {
      // What is wanted behind, as far as it is there.
      auto continued = [&](const Axes &available, const auto &use) {
        Axes chosen;
        if (beginsWith(to->dims[d], axes))
          for (size_t i = axes.size();
               i < to->dims[d].size() && contains(available, to->dims[d][i]);
               ++i) {
            chosen.push_back(to->dims[d][i]);
            use(chosen);
          }
      };
      continued(unused, append(MoveKind::Slice));
      continued(from.partial, append(MoveKind::ReduceScatter));
      continue;
    }
    Axes chosen;
    orderedChoices(unused, chosen, append(MoveKind::Slice));
    orderedChoices(from.partial, chosen, append(MoveKind::ReduceScatter));
  }

  auto reduce = [&](const Axes &chosen) {
    State after = from;
    std::erase_if(after.partial,
                  [&](int axis) { return contains(chosen, axis); });
    emit(MoveKind::AllReduce, chosen, -1, -1, std::move(after));
  };
  auto makePartial = [&](const Axes &chosen) {
    State after = from;
    after.partial.insert(after.partial.end(), chosen.begin(), chosen.end());
    std::sort(after.partial.begin(), after.partial.end());
    emit(MoveKind::MakePartial, chosen, -1, -1, std::move(after));
  };
  if (to) {
    // All that are whole in the end, and those with what is sharded then.
    Axes whole, complete, summed;
    for (int axis : from.partial) {
      if (contains(to->partial, axis))
        continue;
      complete.push_back(axis);
      if (std::none_of(to->dims.begin(), to->dims.end(),
                       [&](const Axes &dim) { return contains(dim, axis); }))
        whole.push_back(axis);
    }
    for (int axis : unused)
      if (contains(to->partial, axis))
        summed.push_back(axis);
    if (!whole.empty())
      reduce(whole);
    if (complete.size() > whole.size())
      reduce(complete);
    if (!summed.empty())
      makePartial(summed);
  } else {
    subsets(from.partial, reduce);
    subsets(unused, makePartial);
  }

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
    auto use = [&](const Axes &axes) {
      if (devices(axes) != wanted)
        return;
      Axes copy = axes;
      target.dims[d] = copy;
      self(self, d + 1);
    };
    if (to) {
      for (const Axes &axes : ordersTowards(from, *to, d, mesh))
        if (std::all_of(axes.begin(), axes.end(),
                        [&](int axis) { return contains(free, axis); }))
          use(axes);
      return;
    }
    Axes chosen;
    orderedChoices(free, chosen, use);
  };
  choose(choose, 0);
  return moves;
}

std::vector<Move> Planner::movesFrom(const Shape &shape, int64_t elementBytes,
                                     const State &from, const Axes &allowed,
                                     int64_t bound) const {
  return movesBetween(*this, shape, elementBytes, from, nullptr, allowed,
                      bound);
}

/// Axes that stand together in both states, in the same order, are moved as
/// one.
static std::vector<Axes> findRuns(const State &from, const State &to,
                                  const Axes &axes) {
  // Whether b stands right behind a; where nothing has an order, anywhere.
  auto follows = [](const State &state, int a, int b, bool &isOrdered) {
    bool isUsed = false;
    for (const Axes &dim : state.dims)
      for (size_t i = 0; i < dim.size(); ++i) {
        if (dim[i] == a && i + 1 < dim.size() && dim[i + 1] == b) {
          isOrdered = true;
          return true;
        }
        isUsed |= dim[i] == a || dim[i] == b;
      }
    return !isUsed && contains(state.partial, a) == contains(state.partial, b);
  };
  std::map<int, int> next;
  Axes followers;
  for (int a : axes)
    for (int b : axes) {
      bool isOrdered = false;
      if (a == b || next.contains(a) || contains(followers, b) ||
          !follows(from, a, b, isOrdered) || !follows(to, a, b, isOrdered) ||
          (!isOrdered && b < a))
        continue;
      next[a] = b;
      followers.push_back(b);
    }
  std::vector<Axes> runs;
  for (int axis : axes) {
    if (contains(followers, axis))
      continue;
    Axes run{axis};
    while (next.contains(run.back()))
      run.push_back(next[run.back()]);
    runs.push_back(std::move(run));
  }
  return runs;
}

/// Plans on a mesh with one axis for each run of axes.
static Plan searchRuns(const Planner &planner, const std::vector<Axes> &runs,
                       const Shape &shape, int64_t elementBytes,
                       const State &from, const State &to, int64_t bound) {
  Mesh mesh;
  for (const Axes &run : runs) {
    Axis joined = planner.getMesh()[run.front()];
    for (size_t i = 1; i < run.size(); ++i) {
      const Axis &axis = planner.getMesh()[run[i]];
      joined.size *= axis.size;
      joined.link.latency = std::max(joined.link.latency, axis.link.latency);
      joined.link.bandwidth =
          std::min(joined.link.bandwidth, axis.link.bandwidth);
    }
    mesh.push_back(joined);
  }
  auto join = [&](const Axes &axes) {
    Axes joined;
    for (int axis : axes)
      for (size_t r = 0; r < runs.size(); ++r)
        if (runs[r].front() == axis)
          joined.push_back(static_cast<int>(r));
    return joined;
  };
  auto split = [&](Axes &axes) {
    Axes all;
    for (int run : axes)
      all.insert(all.end(), runs[run].begin(), runs[run].end());
    axes = std::move(all);
  };
  auto joinState = [&](const State &state) {
    State joined;
    for (const Axes &dim : state.dims)
      joined.dims.push_back(join(dim));
    joined.partial = join(state.partial);
    std::sort(joined.partial.begin(), joined.partial.end());
    return joined;
  };
  Planner fewer(std::move(mesh));
  Plan plan =
      fewer.plan(shape, elementBytes, joinState(from), joinState(to), bound);
  for (Move &move : plan.moves) {
    split(move.axes);
    for (Axes &dim : move.after.dims)
      split(dim);
    split(move.after.partial);
    std::sort(move.after.partial.begin(), move.after.partial.end());
  }
  return plan;
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
  const bool isExact = allowed.size() <= kExact;
  if (!isExact) {
    std::sort(allowed.begin(), allowed.end());
    std::vector<Axes> runs = findRuns(from, to, allowed);
    if (runs.size() < allowed.size()) {
      Plan plan = searchRuns(*this, runs, shape, elementBytes, from, to, bound);
      if (std::isfinite(plan.cost))
        return plan; // Else parts of a run may keep the bound.
    }
  }

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
    for (Move &move : movesBetween(*this, shape, elementBytes, state,
                                   isExact ? nullptr : &to, allowed, bound)) {
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
