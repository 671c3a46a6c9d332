//===- DistToNN.cpp - From one device's view to its program ---------------===//

#include "lowering/DistToNN/DistToNN.h"
#include "dialects/Dist/Dist.h"
#include "dialects/Exec/Exec.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/sharding/Verify.h"
#include "support/SignatureAttrs.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SetVector.h"
#include <map>

namespace sheaf {
#define GEN_PASS_DEF_DISTTONN
#include "lowering/DistToNN/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {

/// An axis, or a part of one, as the communicator knows it: how many places it
/// has, and by how much the number of the place grows with one step along it.
struct Steps {
  int64_t size, stride;
};

class Lowering {
public:
  Lowering(ModuleOp module, dist::MeshOp mesh)
      : module(module), mesh(mesh), builder(module.getContext()) {}

  LogicalResult run();

private:
  ModuleOp module;
  dist::MeshOp mesh;
  OpBuilder builder;
  llvm::DenseMap<func::FuncOp, Value> coordinates;

  LogicalResult check();
  void addCoordinates();
  void addLayouts();
  LogicalResult lower(Operation *op);
  LogicalResult lowerPermute(dist::PermuteOp op);

  Steps stepsOf(dist::AxisAttr axis);
  int64_t numberOf(dist::AxisAttr axis);
  /// This rank's place along axes, tensor<i32>.
  Value indexOf(Operation *op, ArrayAttr axes);
  int64_t placeOf(int64_t rank, ArrayRef<dist::AxisAttr> axes);
  exec::TransferOp transfer(dist::CollectiveOpInterface op, exec::Transfer kind,
                            Value input, RankedTensorType result,
                            ValueRange counts = {});
  Value padded(nn::Emit &emit, Value value, int64_t dim, int64_t size);
  Value cut(nn::Emit &emit, Value value, RankedTensorType type);
};

RankedTensorType plainType(Type type) {
  return dist::withPartial(cast<RankedTensorType>(type), nullptr);
}

RankedTensorType resized(RankedTensorType type, int64_t dim, int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return RankedTensorType::get(shape, type.getElementType());
}

/// The product of the sizes before `dim`.
int64_t slicesBefore(RankedTensorType type, int64_t dim) {
  int64_t slices = 1;
  for (int64_t size : type.getShape().take_front(dim))
    slices *= size;
  return slices;
}

bool needsCoordinates(Operation *op) {
  return isa<dist::SliceOp, dist::MakePartialOp, dist::AxisIndexOp>(op);
}

} // namespace

/// Where an axis stands in the mesh.
int64_t Lowering::numberOf(dist::AxisAttr axis) {
  for (auto [i, known] :
       llvm::enumerate(mesh.getAxes().getAsRange<dist::MeshAxisAttr>()))
    if (known.getName() == axis.getName())
      return i;
  llvm_unreachable("verified: the mesh has the axis");
}

Steps Lowering::stepsOf(dist::AxisAttr axis) {
  int64_t stride = 1, whole = 1;
  for (Attribute attr : llvm::reverse(mesh.getAxes())) {
    auto known = cast<dist::MeshAxisAttr>(attr);
    whole = known.getSize();
    if (known.getName() == axis.getName())
      break;
    stride *= whole;
  }
  if (axis.isWhole())
    return {whole, stride};
  return {axis.getSize(),
          stride * (whole / (axis.getOuter() * axis.getSize()))};
}

/// The place of a rank in the numbering of a group over `axes`.
int64_t Lowering::placeOf(int64_t rank, ArrayRef<dist::AxisAttr> axes) {
  int64_t place = 0;
  for (dist::AxisAttr axis : axes) {
    Steps steps = stepsOf(axis);
    place = place * steps.size + rank / steps.stride % steps.size;
  }
  return place;
}

Value Lowering::indexOf(Operation *op, ArrayAttr axes) {
  nn::Emit emit(builder, op->getLoc());
  Value all = coordinates.lookup(op->getParentOfType<func::FuncOp>());
  auto scalar = RankedTensorType::get({}, builder.getI32Type());
  Value index = emit.constant(scalar, 0);
  for (auto axis : axes.getAsRange<dist::AxisAttr>()) {
    int64_t number = numberOf(axis);
    Value place = emit.make<nn::SliceOp>(
        RankedTensorType::get({1}, builder.getI32Type()), all,
        ArrayRef<int64_t>(number), ArrayRef<int64_t>(1), DenseI64ArrayAttr());
    if (!axis.isWhole()) {
      // A table says which place of the sub-axis each place of the axis is.
      int64_t whole =
          cast<dist::MeshAxisAttr>(mesh.getAxes()[number]).getSize();
      int64_t inner = whole / (axis.getOuter() * axis.getSize());
      SmallVector<int32_t> table;
      for (int64_t i = 0; i < whole; ++i)
        table.push_back(i / inner % axis.getSize());
      Value places = nn::ConstantOp::create(
          builder, op->getLoc(),
          DenseElementsAttr::get(
              RankedTensorType::get(whole, builder.getI32Type()),
              ArrayRef<int32_t>(table)));
      place = emit.make<nn::GatherOp>(place.getType(), places, place,
                                      builder.getI64IntegerAttr(0),
                                      builder.getI64IntegerAttr(0));
    }
    index = emit.add(emit.mul(index, emit.constant(scalar, stepsOf(axis).size)),
                     emit.reshape(place, {}));
  }
  return index;
}

/// `value` with zeros behind along `dim`, up to `size`.
Value Lowering::padded(nn::Emit &emit, Value value, int64_t dim, int64_t size) {
  auto type = plainType(value.getType());
  if (type.getDimSize(dim) == size)
    return value;
  SmallVector<int64_t> low(type.getRank(), 0), high(type.getRank(), 0);
  high[dim] = size - type.getDimSize(dim);
  return emit.make<nn::PadOp>(resized(type, dim, size), value,
                              builder.getDenseI64ArrayAttr(low),
                              builder.getDenseI64ArrayAttr(high),
                              DenseI64ArrayAttr(), builder.getF64FloatAttr(0));
}

/// The front of `value`, of the shape of `type`.
Value Lowering::cut(nn::Emit &emit, Value value, RankedTensorType type) {
  if (plainType(value.getType()) == type)
    return value;
  SmallVector<int64_t> offsets(type.getRank(), 0);
  return emit.make<nn::SliceOp>(type, value, ArrayRef<int64_t>(offsets),
                                type.getShape(), DenseI64ArrayAttr());
}

exec::TransferOp Lowering::transfer(dist::CollectiveOpInterface op,
                                    exec::Transfer kind, Value input,
                                    RankedTensorType result,
                                    ValueRange counts) {
  SmallVector<int64_t> sizes, strides;
  SmallVector<Attribute> names;
  for (dist::AxisAttr axis : op.getGroupAxes()) {
    Steps steps = stepsOf(axis);
    sizes.push_back(steps.size);
    strides.push_back(steps.stride);
    names.push_back(builder.getStringAttr(axis.getText()));
  }
  NamedAttrList about;
  about.set("axes", builder.getArrayAttr(names));
  if (Attribute reason = op->getAttr(dist::kReasonAttr))
    about.set("reason", reason);
  if (Attribute role = op->getAttr(nn::kRoleAttr))
    about.set("role", role);
  MLIRContext *context = module.getContext();
  exec::ReductionAttr reduction;
  if (auto by = op->getAttrOfType<dist::ReductionAttr>("kind"))
    reduction = exec::ReductionAttr::get(
        context,
        static_cast<exec::Reduction>(static_cast<uint32_t>(by.getValue())));
  IntegerAttr one = builder.getI64IntegerAttr(1),
              zero = builder.getI64IntegerAttr(0);
  auto made = exec::TransferOp::create(
      builder, op.getLoc(), result, exec::TransferAttr::get(context, kind),
      reduction, input, builder.getDenseI64ArrayAttr(sizes),
      builder.getDenseI64ArrayAttr(strides), one, one, zero,
      DenseI64ArrayAttr(), about.getDictionary(context), counts);
  if (Attribute role = op->getAttr(nn::kRoleAttr))
    made->setAttr(nn::kRoleAttr, role);
  return made;
}

LogicalResult Lowering::lowerPermute(dist::PermuteOp op) {
  SmallVector<dist::AxisAttr> axes = op.getGroupAxes();
  auto axesOf = [](dist::ShardingAttr sharding) {
    SmallVector<SmallVector<dist::AxisAttr>> dims;
    for (dist::DimAttr dim : sharding.getDims())
      dims.emplace_back(dim.getAxes());
    return dims;
  };
  auto from = axesOf(op.getFrom()), to = axesOf(op.getTo());
  // The ranks of the group of rank 0 stand for those of every group.
  SmallVector<int64_t> ranks{0};
  for (dist::AxisAttr axis : axes) {
    SmallVector<int64_t> next;
    for (int64_t rank : ranks)
      for (int64_t i = 0; i < stepsOf(axis).size; ++i)
        next.push_back(rank + i * stepsOf(axis).stride);
    ranks = std::move(next);
  }
  auto shardOf = [&](int64_t rank, ArrayRef<SmallVector<dist::AxisAttr>> dims) {
    SmallVector<int64_t> shard;
    for (const SmallVector<dist::AxisAttr> &dim : dims)
      shard.push_back(placeOf(rank, dim));
    return std::vector<int64_t>(shard.begin(), shard.end());
  };
  std::map<std::vector<int64_t>, SmallVector<int64_t>> wanted;
  for (auto [member, rank] : llvm::enumerate(ranks))
    wanted[shardOf(rank, to)].push_back(member);
  SmallVector<int64_t> targets;
  std::map<std::vector<int64_t>, size_t> used;
  for (int64_t rank : ranks) {
    std::vector<int64_t> shard = shardOf(rank, from);
    SmallVector<int64_t> &receivers = wanted[shard];
    size_t next = used[shard]++;
    if (next >= receivers.size())
      return op.emitOpError(
          "does not hand each shard to as many devices as have it");
    targets.push_back(receivers[next]);
  }
  auto type = plainType(op.getType());
  exec::TransferOp made =
      transfer(op, exec::Transfer::Permute, op.getInput(), type);
  made.setTargets(ArrayRef<int64_t>(targets));
  op.getResult().replaceAllUsesWith(made);
  return success();
}

LogicalResult Lowering::lower(Operation *op) {
  builder.setInsertionPoint(op);
  nn::Emit emit(builder, op->getLoc());
  // What is emitted has the role of the op.
  struct Roles : OpBuilder::Listener {
    void notifyOperationInserted(Operation *inserted,
                                 OpBuilder::InsertPoint) final {
      if (role && !inserted->hasAttr(nn::kRoleAttr))
        inserted->setAttr(nn::kRoleAttr, role);
    }
    Attribute role;
  } roles;
  roles.role = op->getAttr(nn::kRoleAttr);
  builder.setListener(&roles);
  llvm::scope_exit reset([&] { builder.setListener(nullptr); });

  Value result;
  if (auto index = dyn_cast<dist::AxisIndexOp>(op)) {
    result = indexOf(op, index.getAxes());
  } else if (auto slice = dyn_cast<dist::SliceOp>(op)) {
    // Rows of the table that are this rank's; behind its end a gather reads
    // zeros.
    int64_t dim = slice.getDim();
    auto type = plainType(slice.getType());
    int64_t size = type.getDimSize(dim);
    auto numbers = RankedTensorType::get({size}, builder.getI32Type());
    Value rows = emit.make<nn::IotaOp>(numbers, builder.getI64IntegerAttr(0));
    Value begin = emit.mul(indexOf(op, slice.getAxes()), double(size));
    result = emit.make<nn::GatherOp>(
        type, slice.getInput(), emit.add(rows, begin),
        builder.getI64IntegerAttr(dim), builder.getI64IntegerAttr(0));
  } else if (auto partial = dyn_cast<dist::MakePartialOp>(op)) {
    auto type = plainType(partial.getType());
    Value isFirst =
        emit.compare(nn::Predicate::EQ, indexOf(op, partial.getAxes()), 0.0);
    // The neutral element; an infinity is one of the extrema of every float.
    double infinity = std::numeric_limits<double>::infinity();
    double neutral = partial.getKind() == dist::Reduction::Sum   ? 0
                     : partial.getKind() == dist::Reduction::Max ? -infinity
                                                                 : infinity;
    Value other = emit.constant(
        RankedTensorType::get({}, type.getElementType()), neutral);
    result = emit.select(isFirst, partial.getInput(), other);
  } else if (auto local = dyn_cast<dist::LocalOp>(op)) {
    result = local.getInput();
  } else if (auto all = dyn_cast<dist::AllReduceOp>(op)) {
    result = transfer(all, exec::Transfer::AllReduce, all.getInput(),
                      plainType(all.getType()));
  } else if (auto broadcast = dyn_cast<dist::BroadcastOp>(op)) {
    exec::TransferOp made =
        transfer(broadcast, exec::Transfer::Broadcast, broadcast.getInput(),
                 plainType(broadcast.getType()));
    made.setRoot(broadcast.getRoot());
    result = made;
  } else if (auto shift = dyn_cast<dist::ShiftOp>(op)) {
    exec::TransferOp made =
        transfer(shift, exec::Transfer::Permute, shift.getInput(),
                 plainType(shift.getType()));
    int64_t group = mesh.getSize(shift.getGroupAxes());
    SmallVector<int64_t> targets;
    for (int64_t member = 0; member < group; ++member)
      targets.push_back((member + shift.getBy()) % group);
    made.setTargets(ArrayRef<int64_t>(targets));
    result = made;
  } else if (auto gather = dyn_cast<dist::AllGatherOp>(op)) {
    auto type = plainType(gather.getType()),
         local = plainType(gather.getInput().getType());
    int64_t dim = gather.getDim(), group = mesh.getSize(gather.getGroupAxes());
    auto whole = resized(type, dim, local.getDimSize(dim) * group);
    exec::TransferOp made =
        transfer(gather, exec::Transfer::AllGather, gather.getInput(), whole);
    made.setJoin(slicesBefore(whole, dim));
    result = cut(emit, made, type);
  } else if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op)) {
    auto type = plainType(scatter.getType());
    int64_t dim = scatter.getDim(),
            group = mesh.getSize(scatter.getGroupAxes());
    Value whole =
        padded(emit, scatter.getInput(), dim, type.getDimSize(dim) * group);
    exec::TransferOp made =
        transfer(scatter, exec::Transfer::ReduceScatter, whole, type);
    made.setCut(slicesBefore(type, dim));
    result = made;
  } else if (auto exchange = dyn_cast<dist::AllToAllOp>(op)) {
    auto type = plainType(exchange.getType());
    int64_t split = exchange.getSplit(), concat = exchange.getConcat();
    int64_t group = mesh.getSize(exchange.getGroupAxes());
    Value whole = padded(emit, exchange.getInput(), split,
                         type.getDimSize(split) * group);
    auto sent = plainType(whole.getType());
    auto received = resized(type, concat, sent.getDimSize(concat) * group);
    exec::TransferOp made =
        transfer(exchange, exec::Transfer::AllToAll, whole, received);
    made.setCut(slicesBefore(sent, split));
    made.setJoin(slicesBefore(received, concat));
    result = cut(emit, made, type);
  } else if (auto rows = dyn_cast<dist::ExchangeRowsOp>(op)) {
    auto sent = plainType(rows.getInput().getType()),
         received = plainType(rows.getType());
    exec::TransferOp made =
        transfer(rows, exec::Transfer::AllToAll, rows.getInput(), received,
                 {rows.getSent(), rows.getReceived()});
    made.setCut(slicesBefore(sent, rows.getSplit()));
    made.setJoin(slicesBefore(received, rows.getConcat()));
    result = made;
  } else if (auto permute = dyn_cast<dist::PermuteOp>(op)) {
    if (failed(lowerPermute(permute)))
      return failure();
    op->erase();
    return success();
  }
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
  return success();
}

/// What has no meaning for one rank any more must be gone.
LogicalResult Lowering::check() {
  WalkResult result = module.walk([&](Operation *op) {
    if (isa<dist::ConstraintOp, dist::ManualOp>(op)) {
      op->emitOpError("is a wish on whole tensors; run dist-partition first");
      return WalkResult::interrupt();
    }
    // What nn has no numbers for cannot be lowered to it.
    if (isa<dist::DistDialect>(op->getDialect()))
      for (Type type : op->getResultTypes())
        if (!nn::isAnyElement(type)) {
          op->emitOpError("gives ")
              << type
              << ", expected elements of type f64, f32, bf16, f16, an 8-bit "
                 "float, i32, i8 or i1";
          return WalkResult::interrupt();
        }
    if (op->hasAttr(dist::kShardingsAttr)) {
      op->emitError(
          "is on whole tensors with shardings; run dist-partition first");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Hands the coordinates to each function that needs them, itself or in what it
/// calls.
void Lowering::addCoordinates() {
  llvm::SetVector<func::FuncOp> need;
  SymbolTable symbols(module);
  module.walk([&](Operation *op) {
    if (needsCoordinates(op))
      need.insert(op->getParentOfType<func::FuncOp>());
  });
  bool grows = true;
  while (grows) {
    size_t before = need.size();
    module.walk([&](func::CallOp call) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      if (callee && need.contains(callee))
        need.insert(call->getParentOfType<func::FuncOp>());
    });
    grows = need.size() != before;
  }
  auto type = RankedTensorType::get(static_cast<int64_t>(mesh.getAxes().size()),
                                    builder.getI32Type());
  for (func::FuncOp function : need) {
    NamedAttrList attributes;
    attributes.set(exec::kCoordinatesAttr, builder.getUnitAttr());
    unsigned last = function.getNumArguments();
    (void)function.insertArgument(last, type,
                                  attributes.getDictionary(module.getContext()),
                                  function.getLoc());
    coordinates[function] = function.getArgument(last);
  }
  module.walk([&](func::CallOp call) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!callee || !need.contains(callee))
      return;
    Value own = coordinates.lookup(call->getParentOfType<func::FuncOp>());
    call.getOperandsMutable().append(own);
  });
}

/// Where each argument and result of an entry lies in the whole tensor.
void Lowering::addLayouts() {
  auto layoutOf = [&](dist::ShardingAttr sharding, Attribute whole,
                      RankedTensorType type) -> Attribute {
    SmallVector<int64_t> global, blocks;
    SmallVector<Attribute> axes;
    for (auto [dim, size] :
         llvm::zip_equal(sharding.getDims(), type.getShape())) {
      SmallVector<Attribute> names;
      for (dist::AxisAttr axis : dim.getAxes())
        names.push_back(builder.getStringAttr(axis.getText()));
      axes.push_back(builder.getArrayAttr(names));
      global.push_back(size * mesh.getSize(dim.getAxes()));
      blocks.push_back(dim.getBlocks());
    }
    if (auto given = dyn_cast_or_null<DenseI64ArrayAttr>(whole))
      global.assign(given.asArrayRef().begin(), given.asArrayRef().end());
    return builder.getDictionaryAttr(
        {builder.getNamedAttr("global", builder.getDenseI64ArrayAttr(global)),
         builder.getNamedAttr("axes", builder.getArrayAttr(axes)),
         builder.getNamedAttr("blocks", builder.getDenseI64ArrayAttr(blocks))});
  };
  for (func::FuncOp function : module.getOps<func::FuncOp>()) {
    SignatureAttrs attrs(function);
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto sharding = dyn_cast_or_null<dist::ShardingAttr>(
              attrs.getArgAttr(i, dist::kShardingAttr))) {
        if (!sharding.isReplicated())
          attrs.setArgAttr(
              i, exec::kLayoutAttr,
              layoutOf(sharding, attrs.getArgAttr(i, dist::kGlobalShapeAttr),
                       cast<RankedTensorType>(function.getArgumentTypes()[i])));
        attrs.removeArgAttr(i, dist::kShardingAttr);
        attrs.removeArgAttr(i, dist::kGlobalShapeAttr);
      }
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto sharding = dyn_cast_or_null<dist::ShardingAttr>(
              attrs.getResultAttr(i, dist::kShardingAttr))) {
        if (!sharding.isReplicated())
          attrs.setResultAttr(
              i, exec::kLayoutAttr,
              layoutOf(sharding, attrs.getResultAttr(i, dist::kGlobalShapeAttr),
                       cast<RankedTensorType>(function.getResultTypes()[i])));
        attrs.removeResultAttr(i, dist::kShardingAttr);
        attrs.removeResultAttr(i, dist::kGlobalShapeAttr);
      }
  }
}

LogicalResult Lowering::run() {
  if (failed(check()))
    return failure();
  if (mesh.getAxes().empty() && module
                                    .walk([](Operation *op) {
                                      return needsCoordinates(op)
                                                 ? WalkResult::interrupt()
                                                 : WalkResult::advance();
                                    })
                                    .wasInterrupted())
    return mesh.emitOpError(
        "has no axis, but ops on its axes are in the module");
  addCoordinates();
  SmallVector<Operation *> ops;
  module.walk([&](Operation *op) {
    if (isa<dist::DistDialect>(op->getDialect()) && !isa<dist::MeshOp>(op))
      ops.push_back(op);
  });
  for (Operation *op : ops)
    if (failed(lower(op)))
      return failure();
  // Encodings go last: until here they told partial values from others.
  auto plain = [](Type type) -> Type {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && dist::getPartial(type) ? dist::withPartial(tensor, nullptr)
                                            : type;
  };
  module.walk([&](Operation *op) {
    op->removeAttr(dist::kConflictsAttr); // Told; kernels are compared below.
    for (Value result : op->getResults())
      result.setType(plain(result.getType()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setType(plain(argument.getType()));
    if (auto function = dyn_cast<func::FuncOp>(op))
      function.setType(builder.getFunctionType(
          llvm::map_to_vector(function.getArgumentTypes(), plain),
          llvm::map_to_vector(function.getResultTypes(), plain)));
  });
  addLayouts();
  SmallVector<Attribute> axes;
  for (auto axis : mesh.getAxes().getAsRange<dist::MeshAxisAttr>())
    axes.push_back(builder.getArrayAttr(
        {axis.getName(), builder.getI64IntegerAttr(axis.getSize())}));
  module->setAttr(exec::kMeshAttr, builder.getArrayAttr(axes));
  // Groups are places; the runtime knows who stands there.
  if (auto devices = mesh.getDevices(); devices && !llvm::is_sorted(*devices))
    module->setAttr(exec::kDevicesAttr, builder.getDenseI64ArrayAttr(*devices));
  mesh.erase();
  return success();
}

namespace {
struct DistToNN : sheaf::impl::DistToNNBase<DistToNN> {
  void runOnOperation() override {
    // Behind this pass nothing tells a value that is still to be reduced.
    if (failed(sharding::verifyOnTensors(getOperation(), getArgument())) ||
        failed(sharding::verifyPartialValues(getOperation())))
      return signalPassFailure();
    // Without a mesh there is one device and nothing of dist.
    if (dist::MeshOp mesh = dist::getMesh(getOperation()))
      if (failed(Lowering(getOperation(), mesh).run()))
        signalPassFailure();
  }
};
} // namespace
