//===- TileEmitter.cpp - Vector code on tiles -----------------------------===//

#include "TileEmitter.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace sheaf::cpu {

static std::optional<int64_t> constantOf(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return std::nullopt;
}

TileEmitter::TileEmitter(OpBuilder &builder, Location loc,
                         FloatType elementType, int64_t lanes,
                         int64_t microRows, int64_t microVectors)
    : builder(builder), loc(loc), elementType(elementType), lanes(lanes),
      microRows(microRows), microVectors(microVectors),
      vectorType(VectorType::get({lanes}, elementType)) {}

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

Value TileEmitter::index(int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}

Value TileEmitter::add(Value a, Value b) {
  auto ca = constantOf(a), cb = constantOf(b);
  if (ca && cb)
    return index(*ca + *cb);
  if (ca && *ca == 0)
    return b;
  if (cb && *cb == 0)
    return a;
  return arith::AddIOp::create(builder, loc, a, b);
}

Value TileEmitter::sub(Value a, Value b) {
  auto ca = constantOf(a), cb = constantOf(b);
  if (ca && cb)
    return index(*ca - *cb);
  if (cb && *cb == 0)
    return a;
  return arith::SubIOp::create(builder, loc, a, b);
}

Value TileEmitter::mul(Value a, Value b) {
  auto ca = constantOf(a), cb = constantOf(b);
  if (ca && cb)
    return index(*ca * *cb);
  return arith::MulIOp::create(builder, loc, a, b);
}

Value TileEmitter::div(Value a, Value b) {
  return arith::DivUIOp::create(builder, loc, a, b);
}

Value TileEmitter::rem(Value a, Value b) {
  return arith::RemUIOp::create(builder, loc, a, b);
}

Value TileEmitter::min(Value a, Value b) {
  return arith::MinSIOp::create(builder, loc, a, b);
}

Value TileEmitter::max(Value a, Value b) {
  return arith::MaxSIOp::create(builder, loc, a, b);
}

Value TileEmitter::compare(arith::CmpIPredicate predicate, Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, predicate, a, b);
}

Extent TileEmitter::remaining(int64_t total, Value start, int64_t step) {
  if (total % step == 0)
    return extent(step);
  return {min(index(step), sub(index(total), start)), -1};
}

//===----------------------------------------------------------------------===//
// Vector arithmetic
//===----------------------------------------------------------------------===//

Value TileEmitter::splat(double value) {
  return arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(
          vectorType, Attribute(builder.getFloatAttr(elementType, value))));
}

Value TileEmitter::splat(Value scalar) {
  auto type = VectorType::get({lanes}, scalar.getType());
  return vector::BroadcastOp::create(builder, loc, type, scalar);
}

Value TileEmitter::fadd(Value a, Value b) {
  return arith::AddFOp::create(builder, loc, a, b);
}

Value TileEmitter::fsub(Value a, Value b) {
  return arith::SubFOp::create(builder, loc, a, b);
}

Value TileEmitter::fmul(Value a, Value b) {
  return arith::MulFOp::create(builder, loc, a, b);
}

Value TileEmitter::fdiv(Value a, Value b) {
  return arith::DivFOp::create(builder, loc, a, b);
}

Value TileEmitter::fma(Value a, Value b, Value c) {
  return vector::FMAOp::create(builder, loc, a, b, c);
}

Value TileEmitter::fcompare(arith::CmpFPredicate predicate, Value a, Value b) {
  return arith::CmpFOp::create(builder, loc, predicate, a, b);
}

Value TileEmitter::select(Value condition, Value a, Value b) {
  return arith::SelectOp::create(builder, loc, condition, a, b);
}

Value TileEmitter::fmaxDropNaN(Value a, Value b) {
  // Compare and select is one vmaxps; arith.maximumf would add a compare and a
  // blend for NaN.
  return select(fcompare(arith::CmpFPredicate::OGT, a, b), a, b);
}

Value TileEmitter::exp(Value x, bool nonPositive) {
  if (!elementType.isF32())
    return math::ExpOp::create(builder, loc, x);

  // exp(x) = 2^n e^r with n = round(x / ln 2). The clamps keep n in
  // [-127, 128]; as exponent fields, those are exactly 0 and +inf. NaN passes
  // through both, since the comparison with it is false.
  Value low = splat(-88.0), high = splat(89.0);
  x = select(fcompare(arith::CmpFPredicate::OGT, low, x), low, x);
  if (!nonPositive)
    x = select(fcompare(arith::CmpFPredicate::OLT, high, x), high, x);

  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of
  // the significand; the 127 more makes it a biased exponent. (No conversion
  // to integer, whose result for NaN would be undefined.)
  Value magic = splat(12582912.0 + 127.0);
  Value shifted = fma(x, splat(0x1.715476p+0), magic);
  Value n = fsub(shifted, magic);
  // ln 2 in two parts, the first short enough that n times it is exact.
  Value r = fma(n, splat(-0x1.62e4p-1), x);
  r = fma(n, splat(-0x1.7f7d1cp-20), r);

  // 1 + r + r^2 c(r), c of degree 4, a weighted least-squares fit driven to the
  // minimax of the relative error on |r| <= ln(2)/2: 3.1e-9.
  Value p = splat(0.001381446724);
  for (double c :
       {0.008368780836, 0.04166839272, 0.1666651964, 0.4999999404, 1.0, 1.0})
    p = fma(p, r, splat(c));

  auto bits = VectorType::get({lanes}, builder.getI32Type());
  Value exponent = arith::ShLIOp::create(
      builder, loc, arith::BitcastOp::create(builder, loc, bits, shifted),
      arith::ConstantOp::create(
          builder, loc,
          DenseElementsAttr::get(bits, builder.getI32IntegerAttr(23))));
  // A product, not a sum of exponents, so that NaN stays NaN.
  return fmul(p, arith::BitcastOp::create(builder, loc, vectorType, exponent));
}

Value TileEmitter::sumLanes(Value vector) {
  int64_t n = lanes;
  while (n > 1) {
    n /= 2;
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < n; ++i) {
      low.push_back(i);
      high.push_back(n + i);
    }
    vector =
        fadd(vector::ShuffleOp::create(builder, loc, vector, vector, low),
             vector::ShuffleOp::create(builder, loc, vector, vector, high));
  }
  return vector::ExtractOp::create(builder, loc, vector, ArrayRef<int64_t>{0});
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

SmallVector<Value> TileEmitter::indices(const Window &w, Value row,
                                        Value column) {
  SmallVector<Value> result(w.origin.begin(), w.origin.end());
  result[w.rowDim] = add(result[w.rowDim], row);
  result[w.columnDim] = add(result[w.columnDim], column);
  return result;
}

Value TileEmitter::loadScalar(const Window &w, Value row, Value column) {
  return memref::LoadOp::create(builder, loc, w.memref,
                                indices(w, row, column));
}

void TileEmitter::storeScalar(Value scalar, const Window &w, Value row,
                              Value column) {
  memref::StoreOp::create(builder, loc, scalar, w.memref,
                          indices(w, row, column));
}

Value TileEmitter::load(const Window &w, Value row, Value column, Value mask) {
  auto type = VectorType::get(
      {lanes}, cast<MemRefType>(w.memref.getType()).getElementType());
  auto position = indices(w, row, column);
  if (!mask)
    return vector::LoadOp::create(builder, loc, type, w.memref, position);
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
  return vector::MaskedLoadOp::create(builder, loc, type, w.memref, position,
                                      mask, zero);
}

void TileEmitter::store(Value vector, const Window &w, Value row, Value column,
                        Value mask) {
  auto position = indices(w, row, column);
  if (mask)
    vector::MaskedStoreOp::create(builder, loc, w.memref, position, mask,
                                  vector);
  else
    vector::StoreOp::create(builder, loc, vector, w.memref, position);
}

Value TileEmitter::columnMask(const Extent &columns, Value column) {
  if (columns.isMultipleOf(lanes))
    return {};
  auto type = VectorType::get({lanes}, builder.getI1Type());
  Value valid = max(index(0), min(index(lanes), sub(columns.value, column)));
  return vector::CreateMaskOp::create(builder, loc, type, ValueRange{valid});
}

Window TileEmitter::scratch(ArrayRef<int64_t> shape, Type type) {
  Window result;
  result.memref = memref::AllocaOp::create(
      builder, loc, MemRefType::get(shape, type ? type : Type(elementType)),
      builder.getI64IntegerAttr(64));
  result.origin.assign(shape.size(), index(0));
  result.rowDim = 0;
  result.columnDim = shape.size() - 1;
  return result;
}

Window TileEmitter::at(const Window &w, Value row, Value column) {
  Window result = w;
  result.origin[w.rowDim] = add(w.origin[w.rowDim], row);
  result.origin[w.columnDim] = add(result.origin[w.columnDim], column);
  return result;
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

void TileEmitter::loop(Value lower, Value upper, int64_t step,
                       function_ref<void(Value)> body) {
  loop(lower, upper, step, ValueRange{}, [&](Value i, ValueRange) {
    body(i);
    return Values{};
  });
}

TileEmitter::Values
TileEmitter::loop(Value lower, Value upper, int64_t step, ValueRange init,
                  function_ref<Values(Value, ValueRange)> body) {
  auto op = scf::ForOp::create(
      builder, loc, lower, upper, index(step), init,
      [&](OpBuilder &, Location, Value i, ValueRange carried) {
        // The builder given is the one held, moved into the body.
        Values results = body(i, carried);
        scf::YieldOp::create(builder, loc, ValueRange(results));
      });
  return Values(op.getResults().begin(), op.getResults().end());
}

void TileEmitter::ifTrue(Value condition, function_ref<void()> body) {
  scf::IfOp::create(builder, loc, condition, [&](OpBuilder &, Location) {
    body();
    scf::YieldOp::create(builder, loc);
  });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void TileEmitter::microKernel(Value row, int64_t rows, Value column,
                              int64_t vectors, const Extent &depth,
                              function_ref<Value(Value, Value)> a,
                              function_ref<Value(Value, Value)> b,
                              function_ref<Value(Value, Value)> first,
                              function_ref<void(Value, Value, Value)> store) {
  Values rowAt, columnAt, sums;
  for (int64_t r = 0; r < rows; ++r)
    rowAt.push_back(add(row, index(r)));
  for (int64_t v = 0; v < vectors; ++v)
    columnAt.push_back(add(column, index(v * lanes)));
  for (Value r : rowAt)
    for (Value c : columnAt)
      sums.push_back(first(r, c));
  sums = loop(index(0), depth.value, 1, sums, [&](Value k, ValueRange carried) {
    Values right, next;
    for (Value c : columnAt)
      right.push_back(b(k, c));
    for (int64_t r = 0; r < rows; ++r) {
      Value left = splat(a(rowAt[r], k));
      for (int64_t v = 0; v < vectors; ++v)
        next.push_back(fma(left, right[v], carried[r * vectors + v]));
    }
    return next;
  });
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < vectors; ++v)
      store(sums[r * vectors + v], rowAt[r], columnAt[v]);
}

void TileEmitter::product(const Extent &rows, int64_t vectors,
                          const Extent &depth,
                          function_ref<Value(Value, Value)> a,
                          function_ref<Value(Value, Value)> b,
                          function_ref<Value(Value, Value)> first,
                          function_ref<void(Value, Value, Value)> store) {
  auto allRows = [&](Value column, int64_t width) {
    Value whole = rows.known >= 0
                      ? index(rows.known - rows.known % microRows)
                      : sub(rows.value, rem(rows.value, index(microRows)));
    if (rows.known < 0 || rows.known >= microRows)
      loop(index(0), whole, microRows, [&](Value row) {
        microKernel(row, microRows, column, width, depth, a, b, first, store);
      });
    if (rows.known >= 0 && rows.known % microRows != 0)
      microKernel(whole, rows.known % microRows, column, width, depth, a, b,
                  first, store);
    else if (rows.known < 0)
      loop(whole, rows.value, 1, [&](Value row) {
        microKernel(row, 1, column, width, depth, a, b, first, store);
      });
  };
  int64_t whole = vectors - vectors % microVectors;
  if (whole > 0)
    loop(whole * lanes, microVectors * lanes,
         [&](Value column) { allRows(column, microVectors); });
  if (whole < vectors)
    allRows(index(whole * lanes), vectors - whole);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

TileEmitter::Values TileEmitter::transpose(Values rows) {
  // Interleaving the first half of the vectors with the second, log2(lanes)
  // times, moves the bits of the row number below those of the lane number.
  int64_t half = lanes / 2;
  for (int64_t stage = 1; stage < lanes; stage *= 2) {
    Values next;
    for (int64_t i = 0; i < half; ++i)
      for (int64_t part = 0; part < 2; ++part) {
        SmallVector<int64_t> mask;
        for (int64_t lane = 0; lane < half; ++lane) {
          mask.push_back(part * half + lane);
          mask.push_back(lanes + part * half + lane);
        }
        next.push_back(vector::ShuffleOp::create(builder, loc, rows[i],
                                                 rows[i + half], mask));
      }
    rows = next;
  }
  return rows;
}

void TileEmitter::copyTransposed(const Window &from, const Extent &rows,
                                 const Extent &columns, const Window &to,
                                 int64_t toColumns, int64_t maxColumns,
                                 Value scale) {
  loop(toColumns, lanes, [&](Value r0) {
    loop(maxColumns, lanes, [&](Value c0) {
      Value mask = columnMask(columns, c0);
      Values block;
      for (int64_t i = 0; i < lanes; ++i) {
        Value r = add(r0, index(i));
        Value rowMask = mask;
        // A row that does not exist is read with no lane set.
        if (!rows.isMultipleOf(lanes)) {
          Value exists =
              splat(compare(arith::CmpIPredicate::slt, r, rows.value));
          rowMask =
              mask ? Value(arith::AndIOp::create(builder, loc, mask, exists))
                   : exists;
        }
        block.push_back(load(from, r, c0, rowMask));
      }
      block = transpose(block);
      for (int64_t i = 0; i < lanes; ++i)
        store(scale ? fmul(block[i], scale) : block[i], to, add(c0, index(i)),
              r0);
    });
  });
}

void TileEmitter::readTransposed(
    function_ref<Value(Value, Value)> read, const Extent &rows, int64_t maxRows,
    const Extent &columns, int64_t maxColumns,
    function_ref<void(Value, Value, Value, Value)> sink) {
  loop(maxRows, lanes, [&](Value r0) {
    loop(maxColumns, lanes, [&](Value c0) {
      Value mask = columnMask(columns, c0);
      Values block;
      for (int64_t i = 0; i < lanes; ++i)
        block.push_back(read(add(c0, index(i)), r0));
      block = transpose(block);
      for (int64_t i = 0; i < lanes; ++i) {
        Value r = add(r0, index(i));
        if (rows.isMultipleOf(lanes))
          sink(block[i], r, c0, mask);
        else
          ifTrue(compare(arith::CmpIPredicate::slt, r, rows.value),
                 [&] { sink(block[i], r, c0, mask); });
      }
    });
  });
}

void TileEmitter::copyRows(const Window &from, const Extent &rows,
                           int64_t columns, const Window &to) {
  loop(index(0), rows.value, 1, [&](Value r) {
    for (int64_t c = 0; c < columns; c += lanes)
      store(load(from, r, index(c), columnMask(extent(columns), index(c))), to,
            r, index(c));
  });
}

void TileEmitter::fillRows(const Window &to, const Extent &rows,
                           int64_t columns, Value vector) {
  loop(index(0), rows.value, 1, [&](Value r) {
    for (int64_t c = 0; c < columns; c += lanes)
      store(vector, to, r, index(c), columnMask(extent(columns), index(c)));
  });
}

} // namespace sheaf::cpu
