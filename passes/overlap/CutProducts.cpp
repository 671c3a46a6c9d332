//===- CutProducts.cpp - Products and transfers that take turns -----------===//
//
// On tensors: a gather is cut into gathers of some rows of each device, and the
// products that read it into products of those; a product is cut likewise in
// front of the reduce-scatter of its result. Then the rows in hand are
// multiplied while the next ones are under way. Sums are never cut, so each
// number is computed as before.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NN.h"
#include "passes/overlap/ClusterCosts.h"
#include "passes/overlap/Passes.h"
#include "llvm/ADT/SetVector.h"
#include <limits>

namespace sheaf {
#define GEN_PASS_DEF_EXECCUTPRODUCTS
#include "passes/overlap/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::exec;

namespace {
RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// By how much cutting must be faster, of the time that a transfer is waited
/// for; parts that bring less are not worth their kernels.
constexpr double kLeastGain = 0.1;
constexpr int64_t kMostParts = 8;
/// Ops that are looked at one behind another.
constexpr unsigned kMostOps = 32;
/// Rows of a device that are cut off, a multiple of so many: that of tiles. And
/// multiplications of a part, at least: libraries add those of smaller products
/// in another order.
constexpr int64_t kRows = 128;
constexpr double kLeastProduct = 1 << 20;

bool hasRole(Operation *op, StringRef name) {
  auto role = op->getAttrOfType<StringAttr>(nn::kRoleAttr);
  return role && role.getValue() == name;
}

/// The dimension along which a transfer has `devices` times as many rows on one
/// side; nothing where no dimension alone differs.
std::optional<int64_t> cutDim(RankedTensorType whole, RankedTensorType part,
                              int64_t devices) {
  std::optional<int64_t> dim;
  if (whole.getRank() != part.getRank())
    return std::nullopt;
  for (int64_t i = 0; i < whole.getRank(); ++i) {
    if (whole.getDimSize(i) == part.getDimSize(i))
      continue;
    if (dim || whole.getDimSize(i) != devices * part.getDimSize(i))
      return std::nullopt;
    dim = i;
  }
  return dim;
}

/// How many devices a transfer is between.
int64_t membersOf(TransferOp op) {
  int64_t members = 1;
  for (int64_t size : op.getSizes())
    members *= size;
  return members;
}

/// The product of the sizes in front of a dimension.
int64_t rowsBefore(RankedTensorType type, int64_t dim) {
  int64_t rows = 1;
  for (int64_t size : type.getShape().take_front(dim))
    rows *= size;
  return rows;
}

/// How an einsum of two operands keeps a dimension of one.
struct Kept {
  unsigned operand;
  int64_t from; ///< The dimension of the operand,
  int64_t to;   ///< and of the result.
};

/// The einsum's operand that alone has the letter of dimension `to` of the
/// result.
std::optional<Kept> keptAs(nn::EinsumOp einsum, int64_t to) {
  auto [left, right] = einsum.getEquation().split("->");
  SmallVector<StringRef> operands;
  left.split(operands, ',');
  if (operands.size() != 2 || to >= static_cast<int64_t>(right.size()))
    return std::nullopt;
  size_t in[] = {operands[0].find(right[to]), operands[1].find(right[to])};
  if ((in[0] == StringRef::npos) == (in[1] == StringRef::npos))
    return std::nullopt;
  unsigned operand = in[0] == StringRef::npos;
  if (operands[operand].count(right[to]) != 1)
    return std::nullopt;
  return Kept{operand, static_cast<int64_t>(in[operand]), to};
}

/// The same from a dimension of an operand.
std::optional<Kept> keptFrom(nn::EinsumOp einsum, unsigned operand,
                             int64_t from) {
  auto [left, right] = einsum.getEquation().split("->");
  SmallVector<StringRef> operands;
  left.split(operands, ',');
  if (operand >= operands.size())
    return std::nullopt;
  size_t to = right.find(operands[operand][from]);
  if (to == StringRef::npos)
    return std::nullopt;
  std::optional<Kept> kept = keptAs(einsum, to);
  return kept && kept->operand == operand ? kept : std::nullopt;
}

class Cutter {
public:
  Cutter(func::FuncOp function, ClusterCosts *costs, int64_t parts)
      : function(function), costs(costs), forced(parts),
        builder(function.getContext(), &roles) {}

  void run() {
    for (Block &block : function.getBody())
      delayWeightGradients(block);
    SmallVector<TransferOp> transfers;
    function.walk([&](TransferOp op) { transfers.push_back(op); });
    for (TransferOp op : transfers) {
      if (op.getKind() == Transfer::AllGather)
        cutGather(op);
      else if (op.getKind() == Transfer::ReduceScatter)
        cutScatter(op);
    }
  }

private:
  func::FuncOp function;
  ClusterCosts *costs; ///< null: as many parts as are forced
  int64_t forced;
  struct Roles : OpBuilder::Listener {
    void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) final {
      if (role && !op->hasAttr(nn::kRoleAttr))
        op->setAttr(nn::kRoleAttr, role);
    }
    Attribute role;
  } roles;
  OpBuilder builder;

  void delayWeightGradients(Block &block);
  /// One of `parts` transfers in place of `op`.
  TransferOp cloneOf(TransferOp op, Value input, RankedTensorType result,
                     int64_t parts);
  double productSeconds(nn::EinsumOp op, int64_t parts);
  double transferSeconds(TransferOp op, int64_t parts);
  int64_t chooseParts(TransferOp op, int64_t each,
                      ArrayRef<nn::EinsumOp> products, bool isBefore);
  void cutGather(TransferOp op);
  void cutScatter(TransferOp op);
  bool isCuttable(Value value, int64_t dim, Block *block,
                  llvm::SmallSetVector<Operation *, 8> &ops,
                  unsigned depth = 0);
  Value partOf(nn::Emit &emit, Value value, int64_t dim, int64_t devices,
               int64_t parts, int64_t i);
  Value cloneOf(nn::Emit &emit, Value value, int64_t dim, int64_t devices,
                int64_t parts, int64_t i,
                const llvm::SmallSetVector<Operation *, 8> &ops);
  Value joined(nn::Emit &emit, ArrayRef<Value> parts, int64_t dim,
               int64_t devices, RankedTensorType type);
};
} // namespace

//===----------------------------------------------------------------------===//
// What a transfer goes on beside
//===----------------------------------------------------------------------===//

/// Gradients of weights that stand between two transfers and lead to neither
/// come behind the second, when that is a sum: it goes on beside them.
void Cutter::delayWeightGradients(Block &block) {
  SmallVector<TransferOp> sums;
  for (auto op : block.getOps<TransferOp>())
    if (op.getReduction() && !hasRole(op, "weight_gradient") &&
        typeOf(op.getInput()).getRank() > 1)
      sums.push_back(op);
  for (TransferOp sum : llvm::reverse(sums)) {
    SmallVector<Operation *> delayed;
    llvm::SmallPtrSet<Operation *, 16> staying;
    for (Operation *op = sum->getPrevNode(); op && !isa<TransferOp>(op);
         op = op->getPrevNode()) {
      bool stays = !hasRole(op, "weight_gradient") || !isPure(op) ||
                   op->getNumRegions() != 0;
      for (Operation *user : op->getUsers()) {
        Operation *here = block.findAncestorOpInBlock(*user);
        stays |= staying.contains(here) || here == sum;
      }
      if (stays)
        staying.insert(op);
      else
        delayed.push_back(op);
    }
    for (Operation *op : delayed)
      op->moveAfter(sum);
  }
}

static double multiplicationsOf(nn::EinsumOp op) {
  SmallVector<StringRef> operands;
  op.getEquation().split("->").first.split(operands, ',');
  llvm::SmallDenseMap<char, double> sizes;
  for (auto [letters, value] : llvm::zip_equal(operands, op.getInputs()))
    for (auto [i, letter] : llvm::enumerate(letters))
      sizes[letter] = static_cast<double>(typeOf(value).getDimSize(i));
  double count = 1;
  for (auto &entry : sizes)
    count *= entry.second;
  return count;
}

double Cutter::productSeconds(nn::EinsumOp op, int64_t parts) {
  double flops = 2 * multiplicationsOf(op), bytes = 0;
  auto width = [](Value value) {
    return typeOf(value).getElementType().getIntOrFloatBitWidth() / 8.0;
  };
  for (Value value :
       {op.getInputs()[0], op.getInputs()[1], Value(op.getResult())})
    bytes += static_cast<double>(typeOf(value).getNumElements()) * width(value);
  auto kind = [](Value value) {
    Type type = typeOf(value).getElementType();
    return type.isF64()    ? SHEAF_F64
           : type.isBF16() ? SHEAF_BF16
           : type.isF16()  ? SHEAF_F16
                           : SHEAF_F32;
  };
  double count = static_cast<double>(parts);
  return costs->product(flops / count, bytes / count, kind(op.getInputs()[0]),
                        kind(op.getInputs()[1]));
}

double Cutter::transferSeconds(TransferOp op, int64_t parts) {
  // Of an all-gather what all receive.
  RankedTensorType type = typeOf(
      op.getKind() == Transfer::AllGather ? op.getResult() : op.getInput());
  double bytes = static_cast<double>(type.getNumElements()) *
                 type.getElementTypeBitWidth() / 8;
  return costs->transfer(static_cast<int32_t>(op.getKind()),
                         bytes / static_cast<double>(parts),
                         op.getSizes().vec(), op.getStrides().vec());
}

/// Into how many parts of `each` rows; 1: it is not worth it. What computes
/// between what a gather reads and its first product, or behind a sum, hides as
/// much of it without.
int64_t Cutter::chooseParts(TransferOp op, int64_t each,
                            ArrayRef<nn::EinsumOp> products, bool isBefore) {
  double smallest = std::numeric_limits<double>::infinity();
  for (nn::EinsumOp einsum : products)
    smallest = std::min(smallest, multiplicationsOf(einsum));
  auto isPossible = [&](int64_t parts) {
    return parts <= each && each % (parts * kRows) == 0 &&
           smallest / static_cast<double>(parts) >= kLeastProduct;
  };
  if (forced > 0)
    return isPossible(forced) ? forced : 1;
  double whole = transferSeconds(op, 1);
  double beside = 0;
  auto add = [&](Operation *other) {
    if (auto einsum = dyn_cast<nn::EinsumOp>(other);
        einsum && einsum.getInputs().size() == 2)
      beside += productSeconds(einsum, 1);
  };
  if (isBefore) {
    Operation *first = products.front();
    for (nn::EinsumOp einsum : products)
      if (einsum->isBeforeInBlock(first))
        first = einsum;
    Operation *from = op.getInput().getDefiningOp();
    for (Operation *other = first->getPrevNode(); other && other != from;
         other = other->getPrevNode())
      add(other);
  } else {
    Operation *first = op->getBlock()->getTerminator();
    for (Operation *user : op->getUsers())
      if (Operation *here = op->getBlock()->findAncestorOpInBlock(*user);
          here && here->isBeforeInBlock(first))
        first = here;
    for (Operation *other = op->getNextNode(); other != first;
         other = other->getNextNode())
      add(other);
  }
  double left = std::max(0.0, whole - beside);
  auto seconds = [&](int64_t parts) {
    double work = 0;
    for (nn::EinsumOp einsum : products)
      work += productSeconds(einsum, parts);
    double part = transferSeconds(op, parts);
    double count = static_cast<double>(parts);
    // The first of a gather, or the last of a sum, has nothing beside it but
    // what the whole has.
    double waits =
        parts == 1
            ? left
            : std::max(0.0, part + (count - 1) * std::max(0.0, part - work) -
                                beside);
    return work * count + waits;
  };
  double best = seconds(1) - kLeastGain * left;
  int64_t chosen = 1;
  for (int64_t parts = 2; parts <= kMostParts; ++parts)
    if (isPossible(parts) && left > 0)
      if (double time = seconds(parts); time < best) {
        best = time;
        chosen = parts;
      }
  return chosen;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

TransferOp Cutter::cloneOf(TransferOp op, Value input, RankedTensorType result,
                           int64_t parts) {
  auto part = cast<TransferOp>(builder.clone(*op));
  part.getInputMutable().assign(input);
  part.getResult().setType(result);
  NamedAttrList about;
  if (DictionaryAttr known = op.getAboutAttr())
    about = NamedAttrList(known);
  about.set(kPartsKey, builder.getI64IntegerAttr(parts));
  part.setAboutAttr(about.getDictionary(op.getContext()));
  return part;
}

/// Of each device's rows along `dim` part i of `parts`.
Value Cutter::partOf(nn::Emit &emit, Value value, int64_t dim, int64_t devices,
                     int64_t parts, int64_t i) {
  SmallVector<int64_t> shape(typeOf(value).getShape());
  int64_t each = shape[dim] / devices, rows = each / parts;
  SmallVector<int64_t> apart(shape);
  apart[dim] = each;
  apart.insert(apart.begin() + dim, devices);
  SmallVector<int64_t> offsets(apart.size(), 0), sizes(apart);
  offsets[dim + 1] = i * rows;
  sizes[dim + 1] = rows;
  Value slice = emit.make<nn::SliceOp>(
      RankedTensorType::get(sizes, typeOf(value).getElementType()),
      emit.reshape(value, apart), ArrayRef<int64_t>(offsets),
      ArrayRef<int64_t>(sizes), DenseI64ArrayAttr());
  shape[dim] = devices * rows;
  return emit.reshape(slice, shape);
}

/// The inverse.
Value Cutter::joined(nn::Emit &emit, ArrayRef<Value> parts, int64_t dim,
                     int64_t devices, RankedTensorType type) {
  SmallVector<int64_t> apart(type.getShape());
  int64_t each = apart[dim] / devices;
  apart[dim] = each / static_cast<int64_t>(parts.size());
  apart.insert(apart.begin() + dim, devices);
  SmallVector<Value> rows;
  for (Value part : parts)
    rows.push_back(emit.reshape(part, apart));
  apart[dim + 1] = each;
  Value whole = emit.make<nn::ConcatenateOp>(
      RankedTensorType::get(apart, type.getElementType()), rows, dim + 1);
  return emit.reshape(whole, type.getShape());
}

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

/// Moves an op and what it reads in front of `before`, the first that reads
/// `gathered`; false where something cannot go there, or reads that, too.
static bool moveBefore(Operation *op, Operation *before, Value gathered,
                       bool isTried, llvm::SmallPtrSetImpl<Operation *> &seen) {
  if (!op || op->getBlock() != before->getBlock() ||
      (op != before && op->isBeforeInBlock(before)) || !seen.insert(op).second)
    return true;
  if (!isPure(op) || op->getNumRegions() != 0 || isa<TransferOp>(op) ||
      seen.size() > kMostOps)
    return false;
  for (Value operand : op->getOperands())
    if (operand == gathered ||
        !moveBefore(operand.getDefiningOp(), before, gathered, isTried, seen))
      return false;
  if (!isTried)
    op->moveBefore(before);
  return true;
}

void Cutter::cutGather(TransferOp op) {
  RankedTensorType whole = typeOf(op.getResult()), part = typeOf(op.getInput());
  int64_t devices = membersOf(op);
  std::optional<int64_t> dim = cutDim(whole, part, devices);
  if (!dim || devices == 1 || rowsBefore(whole, *dim) != op.getJoin())
    return;
  // Those that keep the rows, in order.
  llvm::SetVector<Operation *> users;
  for (Operation *user : op->getUsers())
    users.insert(user);
  SmallVector<Operation *> sorted(users.begin(), users.end());
  for (Operation *user : sorted)
    if (user->getBlock() != op->getBlock())
      return;
  llvm::sort(sorted,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  SmallVector<nn::EinsumOp> products;
  SmallVector<Kept> kept;
  for (Operation *user : sorted) {
    auto einsum = dyn_cast<nn::EinsumOp>(user);
    if (!einsum || einsum.getInputs().size() != 2 ||
        einsum.getInputs()[0] == einsum.getInputs()[1])
      continue;
    unsigned operand = einsum.getInputs()[1] == op.getResult();
    std::optional<Kept> how = keptFrom(einsum, operand, *dim);
    if (!how)
      continue;
    // The parts of all stand where the first is.
    llvm::SmallPtrSet<Operation *, 8> seen;
    if (!products.empty() &&
        !moveBefore(einsum.getInputs()[1 - operand].getDefiningOp(),
                    products.front(), op.getResult(), /*isTried=*/true, seen))
      continue;
    products.push_back(einsum);
    kept.push_back(*how);
  }
  if (products.empty())
    return;
  int64_t each = part.getDimSize(*dim);
  int64_t parts = chooseParts(op, each, products, /*isBefore=*/true);
  if (parts <= 1)
    return;

  roles.role = op->getAttr(nn::kRoleAttr);
  builder.setInsertionPoint(op);
  nn::Emit emit(builder, op.getLoc());
  SmallVector<Value> gathers;
  SmallVector<int64_t> shape(whole.getShape());
  shape[*dim] = whole.getDimSize(*dim) / parts;
  for (int64_t i = 0; i < parts; ++i) {
    Value rows = partOf(emit, op.getInput(), *dim, 1, parts, i);
    gathers.push_back(cloneOf(op, rows, whole.clone(shape), parts));
  }
  for (auto [einsum, how] : llvm::zip_equal(products, kept)) {
    llvm::SmallPtrSet<Operation *, 8> seen;
    moveBefore(einsum.getInputs()[1 - how.operand].getDefiningOp(),
               products.front(), op.getResult(), /*isTried=*/false, seen);
  }
  builder.setInsertionPoint(products.front());
  SmallVector<SmallVector<Value>> results(products.size());
  for (int64_t i = 0; i < parts; ++i)
    for (auto [number, einsum] : llvm::enumerate(products)) {
      IRMapping mapping;
      mapping.map(op.getResult(), gathers[i]);
      auto cut = cast<nn::EinsumOp>(builder.clone(*einsum, mapping));
      SmallVector<int64_t> rows(einsum.getType().getShape());
      rows[kept[number].to] /= parts;
      cut.getResult().setType(einsum.getType().clone(rows));
      results[number].push_back(cut);
    }
  for (auto [number, einsum] : llvm::enumerate(products)) {
    roles.role = einsum->getAttr(nn::kRoleAttr);
    emit.loc = einsum.getLoc();
    Value all = joined(emit, results[number], kept[number].to, devices,
                       einsum.getType());
    einsum.getResult().replaceAllUsesWith(all);
  }
  for (nn::EinsumOp einsum : products)
    einsum->erase();
  if (!op->use_empty()) {
    // Others, such as gradients of weights, read all of it.
    Operation *first = nullptr;
    for (Operation *user : op->getUsers())
      if (!first || user->isBeforeInBlock(first))
        first = user;
    roles.role = first->getAttr(nn::kRoleAttr);
    builder.setInsertionPoint(first);
    emit.loc = op.getLoc();
    op.getResult().replaceAllUsesWith(
        joined(emit, gathers, *dim, devices, whole));
  }
  op->erase();
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Whether a value that nothing else reads is a product that keeps the rows, or
/// computed of such element by element; `ops` computes it.
bool Cutter::isCuttable(Value value, int64_t dim, Block *block,
                        llvm::SmallSetVector<Operation *, 8> &ops,
                        unsigned depth) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getBlock() != block || !value.hasOneUse() ||
      ops.size() > kMostOps)
    return false;
  if (auto einsum = dyn_cast<nn::EinsumOp>(op)) {
    if (einsum.getInputs().size() != 2 || !keptAs(einsum, dim))
      return false;
    ops.insert(op);
    return true;
  }
  // Those that draw numbers by place are not among them.
  if (!isa<nn::AddOp, nn::SubOp, nn::MulOp, nn::NegOp, nn::CastOp>(op))
    return false;
  for (Value operand : op->getOperands())
    if (typeOf(operand).getShape() != typeOf(value).getShape() &&
        typeOf(operand).getNumElements() != 1)
      return false;
  // Others are cut where they lie.
  bool any = false;
  for (Value operand : op->getOperands())
    any |= depth < kMostOps &&
           typeOf(operand).getShape() == typeOf(value).getShape() &&
           isCuttable(operand, dim, block, ops, depth + 1);
  if (any)
    ops.insert(op);
  return any;
}

/// Part i of a value that `ops` compute.
Value Cutter::cloneOf(nn::Emit &emit, Value value, int64_t dim, int64_t devices,
                      int64_t parts, int64_t i,
                      const llvm::SmallSetVector<Operation *, 8> &ops) {
  Operation *op = value.getDefiningOp();
  if (!op || !ops.contains(op))
    return typeOf(value).getNumElements() == 1
               ? value
               : partOf(emit, value, dim, devices, parts, i);
  IRMapping mapping;
  Attribute role = op->getAttr(nn::kRoleAttr);
  if (auto einsum = dyn_cast<nn::EinsumOp>(op)) {
    Kept kept = *keptAs(einsum, dim);
    Value operand = einsum.getInputs()[kept.operand];
    roles.role = role;
    mapping.map(operand, partOf(emit, operand, kept.from, devices, parts, i));
  } else {
    for (Value operand : op->getOperands()) {
      roles.role = role;
      mapping.map(operand, cloneOf(emit, operand, dim, devices, parts, i, ops));
    }
  }
  Operation *cut = builder.clone(*op, mapping);
  SmallVector<int64_t> shape(typeOf(value).getShape());
  shape[dim] /= parts;
  cut->getResult(0).setType(typeOf(value).clone(shape));
  return cut->getResult(0);
}

void Cutter::cutScatter(TransferOp op) {
  RankedTensorType whole = typeOf(op.getInput()), part = typeOf(op.getResult());
  int64_t devices = membersOf(op);
  std::optional<int64_t> dim = cutDim(whole, part, devices);
  llvm::SmallSetVector<Operation *, 8> ops;
  if (!dim || devices == 1 || rowsBefore(whole, *dim) != op.getCut() ||
      !isCuttable(op.getInput(), *dim, op->getBlock(), ops))
    return;
  SmallVector<nn::EinsumOp> products;
  for (Operation *each : ops)
    if (auto einsum = dyn_cast<nn::EinsumOp>(each))
      products.push_back(einsum);
  int64_t each = part.getDimSize(*dim);
  int64_t parts = chooseParts(op, each, products, /*isBefore=*/false);
  if (parts <= 1)
    return;

  builder.setInsertionPoint(op);
  nn::Emit emit(builder, op.getLoc());
  SmallVector<int64_t> shape(part.getShape());
  shape[*dim] = each / parts;
  SmallVector<Value> results;
  for (int64_t i = 0; i < parts; ++i) {
    roles.role = op->getAttr(nn::kRoleAttr);
    Value rows = cloneOf(emit, op.getInput(), *dim, devices, parts, i, ops);
    results.push_back(cloneOf(op, rows, part.clone(shape), parts));
  }
  roles.role = op->getAttr(nn::kRoleAttr);
  op.getResult().replaceAllUsesWith(joined(emit, results, *dim, 1, part));
  Operation *last = op.getInput().getDefiningOp();
  op->erase();
  // What computed the whole, from the end.
  SmallVector<Operation *> dead{last};
  while (!dead.empty()) {
    Operation *next = dead.pop_back_val();
    if (!next || !ops.contains(next) || !next->use_empty())
      continue;
    for (Value operand : next->getOperands())
      dead.push_back(operand.getDefiningOp());
    ops.remove(next);
    next->erase();
  }
}

namespace {
struct ExecCutProducts : sheaf::impl::ExecCutProductsBase<ExecCutProducts> {
  using ExecCutProductsBase::ExecCutProductsBase;

  LogicalResult initialize(MLIRContext *context) final {
    if (parts < 0)
      return emitError(UnknownLoc::get(context), "exec-cut-products: option "
                                                 "'parts' is ")
             << static_cast<int64_t>(parts) << ", expected at least 0";
    return success();
  }

  void runOnOperation() final {
    std::optional<ClusterCosts> costs;
    if (!cluster.empty())
      costs.emplace(cluster);
    if (!costs && parts == 0)
      return;
    for (func::FuncOp function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      Cutter(function, costs ? &*costs : nullptr, parts).run();
      if (costs && !costs->error().empty()) {
        function.emitError("exec-cut-products: ") << costs->error();
        return signalPassFailure();
      }
    }
  }
};
} // namespace
