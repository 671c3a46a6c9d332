//===- PrepareEvaluation.cpp - Take dropout out ---------------------------===//

#include "dialects/NN/NN.h"
#include "passes/autodiff/LayerFunctions.h"
#include "passes/step/Passes.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/StringExtras.h"

namespace sheaf {
#define GEN_PASS_DEF_NNPREPAREEVALUATION
#include "passes/step/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
struct NNPrepareEvaluation
    : sheaf::impl::NNPrepareEvaluationBase<NNPrepareEvaluation> {
  using NNPrepareEvaluationBase::NNPrepareEvaluationBase;

  void runOnOperation() final {
    SymbolTable symbols(getOperation());
    SmallVector<func::FuncOp> roots;
    if (failed(findRoots(symbols, roots)))
      return signalPassFailure();
    done.insert(roots.begin(), roots.end());
    for (func::FuncOp root : roots) {
      prepare(root, symbols);
      if (root.getNumResults() == 1 &&
          !root.getResultAttr(0, nn::kResultAttr)) {
        Builder builder(&getContext());
        root.setResultAttr(0, nn::kResultAttr,
                           builder.getStrArrayAttr({"result", root.getName()}));
      }
    }
  }

private:
  LogicalResult findRoots(SymbolTable &symbols,
                          SmallVectorImpl<func::FuncOp> &roots);
  void prepare(func::FuncOp function, SymbolTable &symbols);

  /// Whether `function` draws random numbers for dropout, itself or in a call.
  bool hasDropout(func::FuncOp function, SymbolTable &symbols) {
    auto [it, isNew] = dropout.try_emplace(function, false);
    if (!isNew)
      return it->second;
    bool found = false;
    function.walk([&](Operation *op) {
      if (isa<nn::DropoutOp>(op))
        found = true;
      if (auto call = dyn_cast<func::CallOp>(op))
        if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee()))
          found |= hasDropout(callee, symbols);
    });
    return dropout[function] = found;
  }

  llvm::DenseMap<Operation *, bool> dropout;
  /// The copy of a function without dropout, or itself, and its arguments that
  /// went.
  llvm::DenseMap<Operation *, func::FuncOp> prepared;
  llvm::DenseMap<Operation *, llvm::BitVector> removed;
  llvm::SmallPtrSet<Operation *, 4> done;
};
} // namespace

LogicalResult
NNPrepareEvaluation::findRoots(SymbolTable &symbols,
                               SmallVectorImpl<func::FuncOp> &roots) {
  if (functions.empty()) {
    for (StringRef name : {"loss", "logits"})
      if (auto function = symbols.lookup<func::FuncOp>(name))
        roots.push_back(function);
    return success();
  }
  for (StringRef name : functions) {
    auto function = symbols.lookup<func::FuncOp>(name);
    if (!function || function.isDeclaration())
      return emitError(getOperation().getLoc())
             << "nn-prepare-evaluation: option 'functions' names '" << name
             << "', which is no function with a body";
    roots.push_back(function);
  }
  return success();
}

void NNPrepareEvaluation::prepare(func::FuncOp function, SymbolTable &symbols) {
  SmallVector<func::CallOp> calls;
  function.walk([&](Operation *op) {
    if (auto drop = dyn_cast<nn::DropoutOp>(op)) {
      drop.getResult().replaceAllUsesWith(drop.getInput());
      drop.erase();
    } else if (auto call = dyn_cast<func::CallOp>(op)) {
      calls.push_back(call);
    }
  });
  for (func::CallOp call : calls) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!callee || callee.isDeclaration() || done.contains(callee) ||
        !hasDropout(callee, symbols))
      continue;
    if (!prepared.contains(callee)) {
      // A copy, which takes the place of the callee where nobody else needs it.
      func::FuncOp made = callee.clone();
      made.setPrivate();
      made.setName((callee.getName() + "_evaluation").str());
      symbols.insert(made);
      dropout[made] = false;
      prepare(made, symbols);
      llvm::BitVector unused(made.getNumArguments());
      for (BlockArgument argument : made.getArguments())
        if (argument.use_empty() &&
            !callee.getArgument(argument.getArgNumber()).use_empty())
          unused.set(argument.getArgNumber());
      (void)made.eraseArguments(unused);
      removed[callee] = unused;
      prepared[callee] = made;
    }
    func::FuncOp target = prepared[callee];
    SmallVector<Value> operands;
    for (auto [i, operand] : llvm::enumerate(call.getOperands()))
      if (!removed[callee].test(i))
        operands.push_back(operand);
    OpBuilder builder(call);
    auto replacement =
        func::CallOp::create(builder, call.getLoc(), target, operands);
    replacement->setDiscardableAttrs(call->getDiscardableAttrDictionary());
    call->replaceAllUsesWith(replacement);
    call->erase();
    // The original may have been for evaluation alone.
    if (callee.isPrivate() &&
        SymbolTable::symbolKnownUseEmpty(callee, getOperation())) {
      StringAttr name = callee.getNameAttr();
      prepared.erase(callee);
      removed.erase(callee);
      dropout.erase(callee);
      symbols.erase(callee);
      (void)symbols.rename(target, name);
    }
  }
  eraseUnused(function.getBody().front());
  if (!done.contains(function))
    return;
  // The entry's own random key goes where nothing reads it any more.
  llvm::BitVector unused(function.getNumArguments());
  for (BlockArgument argument : function.getArguments())
    if (argument.use_empty() &&
        function.getArgAttr(argument.getArgNumber(), nn::kRngAttr))
      unused.set(argument.getArgNumber());
  (void)function.eraseArguments(unused);
}
