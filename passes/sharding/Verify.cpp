//===- Verify.cpp - Partial values only where they may be -----------------===//

#include "passes/sharding/Verify.h"
#include "dialects/Dist/Dist.h"
#include "dialects/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "passes/sharding/Passes.h"
#include <functional>

namespace sheaf {
#define GEN_PASS_DEF_DISTVERIFY
#include "passes/sharding/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
class Checker {
public:
  explicit Checker(Operation *root) : mesh(dist::getMesh(root)) {}

  LogicalResult run(Operation *root) {
    WalkResult result = root->walk([&](Operation *op) {
      auto function = dyn_cast<func::FuncOp>(op);
      return failed(verifyTypes(op)) ||
                     failed(function ? verifyEntry(function) : verifyOp(op))
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

private:
  dist::MeshOp mesh;

  static std::string axesOf(dist::PartialAttr partial) {
    std::string text;
    llvm::raw_string_ostream os(text);
    llvm::interleaveComma(partial.getAxes(), os,
                          [&](dist::AxisAttr axis) { axis.printBare(os); });
    return text;
  }

  /// Zero on every device also is a sum whose parts are zero.
  static bool isZero(Value value) {
    return matchPattern(value, m_AnyZeroFloat()) ||
           matchPattern(value, m_Zero());
  }

  /// That the axes of partial values are those of the mesh.
  LogicalResult verifyTypes(Operation *op) {
    auto check = [&](Type type) -> LogicalResult {
      dist::PartialAttr partial = dist::getPartial(type);
      if (!partial)
        return success();
      if (!mesh)
        return op->emitOpError("has a value of type ")
               << type
               << ", but the module has no mesh; declare one with dist.mesh "
                  "@mesh [\"dp\" = 2]";
      auto scalar = RankedTensorType::get(
          {}, cast<RankedTensorType>(type).getElementType());
      return dist::verifySharding(
          dist::ShardingAttr::get(op->getContext(), {}, partial.getKind(),
                                  partial.getAxes()),
          scalar, mesh, [&] {
            return op->emitOpError("has a value of type ")
                   << type << ", which ";
          });
    };
    for (Type type : op->getResultTypes())
      if (failed(check(type)))
        return failure();
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Type type : block.getArgumentTypes())
          if (failed(check(type)))
            return failure();
    return success();
  }

  LogicalResult verifyEntry(func::FuncOp function) {
    if (function.isPrivate())
      return success();
    auto check = [&](Type type, StringRef what, unsigned i) -> LogicalResult {
      if (dist::PartialAttr partial = dist::getPartial(type))
        return function.emitError()
               << what << " " << i << " of the entry @" << function.getName()
               << " is partial over " << axesOf(partial)
               << "; what an entry is given or gives must be "
                  "reduced, for instance by dist.all_reduce";
      return success();
    };
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      if (failed(check(type, "argument", i)))
        return failure();
    for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
      if (failed(check(type, "result", i)))
        return failure();
    return success();
  }

  LogicalResult verifyOp(Operation *op) {
    bool any = llvm::any_of(op->getOperandTypes(), dist::getPartial) ||
               llvm::any_of(op->getResultTypes(), dist::getPartial);
    if (!any || !isa<nn::NNDialect>(op->getDialect()) ||
        op->getNumRegions() != 0 || op->hasTrait<OpTrait::IsTerminator>())
      return success();
    FailureOr<nn::ShardingRule> rule = nn::getRule(op);
    if (failed(rule))
      return op->emitOpError(
          "has no rule, so it takes and gives no partial value");
    dist::PartialAttr given;
    int givenBy = -1;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      dist::PartialAttr partial = dist::getPartial(operand.getType());
      if (!partial)
        continue;
      auto kind = static_cast<nn::Reduction>(partial.getKind());
      if (!rule->mayDefer(i, kind))
        return op->emitOpError("is not ")
               << (kind == nn::Reduction::Sum ? "linear" : "monotone")
               << " in operand " << i << ", which is partial over "
               << axesOf(partial)
               << "; reduce it first, for instance by dist.all_reduce";
      if (given && kind == nn::Reduction::Sum &&
          rule->linearity == nn::Linearity::Separate)
        return op->emitOpError("multiplies operands ")
               << givenBy << " and " << i
               << ", which are both partial; reduce one of them";
      given = partial;
      givenBy = i;
    }
    if (given && given.getKind() == dist::Reduction::Sum &&
        rule->linearity == nn::Linearity::Joint)
      for (int i : rule->linearOperands)
        if (dist::getPartial(op->getOperand(i).getType()) != given &&
            !isZero(op->getOperand(i)))
          return op->emitOpError("adds operand ")
                 << givenBy << ", which is partial over " << axesOf(given)
                 << ", to operand " << i
                 << ", which is not; make it so by dist.make_partial";
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      // That a result is partial by the op's own sum does not show here: a
      // local size of 1 has no factor.
      if (given && !dist::getPartial(result.getType()))
        return op->emitOpError("result ")
               << i << " is not partial, but operand " << givenBy
               << " is, over " << axesOf(given);
    }
    return success();
  }
};

struct DistVerify : sheaf::impl::DistVerifyBase<DistVerify> {
  void runOnOperation() final {
    if (failed(sharding::verifyPartialValues(getOperation())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace

LogicalResult sharding::verifyPartialValues(Operation *root) {
  return Checker(root).run(root);
}

LogicalResult sharding::verifyOnTensors(Operation *root, StringRef pass) {
  WalkResult found = root->walk([&](Operation *op) {
    auto check = [&](Type type, const Twine &what) -> LogicalResult {
      if (!isa<BaseMemRefType>(type))
        return success();
      return op->emitOpError()
             << what << type << "; " << pass
             << " expects a program on tensors, before nn-to-exec";
    };
    for (Type type : op->getResultTypes())
      if (failed(check(type, "gives ")))
        return WalkResult::interrupt();
    auto function = dyn_cast<func::FuncOp>(op);
    for (auto [i, type] : llvm::enumerate(function ? function.getArgumentTypes()
                                                   : ArrayRef<Type>()))
      if (failed(check(type, "has argument " + Twine(i) + " of type ")))
        return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return failure(found.wasInterrupted());
}

LogicalResult sharding::verifyManualCalls(ModuleOp module) {
  SymbolTableCollection symbols;
  // Of each function, the first op in it, or in what it calls, that names an
  // axis.
  llvm::DenseMap<Operation *, Operation *> known;
  auto namesAxis = [](Operation *op) {
    // Of other attributes of the dialect none is on whole tensors.
    return op->getAttrDictionary()
        .walk([](dist::AxisAttr) { return WalkResult::interrupt(); })
        .wasInterrupted();
  };
  std::function<Operation *(func::FuncOp)> find =
      [&](func::FuncOp function) -> Operation * {
    auto [it, isNew] = known.try_emplace(function, nullptr);
    if (!isNew)
      return it->second;
    Operation *found = nullptr;
    function->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (namesAxis(op))
        found = op;
      if (auto call = dyn_cast<func::CallOp>(op))
        if (auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
                call, call.getCalleeAttr()))
          found = find(callee);
      return found ? WalkResult::interrupt() : WalkResult::advance();
    });
    return known[function] = found;
  };
  WalkResult result = module.walk([&](func::CallOp call) {
    auto manual = call->getParentOfType<dist::ManualOp>();
    auto callee = manual ? symbols.lookupNearestSymbolFrom<func::FuncOp>(
                               call, call.getCalleeAttr())
                         : nullptr;
    Operation *found = callee ? find(callee) : nullptr;
    if (!found)
      return WalkResult::advance();
    InFlightDiagnostic error =
        call.emitOpError("stands in the body of dist.manual and calls @")
        << callee.getName()
        << ", which names axes of the mesh; values there are the parts of one "
           "device, expected a function without shardings and collectives, or "
           "the call outside of the body";
    error.attachNote(found->getLoc()) << "axes are named here";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}
