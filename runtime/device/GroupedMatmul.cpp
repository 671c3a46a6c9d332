#include "sheaf/Error.h"
#include "sheaf/Matmul.h"
#include "sheaf/Types.h"
#include <algorithm>
#include <limits>
#include <vector>

using namespace sheaf;

namespace {
constexpr int64_t blasLimit = std::numeric_limits<int32_t>::max();
/// Below this many operations a task costs more than it brings.
constexpr double smallest = 1 << 20;

/// The rows [begin, end) of a group.
struct Segment {
  int64_t begin, end;
};

/// The rows of each expert in each group, [groups, experts], then, for each
/// group, those before the first and behind the last. None overlap, whatever
/// the offsets.
struct Segments {
  Segments(const SheafGroupedMatmul &p, const int32_t *offsets) {
    for (int64_t group = 0; group < p.groups; ++group) {
      const int32_t *of = offsets + group * (p.experts + 1);
      int64_t at = std::clamp<int64_t>(of[0], 0, p.rows);
      outside.push_back({0, at});
      for (int64_t expert = 0; expert < p.experts; ++expert) {
        int64_t end = std::clamp<int64_t>(of[expert + 1], at, p.rows);
        inside.push_back({at, end});
        used += end - at;
        at = end;
      }
      outside.push_back({at, p.rows});
    }
  }
  std::vector<Segment> inside, outside;
  int64_t used = 0;
};

/// Tiles that a thread does one after the other.
struct Task {
  int64_t group, expert; ///< expert -1: zeros
  int64_t row, rows, column, columns;
};

/// Runs tasks, several at once on a thread where each is small.
template <typename Run>
void runTasks(ThreadPool &pool, const std::vector<Task> &tasks,
              const std::vector<double> &work, Run run) {
  std::vector<size_t> ends;
  double sum = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    sum += work[i];
    if (sum >= smallest || i + 1 == tasks.size()) {
      ends.push_back(i + 1);
      sum = 0;
    }
  }
  pool.run(static_cast<int64_t>(ends.size()), [&](int64_t i) {
    for (size_t t = i ? ends[i - 1] : 0; t < ends[i]; ++t)
      run(tasks[t]);
  });
}

/// The description of one product, whose m and k depend on the rows.
SheafMatmul productOf(const SheafGroupedMatmul &p, int64_t rows) {
  SheafMatmul product{};
  product.m = p.outer ? p.k : rows;
  product.n = p.n;
  product.k = p.outer ? rows : p.k;
  product.lda = p.k;
  product.ldb = p.transposed ? p.k : p.n;
  product.ldc = p.n;
  std::fill_n(product.batch, SHEAF_MATMUL_BATCH_RANK, 1);
  product.transpose_a = p.outer;
  product.transpose_b = p.transposed;
  product.type_a = product.type_b = product.type_c = p.type;
  product.alpha = 1;
  return product;
}

/// The part that a group belongs to.
int64_t partOf(const SheafGroupedMatmul &p, int64_t group) {
  return group / (p.groups / p.parts);
}

/// Cuts a product into tiles by its shape.
void addTiles(std::vector<Task> &tasks, std::vector<double> &work,
              const SheafMatmul &product, int64_t group, int64_t expert,
              int64_t firstRow) {
  MatmulTiles tiles = chooseTiles(product);
  for (int64_t row = 0; row < product.m; row += tiles.rows)
    for (int64_t column = 0; column < product.n; column += tiles.columns) {
      Task task{group,          expert,
                firstRow + row, std::min(tiles.rows, product.m - row),
                column,         std::min(tiles.columns, product.n - column)};
      tasks.push_back(task);
      work.push_back(2.0 * task.rows * task.columns *
                     std::max<int64_t>(product.k, 1));
    }
}

template <typename T>
void runRows(ThreadPool &pool, const SheafGroupedMatmul &p,
             const Segments &segments, const T *a, const T *b, T *c) {
  std::vector<Task> tasks;
  std::vector<double> work;
  for (size_t i = 0; i < segments.inside.size(); ++i) {
    auto [begin, end] = segments.inside[i];
    int64_t group = static_cast<int64_t>(i) / p.experts,
            expert = static_cast<int64_t>(i) % p.experts;
    if (begin < end)
      addTiles(tasks, work, productOf(p, end - begin), group,
               partOf(p, group) * p.experts + expert, begin);
  }
  for (size_t i = 0; i < segments.outside.size(); ++i) {
    auto [begin, end] = segments.outside[i];
    if (begin == end)
      continue;
    tasks.push_back(
        {static_cast<int64_t>(i) / 2, -1, begin, end - begin, 0, p.n});
    work.push_back(static_cast<double>(end - begin) * p.n);
  }
  runTasks(pool, tasks, work, [&](const Task &task) {
    int64_t row = task.group * p.rows + task.row;
    T *to = c + row * p.n + task.column;
    if (task.expert < 0) {
      std::fill_n(to, task.rows * p.n, T(0));
      return;
    }
    SheafMatmul product = productOf(p, task.rows);
    const T *matrix = b + task.expert * p.k * p.n +
                      (p.transposed ? task.column * p.k : task.column);
    multiply(product, task.rows, task.columns, a + row * p.k, matrix, to);
  });
}

template <typename T>
void runOuter(ThreadPool &pool, const SheafGroupedMatmul &p,
              const Segments &segments, const T *a, const T *b, T *c) {
  std::vector<Task> tasks;
  std::vector<double> work;
  // Of expert e of a part, with the groups of that part alone.
  int64_t groups = p.groups / p.parts;
  auto segment = [&](int64_t expert, int64_t group) {
    int64_t part = expert / p.experts;
    return segments
        .inside[(part * groups + group) * p.experts + expert % p.experts];
  };
  for (int64_t expert = 0; expert < p.parts * p.experts; ++expert) {
    int64_t rows = 0;
    for (int64_t group = 0; group < groups; ++group) {
      auto [begin, end] = segment(expert, group);
      rows += end - begin;
    }
    if (rows == 0 && p.accumulate)
      continue;
    addTiles(tasks, work, productOf(p, rows), 0, expert, 0);
  }
  runTasks(pool, tasks, work, [&](const Task &task) {
    T *to = c + task.expert * p.k * p.n + task.row * p.n + task.column;
    bool holds = p.accumulate;
    for (int64_t group = 0; group < groups; ++group) {
      auto [begin, end] = segment(task.expert, group);
      if (begin == end)
        continue;
      SheafMatmul product = productOf(p, end - begin);
      product.beta = holds ? 1 : 0;
      int64_t row = (task.expert / p.experts * groups + group) * p.rows + begin;
      multiply(product, task.rows, task.columns, a + row * p.k + task.row,
               b + row * p.n + task.column, to);
      holds = true;
    }
    if (!holds)
      for (int64_t i = 0; i < task.rows; ++i)
        std::fill_n(to + i * p.n, task.columns, T(0));
  });
}

template <typename T>
void runTyped(ThreadPool &pool, const SheafGroupedMatmul &p,
              const Segments &segments, const void *a, const void *b, void *c) {
  auto run = p.outer ? runOuter<T> : runRows<T>;
  run(pool, p, segments, static_cast<const T *>(a), static_cast<const T *>(b),
      static_cast<T *>(c));
}
} // namespace

std::string sheaf::checkGroupedMatmul(const SheafGroupedMatmul &p) {
  if (p.type != SHEAF_F32 && p.type != SHEAF_F64)
    return fmt::format("a grouped product of type {} is not known to the CPU "
                       "device; expected f32 or f64",
                       p.type);
  if (p.groups < 0 || p.rows < 0 || p.experts < 1 || p.k < 1 || p.n < 1)
    return fmt::format("a grouped product has sizes {} x {}, {} experts, "
                       "{}x{}; expected at least 0, 1 and 1",
                       p.groups, p.rows, p.experts, p.k, p.n);
  if (p.rows > blasLimit || p.k > blasLimit || p.n > blasLimit)
    return fmt::format("a grouped product of {} rows, {}x{}, is too large for "
                       "BLAS: expected sizes below 2^31",
                       p.rows, p.k, p.n);
  if (p.parts < 1 || p.groups % p.parts)
    return fmt::format("a grouped product has {} parts, expected a divisor of "
                       "its {} groups",
                       p.parts, p.groups);
  if (p.outer && p.transposed)
    return "a grouped product is outer and transposed; expected one of them";
  return "";
}

double sheaf::runGroupedMatmul(ThreadPool &pool, const SheafGroupedMatmul &p,
                               const void *a, const void *b,
                               const int32_t *offsets, void *c) {
  Segments segments(p, offsets);
  if (p.type == SHEAF_F32)
    runTyped<float>(pool, p, segments, a, b, c);
  else
    runTyped<double>(pool, p, segments, a, b, c);
  return 2.0 * static_cast<double>(segments.used) * static_cast<double>(p.k) *
         static_cast<double>(p.n);
}
