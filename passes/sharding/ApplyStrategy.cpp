//===- ApplyStrategy.cpp - Shard parameters, state and batch by a table ---===//

#include "dialects/NN/Quantize.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/Shardings.h"
#include "passes/sharding/Strategy.h"
#include "support/SignatureAttrs.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"

namespace sheaf {
#define GEN_PASS_DEF_DISTAPPLYSTRATEGY
#include "passes/sharding/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;
using namespace sheaf::sharding;

namespace {
/// The names of the dimensions of the batch.
constexpr llvm::StringLiteral kBatchDims[] = {"batch", "seq"};
constexpr llvm::StringLiteral kExpertAxis = "expert";

/// The neighbours of `wish` in a list in order that lacks it.
std::string nearestOf(ArrayRef<int64_t> sizes, int64_t wish) {
  const int64_t *above = llvm::lower_bound(sizes, wish);
  std::string text;
  if (above != sizes.begin())
    text = std::to_string(*std::prev(above));
  if (above != sizes.end())
    text += (text.empty() ? "" : " or ") + std::to_string(*above);
  return text;
}

/// A parameter's shardings: as it is used, and with ZeRO's axes added.
struct Parameter {
  ValueSharding used, sharded;
  /// A user said where it lies: nothing is added but to what is its state.
  bool isWritten = false;
  /// Layers read what is made of it, so that it lies where its state does.
  bool isQuantized = false;
  /// Of each axis, the row that asked for it.
  SmallVector<std::pair<int, const StrategyRow *>> rows;
};

struct Options {
  ArrayRef<std::string> mesh;
  int zero;
  int64_t zeroGroup;
  bool sequenceParallel;
  StringRef strategy;
  /// Parameters of fewer bytes are not ZeRO's.
  int64_t zeroMinBytes;
  /// ZeRO-3: `again` or `keep`; ZeRO-2 and 3: `sharded` or `whole`.
  StringRef zero3Gathers, accumulate;
  int64_t expertParallel;
  /// The sequence over cp in zig-zag order.
  bool zigzag;
};

/// Writes one strategy on one module.
class Strategy {
public:
  Strategy(ModuleOp module, const Options &options)
      : module(module), context(module.getContext()), options(options),
        zero(options.zero) {}

  LogicalResult run() {
    if (failed(declareMesh()))
      return failure();
    FailureOr<MeshInfo> info = MeshInfo::get(module);
    if (failed(info))
      return failure();
    mesh = std::move(*info);
    auto isOneOf = [&](StringRef option, StringRef value, StringRef first,
                       StringRef second) {
      if (value == first || value == second)
        return true;
      module.emitError("dist-apply-strategy: ")
          << option << " is '" << value << "', expected " << first << " or "
          << second;
      return false;
    };
    if (!isOneOf("zero3-gathers", options.zero3Gathers, "again", "keep") ||
        !isOneOf("accumulate", options.accumulate, "sharded", "whole"))
      return failure();
    usedAxes = MeshInfo::usedBy(module);
    if (failed(readTable()) || failed(findSharedAxes()))
      return failure();

    // First: what experts are used for ends at these constraints.
    shardParts();
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (isEntry(function) && failed(readWritten(function)))
        return failure();
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (isEntry(function) && failed(shardParameters(function)))
        return failure();
    for (func::FuncOp function : llvm::to_vector(module.getOps<func::FuncOp>()))
      if (isEntry(function)) {
        shardEntry(function);
        orderBatch(function);
      }
    shardValues();
    return success();
  }

private:
  ModuleOp module;
  MLIRContext *context;
  const Options &options;
  /// What the table shards along the largest dimension: 0 nothing, 1 optimizer
  /// state, 2 and gradients, 3 and parameters.
  int zero;
  StrategyTable table;
  /// The rows of those: for state, gradients, weights.
  const StrategyRow *zeroRows[3] = {};
  MeshInfo mesh;
  SymbolTableCollection symbols;
  llvm::StringMap<Parameter> parameters;
  /// What users wrote on an argument of an entry, by the buffer's kind and
  /// name.
  struct Written {
    dist::ShardingAttr sharding;
    BlockArgument argument;
  };
  llvm::StringMap<Written> written;
  SmallVector<int> zeroAxes;
  /// Sub-axes that the strategy uses, and those that the module did before.
  SmallVector<dist::AxisAttr> subAxes, usedAxes;
  /// Of rows with `shared`, the part of their axis over which they shard;
  /// absent for all of it.
  llvm::DenseMap<const StrategyRow *, int64_t> sharedParts;

  //===--------------------------------------------------------------------===//
  // Mesh
  //===--------------------------------------------------------------------===//

  LogicalResult declareMesh() {
    if (options.mesh.empty())
      return success();
    return sharding::declareMesh(module, options.mesh, "dist-apply-strategy");
  }

  SmallVector<int> atomsOf(ArrayRef<dist::AxisAttr> axes) const {
    SmallVector<int> atoms;
    for (dist::AxisAttr axis : axes)
      llvm::append_range(atoms, mesh.atomsOf(axis));
    return atoms;
  }

  LogicalResult readTable() {
    std::string text;
    if (!options.strategy.empty()) {
      if (zero != 0 || options.zeroGroup != 0 || options.sequenceParallel ||
          options.zigzag)
        return module.emitError(
            "dist-apply-strategy: strategy is given, so zero, zero-group, "
            "sequence-parallel and zigzag are not; write them as rows");
      auto file =
          llvm::MemoryBuffer::getFile(options.strategy, /*IsText=*/true);
      if (!file)
        return module.emitError(
                   "dist-apply-strategy: cannot read the strategy '")
               << options.strategy << "': " << file.getError().message();
      text = (*file)->getBuffer().str();
    } else {
      if (zero < 0 || zero > 3)
        return module.emitError("dist-apply-strategy: zero is ")
               << zero << ", expected 0 to 3";
      auto sizeOf = [&](StringRef name) {
        dist::MeshAxisAttr axis = mesh.op.lookup(name);
        return axis ? axis.getSize() : 1;
      };
      int64_t group = options.zeroGroup, data = sizeOf("dp"),
              context = sizeOf("cp");
      SmallVector<int64_t> groups = zeroGroups(data, context);
      if (group < 0 ||
          (group > 0 && zero > 0 && !llvm::is_contained(groups, group)))
        return module.emitError("dist-apply-strategy: zero-group is ")
               << group
               << (context == 1 ? ", which does not divide the "
                                : ", which is no innermost part of the ")
               << data * context << " devices of "
               << (context == 1 ? "dp" : "dp and cp")
               << "; nearest: " << nearestOf(groups, group);
      // A group without the axes of ZeRO is not looked at.
      if (!llvm::is_contained(groups, group))
        group = 0;
      int64_t experts = options.expertParallel;
      if (!llvm::is_contained(groups, experts))
        return module.emitError("dist-apply-strategy: expert-parallel is ")
               << experts
               << (context == 1 ? ", which does not divide the "
                                : ", which is no innermost part of the ")
               << data * context << " devices of "
               << (context == 1 ? "dp" : "dp and cp")
               << "; nearest: " << nearestOf(groups, experts);
      text = builtinStrategy(zero, group, options.sequenceParallel, data,
                             context, experts, options.zigzag);
    }
    FailureOr<StrategyTable> rows =
        parseStrategy(text, options.strategy, module, mesh.op);
    if (failed(rows))
      return failure();
    table = std::move(*rows);
    zero = 0;
    for (const StrategyRow &row : table) {
      for (dist::AxisAttr axis : row.meshAxes)
        if (!axis.isWhole() && !llvm::is_contained(subAxes, axis))
          subAxes.push_back(axis);
      if (row.what >= StrategyRow::State) {
        zero = std::max(zero, row.what - StrategyRow::State + 1);
        zeroRows[row.what - StrategyRow::State] = &row;
      }
    }
    if (failed(checkOptions()))
      return failure();
    if (!subAxes.empty() && failed(cutMesh()))
      return failure();
    if (zero > 0)
      zeroAxes = atomsOf(zeroRows[0]->meshAxes);
    return success();
  }

  /// That options on what ZeRO shards have something to tell of.
  LogicalResult checkOptions() {
    // With zero-group=1 the table has no row: what was asked for counts.
    int stage = options.strategy.empty() ? options.zero : zero;
    static constexpr llvm::StringLiteral what[] = {"state", "gradient",
                                                   "weight"};
    auto check = [&](bool isGiven, const Twine &given,
                     int needed) -> LogicalResult {
      if (!isGiven || stage >= needed)
        return success();
      InFlightDiagnostic error = module.emitError("dist-apply-strategy: ")
                                 << given << ", but nothing shards "
                                 << (needed == 1   ? "optimizer state"
                                     : needed == 2 ? "gradients"
                                                   : "weights")
                                 << "; expected ";
      if (options.strategy.empty())
        return error << "zero=" << needed << (needed < 3 ? " or more" : "");
      return error << "a row such as '" << what[needed - 1]
                   << " largest -> dp' in '" << options.strategy << "'";
    };
    return failure(
        failed(check(options.zeroGroup != 0,
                     "zero-group is " + Twine(options.zeroGroup), 1)) ||
        failed(check(options.zeroMinBytes != 0,
                     "zero-min-bytes is " + Twine(options.zeroMinBytes), 1)) ||
        failed(
            check(options.accumulate == "whole", "accumulate is whole", 2)) ||
        failed(
            check(options.zero3Gathers == "keep", "zero3-gathers is keep", 3)));
  }

  //===--------------------------------------------------------------------===//
  // Parameters
  //===--------------------------------------------------------------------===//

  /// A function with parameters, batch or results that are buffers.
  static bool isEntry(func::FuncOp function) {
    if (function.isExternal() || !function.isPublic())
      return false;
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (function.getArgAttr(i, nn::kParamAttr) ||
          function.getArgAttr(i, nn::kBatchAttr) ||
          function.getArgAttr(i, nn::kRngAttr))
        return true;
    return false;
  }

  /// Calls visit(argument, parameter) for the parameters of all entries.
  void forEachParameter(
      llvm::function_ref<void(BlockArgument, nn::ParamAttr)> visit) {
    for (func::FuncOp function : module.getOps<func::FuncOp>())
      if (isEntry(function))
        for (BlockArgument argument : function.getArguments())
          if (auto param = function.getArgAttrOfType<nn::ParamAttr>(
                  argument.getArgNumber(), nn::kParamAttr))
            visit(argument, param);
  }

  /// Kind and name of the buffer that an argument of an entry is; empty where
  /// it is none that entries share.
  static std::string bufferOf(func::FuncOp function, unsigned argument) {
    if (auto param =
            function.getArgAttrOfType<nn::ParamAttr>(argument, nn::kParamAttr))
      return ("parameter:" + param.getName().getValue()).str();
    if (auto batch =
            function.getArgAttrOfType<StringAttr>(argument, nn::kBatchAttr))
      return ("batch:" + batch.getValue()).str();
    return bufferOf(function.getArgAttr(argument, nn::kStateAttr));
  }
  static std::string bufferOf(Attribute kindAndName) {
    auto pair = dyn_cast_or_null<ArrayAttr>(kindAndName);
    if (!pair || pair.size() != 2)
      return "";
    return (cast<StringAttr>(pair[0]).getValue() + ":" +
            cast<StringAttr>(pair[1]).getValue())
        .str();
  }

  /// A buffer that several entries use is one place in memory: where a user
  /// wrote its sharding in one of them, that holds in all.
  LogicalResult readWritten(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      auto sharding =
          function.getArgAttrOfType<dist::ShardingAttr>(i, dist::kShardingAttr);
      std::string buffer = bufferOf(function, i);
      if (!sharding || buffer.empty())
        continue;
      auto [known, isNew] =
          written.try_emplace(buffer, Written{sharding, argument});
      const Written &other = known->second;
      if (isNew || mesh.parse(sharding) == mesh.parse(other.sharding))
        continue;
      auto [kind, name] = StringRef(buffer).split(':');
      auto entry = cast<func::FuncOp>(other.argument.getOwner()->getParentOp());
      InFlightDiagnostic error = emitError(argument.getLoc())
                                 << kind << " " << name << " has the sharding "
                                 << sharding << " in @" << function.getName()
                                 << " and " << other.sharding << " in @"
                                 << entry.getName()
                                 << "; entries share the buffer, so write the "
                                    "same in both, or in one only";
      error.attachNote(other.argument.getLoc()) << "the other is here";
      return error;
    }
    return success();
  }

  /// What a user wrote of a buffer; null where nobody did. An open dimension of
  /// a parameter may have got axes by the table; in all of them no more are
  /// added, so that they stay the same in all entries.
  dist::ShardingAttr writtenFor(StringRef buffer) {
    auto known = written.find(buffer);
    if (known == written.end())
      return nullptr;
    dist::ShardingAttr sharding = known->second.sharding;
    ValueSharding now = mesh.parse(sharding);
    if (auto [kind, name] = buffer.split(':'); kind == "parameter")
      now = parameters[name].used;
    SmallVector<dist::DimAttr> dims;
    for (auto [dim, own] : llvm::zip_equal(sharding.getDims(), now.dims))
      dims.push_back(dist::DimAttr::get(context, mesh.axesOf(own.axes),
                                        /*open=*/false, dim.getPriority(),
                                        own.order()));
    return dist::ShardingAttr::get(context, dims, dist::Reduction::Sum, {});
  }

  /// The argument of the callee that a call's operand becomes; null elsewhere.
  Value argumentFor(OpOperand &use) {
    auto call = dyn_cast<func::CallOp>(use.getOwner());
    if (!call)
      return nullptr;
    auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
        call, call.getCalleeAttr());
    return callee && !callee.isExternal()
               ? callee.getArgument(use.getOperandNumber())
               : nullptr;
  }

  /// Whether axes on dimension `dim` of `value` pass all ops that they reach,
  /// up to those that sum over the dimension. `seen` has what was asked
  /// already.
  bool survives(Value value, unsigned dim, const DimSharding &sharding,
                llvm::DenseSet<std::pair<Value, unsigned>> &seen) {
    if (!seen.insert({value, dim}).second)
      return true;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isa<dist::ConstraintOp>(user) ||
          user->hasTrait<OpTrait::IsTerminator>())
        continue;
      if (Value argument = argumentFor(use)) {
        if (!survives(argument, dim, sharding, seen))
          return false;
        continue;
      }
      SmallVector<Node, 0> nodes;
      appendNodes(user, symbols, nodes);
      for (Node &node : nodes)
        for (unsigned i = 0; i < node.numOperands; ++i) {
          if (node.values[i] != value)
            continue;
          bool complete;
          FactorShardings factors(node.rule.factors.size());
          for (auto &[factor, own] :
               toFactors(mesh, node.rule, node.rule.operands[i][dim], sharding,
                         complete)) {
            if (!isShardable(node.rule.factors[factor], own))
              return false;
            factors[factor] = own;
          }
          if (!complete)
            return false;
          for (unsigned r = node.numOperands; r < node.values.size(); ++r)
            for (auto [d, resultDim] : llvm::enumerate(node.factorsOf(r))) {
              DimSharding next =
                  fromFactors(mesh, node.rule, resultDim, factors, complete);
              if (!complete)
                return false;
              if (!next.axes.empty() && node.values[r] &&
                  !survives(node.values[r], d, next, seen))
                return false;
            }
        }
    }
    return true;
  }

  LogicalResult shardParameters(func::FuncOp function) {
    for (BlockArgument argument : function.getArguments()) {
      auto param = function.getArgAttrOfType<nn::ParamAttr>(
          argument.getArgNumber(), nn::kParamAttr);
      if (!param || parameters.contains(param.getName()))
        continue;
      auto type = cast<RankedTensorType>(argument.getType());
      Parameter &entry = parameters[param.getName()];
      entry.isQuantized = bool(
          function.getArgAttr(argument.getArgNumber(), nn::kQuantizedAttr));
      entry.used = ValueSharding(type.getRank());
      dist::ShardingAttr given;
      if (auto known =
              written.find(bufferOf(function, argument.getArgNumber()));
          known != written.end()) {
        given = known->second.sharding;
        entry.used = mesh.parse(given);
        entry.isWritten = true;
      }
      for (auto [i, axis] : llvm::enumerate(param.getAxes())) {
        if (given &&
            (!given.getDims()[i].getOpen() || !entry.used.dims[i].axes.empty()))
          continue;
        for (const StrategyRow &row : table) {
          if (row.what != StrategyRow::Parameter || axis != StringRef(row.axis))
            continue;
          SmallVector<int> atoms = sharedAtoms(row);
          if (atoms.empty())
            continue;
          std::optional<DimSharding> dim = shardDim(argument, i, atoms);
          if (!dim)
            return refuse(argument, i, param, row);
          // Of two rows for one axis of the mesh the first dimension's counts.
          if (llvm::any_of(atoms, [&](int a) { return entry.used.uses(a); }))
            continue;
          entry.used.dims[i] = *dim;
          for (int atom : atoms)
            entry.rows.push_back({atom, &row});
        }
      }
      if (failed(checkZero(param, entry)))
        return failure();
      entry.sharded = addZero(type, entry.used);
      if (context->getRemarkEngine())
        report(argument, param, entry);
    }
    return success();
  }

  /// That the axes of ZeRO are not those of the parameter itself.
  LogicalResult checkZero(nn::ParamAttr param, const Parameter &entry) {
    for (auto [atom, row] : entry.rows) {
      // ZeRO shards experts over the devices of dp that are left.
      if (!llvm::is_contained(zeroAxes, atom) || row->axis == kExpertAxis)
        continue;
      InFlightDiagnostic error =
          emitError(zeroRows[0]->loc)
          << "'" << zeroRows[0]->text << "' shards the state of parameter "
          << param.getName() << " over " << mesh.nameOf(atom)
          << ", over which the parameter itself is sharded; expected each axis "
             "once, give one of the two rows another";
      error.attachNote(row->loc) << "the other is '" << row->text << "'";
      return error;
    }
    return success();
  }

  /// A remark on where a parameter is, and why it is nowhere in part.
  void report(BlockArgument argument, nn::ParamAttr param,
              const Parameter &entry) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    auto options = remark::RemarkOpts::name("parameter")
                       .category("sharding")
                       .function(function.getName());
    std::string name = "parameter " + param.getName().str();
    auto text = [&](const ValueSharding &sharding) {
      std::string result;
      llvm::raw_string_ostream(result) << mesh.print(sharding);
      return result;
    };
    ValueSharding whole(cast<RankedTensorType>(argument.getType()).getRank());
    std::string used = text(entry.used), stored = text(entry.sharded);
    if (stored != text(whole)) {
      remark::passed(argument.getLoc(), options)
          << (name + " is used as " + used +
              (stored == used
                   ? ""
                   : ", its optimizer state is stored as " + stored));
      return;
    }
    std::string axes;
    llvm::raw_string_ostream os(axes);
    llvm::interleaveComma(param.getAxes(), os,
                          [&](StringAttr axis) { os << axis.getValue(); });
    remark::missed(argument.getLoc(), options)
        << (name + " is whole on every device: none of its axes (" + axes +
            ") is sharded over an axis of the mesh" +
            (zeroAxes.empty()
                 ? ""
                 : ", and it is smaller than the devices of ZeRO"));
  }

  /// Whether some op takes a part of the outermost `blocks` of dimension `dim`,
  /// so that it is several things one after another: queries, keys and values.
  bool isCut(Value value, unsigned dim, int64_t blocks, int depth = 0) {
    if (depth > 8)
      return false;
    for (OpOperand &use : value.getUses()) {
      if (Value argument = argumentFor(use)) {
        if (isCut(argument, dim, blocks, depth + 1))
          return true;
        continue;
      }
      SmallVector<Node, 0> nodes;
      appendNodes(use.getOwner(), symbols, nodes);
      for (Node &node : nodes)
        for (unsigned i = 0; i < node.numOperands; ++i) {
          if (node.values[i] != value)
            continue;
          const nn::DimFactors &factors = node.rule.operands[i][dim];
          if (factors.empty() ||
              node.rule.factors[factors[0]].size % blocks != 0)
            continue;
          const nn::Factor &outer = node.rule.factors[factors[0]];
          if (outer.size == blocks && outer.expansion == nn::kShiftedWindow)
            return true;
          if (node.numOperands != 1)
            continue;
          for (unsigned r = node.numOperands; r < node.values.size(); ++r)
            for (auto [d, other] : llvm::enumerate(node.factorsOf(r)))
              if (!other.empty() && other[0] == factors[0] && node.values[r] &&
                  isCut(node.values[r], d, blocks, depth + 1))
                return true;
        }
    }
    return false;
  }

  /// The dimension over `atoms`, as its uses take it: where they cut it in
  /// parts, each part is sharded. Nothing where the uses do not divide.
  std::optional<DimSharding> shardDim(BlockArgument argument, unsigned dim,
                                      ArrayRef<int> atoms) {
    int64_t size = cast<RankedTensorType>(argument.getType()).getDimSize(dim);
    DimSharding candidate;
    llvm::append_range(candidate.axes, atoms);
    if (atoms.empty())
      return candidate;
    for (int64_t blocks = 1; blocks <= std::min<int64_t>(8, size / 2);
         ++blocks) {
      candidate.blocks = blocks;
      llvm::DenseSet<std::pair<Value, unsigned>> seen;
      if (size % blocks == 0 && (blocks == 1 || isCut(argument, dim, blocks)) &&
          survives(argument, dim, candidate, seen))
        return candidate;
    }
    return std::nullopt;
  }

  /// The outermost part of an axis of the mesh, of `size` devices.
  dist::AxisAttr outerPart(dist::AxisAttr axis, int64_t size) {
    return dist::AxisAttr::get(context, axis.getName(), axis.getOuter(), size);
  }

  LogicalResult cutMesh() {
    SmallVector<dist::AxisAttr> axes = usedAxes;
    llvm::append_range(axes, subAxes);
    FailureOr<MeshInfo> again = MeshInfo::get(mesh.op, axes);
    if (failed(again))
      return failure();
    mesh = std::move(*again);
    return success();
  }

  /// The largest outer part of the axis over which the dimension can be
  /// sharded; 1 where there is none.
  int64_t largestPart(BlockArgument argument, unsigned dim,
                      dist::AxisAttr axis) {
    int64_t devices = mesh.sizeOf(mesh.atomsOf(axis)), found = 1;
    SmallVector<dist::AxisAttr> before = subAxes;
    for (int64_t size = devices - 1; size > 1 && found == 1; --size) {
      if (devices % size != 0)
        continue;
      subAxes = {outerPart(axis, size)};
      if (succeeded(cutMesh()) &&
          shardDim(argument, dim, mesh.atomsOf(outerPart(axis, size))))
        found = size;
    }
    subAxes = before;
    (void)cutMesh();
    return found;
  }

  /// The axes of the mesh, `axis` with another size, each without sub-axes.
  SmallVector<Attribute> axesWith(dist::AxisAttr axis, int64_t size) {
    SmallVector<Attribute> axes;
    for (auto known : mesh.op.getAxes().getAsRange<dist::MeshAxisAttr>())
      axes.push_back(known.getName() == axis.getName()
                         ? dist::MeshAxisAttr::get(
                               context, known.getName(), size, known.getLink(),
                               known.getBandwidth(), known.getLatency())
                         : known);
    return axes;
  }

  /// Whether dimension `dim` of the parameter, and then whatever rows shard
  /// over the whole axis, could be sharded if the axis had that many devices.
  bool fits(BlockArgument argument, unsigned dim, dist::AxisAttr axis,
            int64_t size) {
    OpBuilder builder(context);
    OwningOpRef<dist::MeshOp> wished(dist::MeshOp::create(
        builder, module.getLoc(), "mesh",
        builder.getArrayAttr(axesWith(axis, size)), nullptr));
    FailureOr<MeshInfo> info = MeshInfo::get(*wished, {});
    if (failed(info))
      return false;
    MeshInfo own = std::exchange(mesh, std::move(*info));
    llvm::scope_exit back([&] { mesh = std::move(own); });
    SmallVector<int> atoms = mesh.atomsOf(axis);
    if (!shardDim(argument, dim, atoms))
      return false;
    bool fits = true;
    forEachParameter([&](BlockArgument other, nn::ParamAttr param) {
      for (auto [i, name] : llvm::enumerate(param.getAxes()))
        for (const StrategyRow &row : table)
          if (row.what == StrategyRow::Parameter && !row.shared &&
              name == StringRef(row.axis) && row.meshAxes.size() == 1 &&
              row.meshAxes[0] == axis)
            fits &= shardDim(other, i, atoms).has_value();
    });
    return fits;
  }

  /// The nearest sizes of the axis, below and above, with which all parameters
  /// can be sharded, as the user writes them.
  std::string nearestMeshes(BlockArgument argument, unsigned dim,
                            dist::AxisAttr axis) {
    int64_t devices = mesh.op.getSize(axis),
            most = cast<RankedTensorType>(argument.getType()).getDimSize(dim);
    SmallVector<int64_t> sizes;
    for (int64_t size = std::min(devices - 1, most); size >= 1; --size)
      if (fits(argument, dim, axis, size)) {
        sizes.push_back(size);
        break;
      }
    // Farther up nobody means it.
    for (int64_t size = devices + 1; size <= std::min(most, 4 * devices);
         ++size)
      if (fits(argument, dim, axis, size)) {
        sizes.push_back(size);
        break;
      }
    std::string text;
    llvm::raw_string_ostream os(text);
    for (auto [i, size] : llvm::enumerate(sizes)) {
      os << (i ? " or " : "");
      if (options.mesh.empty()) {
        os << axis.getName() << " = " << size << " in dist.mesh";
        continue;
      }
      os << "--mesh=";
      llvm::interleave(
          axesWith(axis, size), os,
          [&](Attribute attribute) {
            auto known = cast<dist::MeshAxisAttr>(attribute);
            os << known.getName().getValue() << "=" << known.getSize();
          },
          ",");
    }
    return text;
  }

  LogicalResult refuse(BlockArgument argument, unsigned dim,
                       nn::ParamAttr param, const StrategyRow &row) {
    int64_t devices = mesh.sizeOf(atomsOf(row.meshAxes));
    std::string axes = axesText(row.meshAxes);
    InFlightDiagnostic error =
        emitError(argument.getLoc())
        << "parameter " << param.getName() << " is to be sharded over " << axes
        << " = " << devices << " along dimension " << dim << " ("
        << param.getAxes()[dim].getValue() << "), which its uses do not allow";
    if (row.meshAxes.size() == 1 && row.meshAxes[0].isWhole())
      error << "; nearest that they do, as all other parameters: "
            << nearestMeshes(argument, dim, row.meshAxes[0]);
    else if (row.meshAxes.size() == 1)
      error << "; the largest divisor of " << devices << " that they do is "
            << largestPart(argument, dim, row.meshAxes[0]);
    if (!options.strategy.empty())
      error.attachNote(row.loc) << "asked for by '" << row.text << "'";
    return error;
  }

  /// Key and value heads may be fewer than the devices: then each is on as many
  /// of them as share it.
  LogicalResult findSharedAxes() {
    for (const StrategyRow &row : table) {
      if (row.what != StrategyRow::Parameter || !row.shared ||
          row.meshAxes.size() != 1)
        continue;
      int64_t part = 0;
      forEachParameter([&](BlockArgument argument, nn::ParamAttr param) {
        for (auto [i, axis] : llvm::enumerate(param.getAxes())) {
          if (axis != StringRef(row.axis) ||
              shardDim(argument, i, atomsOf(row.meshAxes)))
            continue;
          int64_t largest = largestPart(argument, i, row.meshAxes[0]);
          part = part == 0 ? largest : std::min(part, largest);
        }
      });
      if (part == 0)
        continue;
      sharedParts[&row] = part;
      if (part == 1)
        continue;
      subAxes.push_back(outerPart(row.meshAxes[0], part));
      if (failed(cutMesh()))
        return failure();
    }
    // The axes may have been cut meanwhile.
    if (zero > 0)
      zeroAxes = atomsOf(zeroRows[0]->meshAxes);
    return success();
  }
  SmallVector<int> sharedAtoms(const StrategyRow &row) {
    auto part = sharedParts.find(&row);
    if (part == sharedParts.end())
      return atomsOf(row.meshAxes);
    if (part->second == 1)
      return {};
    return mesh.atomsOf(outerPart(row.meshAxes[0], part->second));
  }

  /// ZeRO's axes behind those of the largest dimension that they divide, but
  /// for those that it has already.
  ValueSharding addZero(RankedTensorType type, ValueSharding sharding) {
    SmallVector<int> axes = llvm::filter_to_vector(
        zeroAxes, [&](int atom) { return !sharding.uses(atom); });
    if (axes.empty() ||
        type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8) <
            options.zeroMinBytes)
      return sharding;
    RankedTensorType local = mesh.localType(type, sharding);
    bool padded = false;
    // Of those that divide the largest, else, padded, the largest that is not
    // sharded.
    int best = -1;
    for (bool pad : {false, true})
      for (int i = 0; i < local.getRank() && (!pad || best < 0 || padded);
           ++i) {
        const DimSharding &dim = sharding.dims[i];
        int64_t size = local.getDimSize(i) / dim.blocks;
        if (pad ? !dim.axes.empty() || size == 1
                : size % mesh.sizeOf(axes) != 0)
          continue;
        if (best >= 0 && local.getDimSize(i) <= local.getDimSize(best))
          continue;
        best = i;
        padded = pad;
      }
    if (best >= 0)
      llvm::append_range(sharding.dims[best].axes, axes);
    return sharding;
  }

  //===--------------------------------------------------------------------===//
  // Entries
  //===--------------------------------------------------------------------===//

  const Parameter *find(Attribute kindAndName, StringRef &kind) {
    auto pair = dyn_cast_or_null<ArrayAttr>(kindAndName);
    if (!pair || pair.size() != 2)
      return nullptr;
    kind = cast<StringAttr>(pair[0]).getValue();
    auto it = parameters.find(cast<StringAttr>(pair[1]).getValue());
    return it == parameters.end() ? nullptr : &it->second;
  }

  /// What a buffer of that kind has.
  const ValueSharding &shardingFor(const Parameter &parameter, StringRef kind) {
    return kind == "parameter" &&
                   (parameter.isWritten || (zero < 3 && !parameter.isQuantized))
               ? parameter.used
               : parameter.sharded;
  }

  /// Which rows asked for the axes of a sharding; null where none did.
  /// `zeroRow` is the one that asked for those of ZeRO.
  DictionaryAttr becauseOf(const ValueSharding &sharding,
                           ArrayRef<std::pair<int, const StrategyRow *>> rows,
                           const StrategyRow *zeroRow = nullptr) {
    NamedAttrList list;
    if (zeroRow)
      for (int atom : zeroAxes)
        if (sharding.uses(atom))
          list.set(mesh.nameOf(atom),
                   StringAttr::get(context, zeroRow->describe()));
    for (auto [atom, row] : rows)
      if (sharding.uses(atom))
        list.set(mesh.nameOf(atom), StringAttr::get(context, row->describe()));
    return list.empty() ? nullptr : list.getDictionary(context);
  }

  void shardEntry(func::FuncOp function) {
    // An entry that evaluates the batch at once finds it as the step has it.
    int64_t microbatches = 1;
    function->getParentOfType<ModuleOp>().walk(
        [&](nn::MicrobatchesOp loop) { microbatches = loop.getCount(); });
    std::optional<SignatureAttrs> attrs(std::in_place, function);
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (dist::ShardingAttr given = writtenFor(bufferOf(function, i)))
        attrs->setArgAttr(i, dist::kShardingAttr, given);
      if (!type || attrs->getArgAttr(i, dist::kShardingAttr))
        continue;
      ValueSharding sharding(type.getRank());
      SmallVector<std::pair<int, const StrategyRow *>> rows;
      const StrategyRow *zeroRow = nullptr;
      StringRef kind;
      if (auto param =
              function.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr)) {
        sharding = shardingFor(parameters[param.getName()], "parameter");
        rows = parameters[param.getName()].rows;
        zeroRow = zeroRows[parameters[param.getName()].isQuantized ? 0 : 2];
      } else if (const Parameter *parameter =
                     find(function.getArgAttr(i, nn::kStateAttr), kind)) {
        sharding = shardingFor(*parameter, kind);
        rows = parameter->rows;
        zeroRow = zeroRows[0];
      } else if (function.getArgAttr(i, nn::kBatchAttr) && type.getRank() > 0) {
        for (const StrategyRow &row : table) {
          SmallVector<int> atoms = atomsOf(row.meshAxes);
          int64_t d = llvm::find(kBatchDims, row.axis) - std::begin(kBatchDims);
          // A device has its samples of every microbatch.
          int64_t blocks = d == 0 ? microbatches : 1;
          if (row.what != StrategyRow::Batch || row.zigzag || atoms.empty() ||
              d >= type.getRank() || type.getDimSize(d) <= blocks ||
              llvm::any_of(atoms,
                           [&](int atom) { return sharding.uses(atom); }))
            continue;
          llvm::append_range(sharding.dims[d].axes, atoms);
          sharding.dims[d].blocks = blocks;
          for (int atom : atoms)
            rows.push_back({atom, &row});
        }
      }
      attrs->setArgAttr(i, dist::kShardingAttr, mesh.print(sharding));
      if (DictionaryAttr because = becauseOf(sharding, rows, zeroRow))
        attrs->setArgAttr(i, dist::kBecauseAttr, because);
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      StringRef kind;
      if (attrs->getResultAttr(i, dist::kShardingAttr))
        continue;
      if (dist::ShardingAttr given = writtenFor(
              bufferOf(function.getResultAttr(i, nn::kResultAttr)))) {
        attrs->setResultAttr(i, dist::kShardingAttr, given);
        continue;
      }
      if (const Parameter *parameter =
              find(function.getResultAttr(i, nn::kResultAttr), kind)) {
        // That a weight is whole at the end is asked for, too: by the row that
        // shards the state from which it comes.
        const ValueSharding &sharding = shardingFor(*parameter, kind);
        attrs->setResultAttr(i, dist::kShardingAttr, mesh.print(sharding));
        if (DictionaryAttr because = becauseOf(
                parameter->sharded, parameter->rows,
                kind == "parameter" && zero == 3 ? zeroRows[2] : zeroRows[0]))
          attrs->setResultAttr(i, dist::kBecauseAttr, because);
      }
    }
    attrs.reset();
    if (!zeroAxes.empty())
      constrainZero(function);
  }

  /// Twice as many chunks as the first axis of a row has devices.
  int64_t chunksOf(const StrategyRow &row) {
    return 2 * mesh.op.getSize(row.meshAxes.front());
  }

  /// Puts the sequence of the batch into zig-zag order where it is read, if a
  /// row asks for that: entries have all of it, and take their parts.
  void orderBatch(func::FuncOp function) {
    for (const StrategyRow &row : table) {
      SmallVector<int> atoms = atomsOf(row.meshAxes);
      if (row.what != StrategyRow::Batch || !row.zigzag || atoms.empty())
        continue;
      DimSharding order;
      llvm::append_range(order.axes, atoms);
      order.zigzag = chunksOf(row);
      for (BlockArgument argument : function.getArguments()) {
        auto type = dyn_cast<RankedTensorType>(argument.getType());
        auto sharding = function.getArgAttrOfType<dist::ShardingAttr>(
            argument.getArgNumber(), dist::kShardingAttr);
        if (!function.getArgAttr(argument.getArgNumber(), nn::kBatchAttr) ||
            !sharding || !type || type.getRank() < 2 || type.getDimSize(1) < 2)
          continue;
        ValueSharding own = mesh.parse(sharding);
        if (!own.dims[1].axes.empty() ||
            llvm::any_of(atoms, [&](int atom) { return own.uses(atom); }))
          continue; // Written so.
        own.dims[1] = order;
        orderUses(argument, own, row.describe());
      }
    }
  }
  void orderUses(BlockArgument argument, ValueSharding sharding,
                 const std::string &why) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : argument.getUses()) {
      auto loop = dyn_cast<nn::MicrobatchesOp>(use.getOwner());
      if (!loop || use.getOperandNumber() >= loop.getSliced().size()) {
        uses.push_back(&use);
        continue;
      }
      // The body reads a part of each block.
      ValueSharding part = sharding;
      part.dims[0].blocks = 1;
      orderUses(loop.getBody().front().getArgument(1 + use.getOperandNumber()),
                part, why);
    }
    if (uses.empty())
      return;
    OpBuilder builder = OpBuilder::atBlockBegin(argument.getOwner());
    auto op = dist::ConstraintOp::create(
        builder, argument.getLoc(), argument.getType(), argument,
        mesh.print(sharding),
        builder.getStringAttr(why + ": the sequence is read in zig-zag order"));
    for (OpOperand *use : uses)
      use->set(op);
  }

  /// The parameter that an optimizer's op is given, or its master, in another
  /// type or not.
  const Parameter *updatedBy(func::FuncOp function, Value value) {
    while (auto cast = value.getDefiningOp<nn::CastOp>())
      value = cast.getInput();
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || argument.getOwner() != &function.front())
      return nullptr;
    if (auto param = function.getArgAttrOfType<nn::ParamAttr>(
            argument.getArgNumber(), nn::kParamAttr)) {
      auto it = parameters.find(param.getName());
      return it == parameters.end() ? nullptr : &it->second;
    }
    StringRef kind;
    return find(function.getArgAttr(argument.getArgNumber(), nn::kStateAttr),
                kind);
  }

  /// The parameter that a value is the gradient of: the one with which some op
  /// reads it, or the one that a result of the function names.
  const Parameter *gradientOf(func::FuncOp function, Value value) {
    StringRef kind;
    for (OpOperand &use : value.getUses()) {
      if (isa<func::ReturnOp>(use.getOwner())) {
        const Parameter *parameter = find(
            function.getResultAttr(use.getOperandNumber(), nn::kResultAttr),
            kind);
        if (parameter && kind == "gradient")
          return parameter;
        continue;
      }
      // What is updated, or its master; moments may be of another type.
      if (isa<nn::AdamWOp, nn::SGDOp>(use.getOwner()) &&
          use.getOperandNumber() == 1)
        if (const Parameter *parameter =
                updatedBy(function, use.getOwner()->getOperand(0)))
          return parameter;
      for (Value other : use.getOwner()->getOperands()) {
        auto argument = dyn_cast<BlockArgument>(other);
        if (!argument || argument.getOwner() != &function.front())
          continue;
        const Parameter *parameter = find(
            function.getArgAttr(argument.getArgNumber(), nn::kStateAttr), kind);
        if (parameter && other.getType() == value.getType())
          return parameter;
      }
    }
    return nullptr;
  }

  /// Gathers what layers read of a sharded matrix, once or at each call. Behind
  /// the matrix itself nothing whole is kept.
  void gatherMade(OpBuilder &builder, BlockArgument matrix,
                  const Parameter &parameter, bool keep, StringRef why) {
    llvm::MapVector<Value, ValueSharding> made;
    made.insert({matrix, parameter.used});
    for (unsigned at = 0; at < made.size(); ++at) {
      Value value = made.begin()[at].first;
      SmallVector<OpOperand *> calls;
      for (OpOperand &use : value.getUses()) {
        Operation *user = use.getOwner();
        auto role = user->getAttrOfType<StringAttr>(nn::kRoleAttr);
        if (isa<func::CallOp>(user))
          calls.push_back(&use);
        else if (!isa<func::ReturnOp>(user) && !(role && role == "optimizer"))
          appendMade(user, value, made);
      }
      if (calls.empty())
        continue;
      ValueSharding sharding = made.begin()[at].second;
      if (!keep || value == matrix) {
        for (OpOperand *use : calls) {
          builder.setInsertionPoint(use->getOwner());
          constrain(builder, *use, sharding, why);
        }
        continue;
      }
      builder.setInsertionPointAfterValue(value);
      constrain(builder, *calls.front(), sharding, why);
      Value whole = calls.front()->get();
      whole.getDefiningOp()->setAttr(nn::kRoleAttr,
                                     builder.getStringAttr("forward"));
      for (OpOperand *use : calls)
        use->set(whole);
    }
  }
  /// Adds to `made` the results of an op that reads `value`, with the axes that
  /// pass it.
  void appendMade(Operation *user, Value value,
                  llvm::MapVector<Value, ValueSharding> &made) {
    ValueSharding sharding = made.lookup(value);
    SmallVector<Node, 0> nodes;
    appendNodes(user, symbols, nodes);
    for (Node &node : nodes)
      for (unsigned i = 0; i < node.numOperands; ++i) {
        if (node.values[i] != value)
          continue;
        FactorShardings factors(node.rule.factors.size());
        for (auto [dim, own] : llvm::enumerate(sharding.dims)) {
          bool complete;
          for (auto &[factor, part] : toFactors(
                   mesh, node.rule, node.rule.operands[i][dim], own, complete))
            if (complete && isShardable(node.rule.factors[factor], part))
              factors[factor] = part;
        }
        for (unsigned r = node.numOperands; r < node.values.size(); ++r) {
          Value result = node.values[r];
          if (!result || made.contains(result))
            continue;
          ValueSharding next(
              cast<RankedTensorType>(result.getType()).getRank());
          for (auto [d, resultDim] : llvm::enumerate(node.factorsOf(r))) {
            bool complete;
            DimSharding dim =
                fromFactors(mesh, node.rule, resultDim, factors, complete);
            if (complete)
              next.dims[d] = dim;
          }
          made.insert({result, next});
        }
      }
  }

  /// Whether gradients are in shards between microbatches.
  bool keepsShards() const {
    return zero >= 2 && options.accumulate == "sharded";
  }

  void constrain(OpBuilder &builder, OpOperand &use,
                 const ValueSharding &sharding, StringRef why) {
    Value value = use.get();
    auto op = dist::ConstraintOp::create(
        builder, value.getLoc(), value.getType(), value, mesh.print(sharding),
        builder.getStringAttr(why));
    if (Attribute role = use.getOwner()->getAttr(nn::kRoleAttr))
      op->setAttr(nn::kRoleAttr, role);
    use.set(op);
  }

  void constrainZero(func::FuncOp function) {
    OpBuilder builder(context);
    auto because = [&](int stage, StringRef what) {
      std::string from = options.strategy.empty()
                             ? "ZeRO-" + std::to_string(zero)
                             : zeroRows[stage - 1]->describe();
      return from + ": " + what.str();
    };

    // Gradients: sharded from where the whole step's are there, and, from stage
    // 2 on, in the accumulators.
    SmallVector<std::pair<Value, const Parameter *>> gradients;
    function.walk([&](Operation *op) {
      if (op->getParentOp() == function)
        for (Value result : op->getResults())
          if (const Parameter *parameter = gradientOf(function, result))
            gradients.push_back({result, parameter});
    });
    llvm::DenseMap<Operation *, SmallVector<Attribute>> accumulators, reasons;
    for (auto [value, parameter] : gradients) {
      // In fewer bits, with a factor or without, it is widened behind the loop:
      // shards are.
      Value sum = value;
      while (isa_and_nonnull<nn::CastOp, nn::MulOp>(sum.getDefiningOp()))
        sum = sum.getDefiningOp()->getOperand(0);
      auto loop = sum.getDefiningOp<nn::MicrobatchesOp>();
      if (!loop || cast<RankedTensorType>(sum.getType()).getShape() !=
                       cast<RankedTensorType>(value.getType()).getShape()) {
        loop = nullptr;
        sum = value;
      }
      builder.setInsertionPointAfterValue(sum);
      auto op = dist::ConstraintOp::create(
          builder, sum.getLoc(), sum.getType(), sum,
          mesh.print(parameter->sharded),
          builder.getStringAttr(
              because(1, "optimizer state is sharded, so is the gradient")));
      op->setAttr(nn::kRoleAttr, builder.getStringAttr("weight_gradient"));
      sum.replaceAllUsesExcept(op, op);
      if (!loop)
        continue;
      Block &body = loop.getBody().front();
      SmallVector<Attribute> &list = accumulators[loop];
      if (list.empty())
        for (Value argument : body.getArguments())
          list.push_back(mesh.print(ValueSharding(
              cast<RankedTensorType>(argument.getType()).getRank())));
      unsigned i =
          1 + loop.getSliced().size() + cast<OpResult>(sum).getResultNumber();
      BlockArgument accumulator = body.getArgument(i);
      const ValueSharding &kept =
          keepsShards() ? parameter->sharded : parameter->used;
      list[i] = mesh.print(kept);
      SmallVector<Attribute> &texts = reasons[loop];
      texts.resize(list.size(), DictionaryAttr::get(context));
      if (DictionaryAttr text = becauseOf(kept, parameter->rows, zeroRows[1]))
        texts[i] = text;
      if (!keepsShards())
        continue;
      SmallVector<Value> widened{accumulator};
      for (unsigned at = 0; at < widened.size(); ++at)
        for (Operation *user : widened[at].getUsers())
          if (isa<nn::CastOp, nn::MulOp>(user) &&
              user->getOperand(0) == widened[at])
            widened.push_back(user->getResult(0));
      Value last = widened.back();
      for (OpOperand &use : llvm::make_early_inc_range(last.getUses()))
        for (OpOperand &other : use.getOwner()->getOpOperands())
          if (other.get() != last && other.get().getType() == last.getType()) {
            // As soon as it is there, so that no whole one waits.
            if (other.get().getDefiningOp())
              builder.setInsertionPointAfterValue(other.get());
            else
              builder.setInsertionPoint(use.getOwner());
            constrain(builder, other, kept,
                      because(2, "gradients are kept in shards only"));
          }
    }
    for (auto &[op, list] : accumulators) {
      SmallVector<Attribute> results(
          ArrayRef<Attribute>(list).take_back(op->getNumResults()));
      op->setAttr(dist::kShardingsAttr, builder.getArrayAttr(results));
      // The part of the batch is sharded as the batch is.
      auto loop = cast<nn::MicrobatchesOp>(op);
      for (auto [j, sliced] : llvm::enumerate(loop.getSliced())) {
        auto argument = dyn_cast<BlockArgument>(sliced);
        if (!argument || argument.getOwner() != &function.front())
          continue;
        auto sharding = function.getArgAttrOfType<dist::ShardingAttr>(
            argument.getArgNumber(), dist::kShardingAttr);
        if (!sharding)
          continue;
        ValueSharding part = mesh.parse(sharding);
        part.dims[0].blocks = 1;
        list[1 + j] = mesh.print(part);
        if (Attribute text = function.getArgAttr(argument.getArgNumber(),
                                                 dist::kBecauseAttr))
          reasons[op][1 + j] = text;
      }
      op->setAttr(dist::kBecauseAttr, builder.getArrayAttr(reasons[op]));
      op->setAttr(dist::kArgumentShardingsAttr, builder.getArrayAttr(list));
    }

    // Parameters in shards are gathered for each use, but for the optimizer's.
    bool keep = zero < 3 || options.zero3Gathers == "keep";
    for (BlockArgument argument : function.getArguments()) {
      auto param = function.getArgAttrOfType<nn::ParamAttr>(
          argument.getArgNumber(), nn::kParamAttr);
      if (!param)
        continue;
      const Parameter &parameter = parameters[param.getName()];
      if (parameter.used == parameter.sharded || parameter.isWritten)
        continue;
      if (parameter.isQuantized) {
        gatherMade(builder, argument, parameter, keep,
                   because(std::min(zero, 3),
                           keep ? "what layers read of a sharded matrix is "
                                  "gathered once a step"
                                : "what layers read of a sharded matrix is "
                                  "gathered for use"));
        continue;
      }
      if (zero < 3)
        continue;
      Value kept;
      for (OpOperand &use : llvm::make_early_inc_range(argument.getUses())) {
        auto role = use.getOwner()->getAttrOfType<StringAttr>(nn::kRoleAttr);
        if (isa<func::ReturnOp>(use.getOwner()) ||
            (role && role == "optimizer"))
          continue;
        if (kept) {
          use.set(kept);
          continue;
        }
        if (keep)
          builder.setInsertionPointToStart(&function.front());
        else
          builder.setInsertionPoint(use.getOwner());
        constrain(builder, use, parameter.used,
                  because(3, keep ? "weights are gathered once a step and kept"
                                  : "weights are gathered for use"));
        if (keep) {
          kept = use.get();
          kept.getDefiningOp()->setAttr(nn::kRoleAttr,
                                        builder.getStringAttr("forward"));
        }
      }
    }
  }

  //===--------------------------------------------------------------------===//
  // Sequence
  //===--------------------------------------------------------------------===//

  using Names = SmallVector<StringRef>;
  llvm::DenseMap<Value, Names> names;

  /// Gives dimensions the logical axes of the arguments, along the rules.
  void inferNames() {
    SmallVector<Node, 0> nodes;
    llvm::DenseMap<Value, SmallVector<unsigned>> users;
    module.walk([&](Operation *op) {
      appendNodes(op, symbols, nodes);
      // Names pass where shardings do not.
      if (auto constraint = dyn_cast<dist::ConstraintOp>(op))
        nodes.push_back(identity(op, constraint.getInput(), constraint));
    });
    for (auto [i, node] : llvm::enumerate(nodes))
      for (Value value : node.values)
        if (value)
          users[value].push_back(i);
    SmallVector<Value> worklist;
    auto add = [&](Value value, Names list) {
      if (names.try_emplace(value, std::move(list)).second)
        worklist.push_back(value);
    };
    for (func::FuncOp function : module.getOps<func::FuncOp>()) {
      if (!isEntry(function))
        continue;
      for (BlockArgument argument : function.getArguments()) {
        unsigned i = argument.getArgNumber();
        auto type = dyn_cast<RankedTensorType>(argument.getType());
        if (!type)
          continue;
        Names list(type.getRank());
        if (auto param =
                function.getArgAttrOfType<nn::ParamAttr>(i, nn::kParamAttr)) {
          for (auto [d, axis] : llvm::enumerate(param.getAxes()))
            list[d] = axis == "_" ? StringRef() : axis.getValue();
        } else if (function.getArgAttr(i, nn::kBatchAttr)) {
          if (type.getRank() > 0)
            list[0] = kBatchDims[0];
          if (type.getRank() > 1)
            list[1] = kBatchDims[1];
        } else {
          continue;
        }
        add(argument, std::move(list));
      }
    }
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      for (unsigned n : users[value]) {
        Node &node = nodes[n];
        // Operands with names first; a result has names where all operands that
        // have its factors do.
        SmallVector<StringRef> factors(node.rule.factors.size());
        bool ready = true;
        for (unsigned i = 0; i < node.numOperands; ++i) {
          auto it = node.values[i] ? names.find(node.values[i]) : names.end();
          if (it == names.end()) {
            ready &= !node.values[i] || node.factorsOf(i).empty();
            continue;
          }
          for (auto [dim, name] :
               llvm::zip_equal(node.factorsOf(i), it->second)) {
            SmallVector<int> plain;
            for (int factor : dim)
              if (node.rule.factors[factor].name != "microbatch")
                plain.push_back(factor);
            if (plain.size() == 1 && !name.empty() && factors[plain[0]].empty())
              factors[plain[0]] = name;
          }
        }
        if (!ready && node.numOperands != 1)
          continue;
        for (unsigned i = node.numOperands; i < node.values.size(); ++i) {
          if (!node.values[i])
            continue;
          Names list;
          for (const nn::DimFactors &dim : node.factorsOf(i))
            list.push_back(dim.size() == 1 ? factors[dim[0]] : StringRef());
          add(node.values[i], std::move(list));
        }
      }
    }
  }

  /// Rows for values that are no arguments. What is on an op already stays.
  /// Rows by parts of the experts are where those are: samples keep the axes
  /// that experts do not have.
  void shardParts() {
    SmallVector<int> parts, samples;
    const StrategyRow *asked = nullptr;
    for (const StrategyRow &row : table) {
      if (row.what == StrategyRow::Parameter && row.axis == kExpertAxis) {
        parts = atomsOf(row.meshAxes);
        asked = &row;
      }
      if (row.what == StrategyRow::Batch && row.axis == kBatchDims[0])
        samples = atomsOf(row.meshAxes);
    }
    llvm::erase_if(samples,
                   [&](int atom) { return llvm::is_contained(parts, atom); });
    if (parts.empty())
      return;
    OpBuilder builder(context);
    auto sharded = [&](Value value) {
      ValueSharding sharding(cast<RankedTensorType>(value.getType()).getRank());
      llvm::append_range(sharding.dims[0].axes, parts);
      llvm::append_range(sharding.dims[1].axes, samples);
      return sharding;
    };
    module.walk([&](nn::BucketOp bucket) {
      builder.setInsertionPointAfter(bucket);
      auto op = dist::ConstraintOp::create(
          builder, bucket.getLoc(), bucket.getType(), bucket,
          mesh.print(sharded(bucket)),
          builder.getStringAttr(asked->describe() +
                                ": rows go to their experts"));
      if (Attribute role = bucket->getAttr(nn::kRoleAttr))
        op->setAttr(nn::kRoleAttr, role);
      bucket.getResult().replaceAllUsesExcept(op, op);
    });
    module.walk([&](nn::UnbucketOp unbucket) {
      builder.setInsertionPoint(unbucket);
      OpOperand &rows = unbucket.getRowsMutable();
      constrain(builder, rows, sharded(rows.get()),
                asked->describe() + ": rows come back from their experts");
    });
  }

  void shardValues() {
    SmallVector<const StrategyRow *> rows;
    for (const StrategyRow &row : table)
      if (row.what == StrategyRow::Value && !atomsOf(row.meshAxes).empty())
        rows.push_back(&row);
    if (rows.empty())
      return;
    inferNames();
    module.walk([&](Operation *op) {
      if (op->getNumRegions() != 0 || isa<dist::ConstraintOp>(op) ||
          op->getNumResults() == 0 || op->hasAttr(dist::kShardingsAttr))
        return;
      SmallVector<Attribute> list;
      NamedAttrList because;
      for (Value result : op->getResults()) {
        auto type = dyn_cast<RankedTensorType>(result.getType());
        if (!type)
          return;
        auto it = names.find(result);
        SmallVector<const StrategyRow *> chosen(type.getRank());
        for (const StrategyRow *row : rows) {
          if (it == names.end() || !llvm::all_of(row->of, [&](StringRef axis) {
                return llvm::is_contained(it->second, axis);
              }))
            continue;
          // The last dimension of that name; each axis of the mesh once.
          int dim = -1;
          for (auto [i, name] : llvm::enumerate(it->second))
            if (name == StringRef(row->axis) && type.getDimSize(i) > 1)
              dim = i;
          bool taken = llvm::any_of(chosen, [&](const StrategyRow *other) {
            return other &&
                   llvm::any_of(atomsOf(other->meshAxes), [&](int atom) {
                     return llvm::is_contained(atomsOf(row->meshAxes), atom);
                   });
          });
          if (dim >= 0 && !chosen[dim] && !taken)
            chosen[dim] = row;
        }
        SmallVector<dist::DimAttr> dims;
        for (const StrategyRow *row : chosen) {
          SmallVector<dist::AxisAttr> axes;
          if (row)
            axes = mesh.axesOf(atomsOf(row->meshAxes));
          dims.push_back(dist::DimAttr::get(
              context, axes, /*open=*/true, row ? row->priority : 0,
              row && row->zigzag ? -chunksOf(*row) : 1));
          if (row)
            for (int atom : atomsOf(row->meshAxes))
              because.set(mesh.nameOf(atom),
                          StringAttr::get(context, row->describe()));
        }
        list.push_back(
            dist::ShardingAttr::get(context, dims, dist::Reduction::Sum, {}));
      }
      if (because.empty())
        return;
      op->setAttr(dist::kShardingsAttr, ArrayAttr::get(context, list));
      op->setAttr(dist::kBecauseAttr, because.getDictionary(context));
    });
  }
};

struct DistApplyStrategy
    : sheaf::impl::DistApplyStrategyBase<DistApplyStrategy> {
  using DistApplyStrategyBase::DistApplyStrategyBase;

  void runOnOperation() final {
    Options options{
        mesh,         zero,         zeroGroup,  sequenceParallel, strategy,
        zeroMinBytes, zero3Gathers, accumulate, expertParallel,   zigzag};
    if (failed(Strategy(getOperation(), options).run()))
      signalPassFailure();
  }
};
} // namespace
