//===- Matmul.cpp - Einsums that a matrix product can do ------------------===//

#include "lowering/NNToExec/NNToExec.h"

using namespace mlir;
using namespace sheaf;

namespace {
/// One or several einsum letters that lie behind one another in every tensor
/// that has them, with the stride (0 where absent) in A, B and C.
struct Dim {
  int64_t size;
  std::array<int64_t, 3> stride;
  bool in(int tensor) const { return stride[tensor] != 0; }
};
} // namespace

Strides sheaf::rowMajor(ArrayRef<int64_t> shape) {
  Strides strides(shape.size(), 1);
  for (int64_t i = static_cast<int64_t>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

std::optional<Strides> sheaf::reshapeStrides(ArrayRef<int64_t> from,
                                             ArrayRef<int64_t> strides,
                                             ArrayRef<int64_t> to) {
  // Dimensions of more than one element, joined where they lie behind one
  // another.
  SmallVector<std::pair<int64_t, int64_t>> parts; // size, stride
  for (auto [size, stride] : llvm::zip_equal(from, strides)) {
    if (size == 1)
      continue;
    if (!parts.empty() && parts.back().second == size * stride)
      parts.back() = {parts.back().first * size, stride};
    else
      parts.push_back({size, stride});
  }
  // Each part is cut into dimensions of the new shape, from the last on.
  Strides result(to.size(), 1);
  int64_t done = 1;
  for (int64_t i = static_cast<int64_t>(to.size()) - 1; i >= 0; --i) {
    if (to[i] == 1)
      continue;
    if (parts.empty() || parts.back().first % (done * to[i]))
      return std::nullopt;
    result[i] = parts.back().second * done;
    done *= to[i];
    if (done == parts.back().first) {
      parts.pop_back();
      done = 1;
    }
  }
  return result;
}

/// The strides of a tensor, by letter.
static void addStrides(StringRef letters, ArrayRef<int64_t> shape,
                       ArrayRef<int64_t> strides, int tensor,
                       SmallVectorImpl<std::pair<char, Dim>> &dims) {
  for (int i = static_cast<int>(letters.size()) - 1; i >= 0; --i) {
    auto it = llvm::find_if(
        dims, [&](auto &entry) { return entry.first == letters[i]; });
    if (it == dims.end()) {
      dims.push_back({letters[i], Dim{shape[i], {0, 0, 0}}});
      it = dims.end() - 1;
    }
    it->second.stride[tensor] = strides[i];
  }
}

/// Puts dims together that differ by a constant factor in every tensor.
static void merge(SmallVectorImpl<Dim> &dims) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t i = 0; i < dims.size() && !changed; ++i)
      for (size_t j = 0; j < dims.size() && !changed; ++j) {
        if (i == j)
          continue;
        // i is the outer one.
        bool fits = true;
        for (int t = 0; t < 3; ++t)
          fits &= dims[i].in(t) == dims[j].in(t) &&
                  dims[i].stride[t] == dims[j].stride[t] * dims[j].size;
        if (!fits)
          continue;
        dims[j].size *= dims[i].size;
        dims.erase(dims.begin() + i);
        changed = true;
      }
  }
}

std::optional<MatmulPlan> sheaf::planMatmul(nn::EinsumOp einsum) {
  if (einsum.getInputs().size() != 2)
    return std::nullopt;
  auto plain = [](Value value) {
    return rowMajor(cast<RankedTensorType>(value.getType()).getShape());
  };
  return planMatmul(einsum,
                    {plain(einsum.getInputs()[0]), plain(einsum.getInputs()[1]),
                     plain(einsum.getResult())});
}

std::optional<MatmulPlan>
sheaf::planMatmul(nn::EinsumOp einsum, const std::array<Strides, 3> &strides) {
  if (einsum.getInputs().size() != 2)
    return std::nullopt;
  RankedTensorType types[3] = {
      cast<RankedTensorType>(einsum.getInputs()[0].getType()),
      cast<RankedTensorType>(einsum.getInputs()[1].getType()),
      einsum.getType()};
  for (RankedTensorType type : types)
    if (type.getElementType() != types[0].getElementType() ||
        !isa<Float32Type, Float64Type>(type.getElementType()))
      return std::nullopt;
  auto [left, result] = einsum.getEquation().split("->");
  auto [a, b] = left.split(',');
  SmallVector<std::pair<char, Dim>> letters;
  addStrides(a, types[0].getShape(), strides[0], 0, letters);
  addStrides(b, types[1].getShape(), strides[1], 1, letters);
  addStrides(result, types[2].getShape(), strides[2], 2, letters);

  SmallVector<Dim> rows, columns, inner, batch;
  for (auto &[letter, dim] : letters) {
    if (dim.size == 1)
      continue;
    if (dim.in(0) && dim.in(1))
      (dim.in(2) ? batch : inner).push_back(dim);
    else if (!dim.in(2))
      return std::nullopt; // a sum over one operand alone
    else
      (dim.in(0) ? rows : columns).push_back(dim);
  }
  for (auto *group : {&rows, &columns, &inner, &batch})
    merge(*group);
  if (inner.size() > 1)
    return std::nullopt;

  MatmulPlan plan;
  const Dim unit{1, {1, 1, 1}};
  Dim k = inner.empty() ? unit : inner[0];
  // The rows and columns that can have unit stride where the product needs it;
  // the others become batches that one operand does not have.
  auto fits = [&](const Dim &m, const Dim &n, bool swapped) {
    int A = swapped ? 1 : 0, B = swapped ? 0 : 1;
    auto oneIsUnit = [](const Dim &x, const Dim &y, int t) {
      return x.size == 1 || y.size == 1 || x.stride[t] == 1 || y.stride[t] == 1;
    };
    return (n.size == 1 || n.stride[2] == 1) && oneIsUnit(m, k, A) &&
           oneIsUnit(k, n, B);
  };
  SmallVector<Dim> rowChoices(rows), columnChoices(columns);
  rowChoices.push_back(unit);
  columnChoices.push_back(unit);
  int64_t best = 0;
  Dim bestM = unit, bestN = unit;
  for (const Dim &r : rowChoices)
    for (const Dim &c : columnChoices)
      for (bool swapped : {false, true}) {
        const Dim &m = swapped ? c : r, &n = swapped ? r : c;
        size_t batches = batch.size() + rows.size() - (r.size > 1) +
                         columns.size() - (c.size > 1);
        int64_t work = m.size * n.size;
        if (batches <= 3 && work > best && fits(m, n, swapped)) {
          best = work;
          bestM = m;
          bestN = n;
          plan.swapped = swapped;
        }
      }
  if (best == 0)
    return std::nullopt;
  for (const Dim &dim : llvm::concat<Dim>(rows, columns))
    if (dim.stride != bestM.stride && dim.stride != bestN.stride)
      batch.push_back(dim);

  int A = plan.swapped ? 1 : 0, B = plan.swapped ? 0 : 1;
  plan.m = bestM.size;
  plan.n = bestN.size;
  plan.k = k.size;
  // op(X) is rows x columns; stored transposed where its columns are not the
  // dimension of unit stride.
  auto layout = [](const Dim &outer, const Dim &last, int t, bool &transposed,
                   int64_t &leading) {
    bool lastIsUnit = last.size == 1 ? !(outer.size > 1 && outer.stride[t] == 1)
                                     : last.stride[t] == 1;
    transposed = !lastIsUnit;
    const Dim &slow = lastIsUnit ? outer : last;
    const Dim &fast = lastIsUnit ? last : outer;
    leading = slow.size == 1 ? fast.size : slow.stride[t];
    // A column of a matrix whose rows are long: one element each.
    return leading >= fast.size;
  };
  bool transposedC = false;
  if (!layout(bestM, k, A, plan.transposeA, plan.lda) ||
      !layout(k, bestN, B, plan.transposeB, plan.ldb) ||
      !layout(bestM, bestN, 2, transposedC, plan.ldc))
    return std::nullopt;
  if (transposedC) {
    // One column, contiguous: a column of leading dimension 1.
    if (bestN.size != 1)
      return std::nullopt;
    plan.ldc = 1;
  }
  llvm::sort(batch, [](const Dim &x, const Dim &y) {
    return x.stride[2] > y.stride[2];
  });
  for (const Dim &dim : batch) {
    plan.batch.push_back(dim.size);
    plan.strides[0].push_back(dim.stride[A]);
    plan.strides[1].push_back(dim.stride[B]);
    plan.strides[2].push_back(dim.stride[2]);
  }
  return plan;
}
