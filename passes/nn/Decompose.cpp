//===- Decompose.cpp - Write composite ops in simple ones -----------------===//

#include "dialects/NN/NN.h"
#include "passes/nn/Passes.h"
#include "llvm/ADT/StringSet.h"

namespace sheaf {
#define GEN_PASS_DEF_NNDECOMPOSE
#include "passes/nn/Passes.h.inc"
} // namespace sheaf

using namespace mlir;
using namespace sheaf;

namespace {
/// Hands the role of the op being decomposed to the ops that replace it.
struct KeepRole : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op,
                               OpBuilder::InsertPoint previous) final {
    if (role && !previous.isSet())
      op->setAttr(nn::kRoleAttr, role);
  }
  Attribute role;
};

struct NNDecompose : sheaf::impl::NNDecomposeBase<NNDecompose> {
  using NNDecomposeBase::NNDecomposeBase;

  void runOnOperation() final {
    llvm::StringSet<> chosen, kept;
    if (!ops.empty() && !keep.empty()) {
      emitError(getOperation()->getLoc())
          << "nn-decompose: options 'ops' and 'keep' exclude each other";
      return signalPassFailure();
    }
    if (failed(read("ops", ops, chosen)) || failed(read("keep", keep, kept)))
      return signalPassFailure();
    decompose(chosen, kept);
  }

  LogicalResult read(StringRef option, ArrayRef<std::string> names,
                     llvm::StringSet<> &set) {
    for (StringRef name : names) {
      std::string full = name.contains('.') ? name.str() : ("nn." + name).str();
      auto info = RegisteredOperationName::lookup(full, &getContext());
      if (!info || !info->hasInterface<nn::DecomposableOpInterface>()) {
        emitError(getOperation()->getLoc())
            << "nn-decompose: option '" << option << "' names '" << name
            << "', which is "
            << (info ? "an op without a decomposition" : "no known op")
            << "; expected one of " << decomposableOps();
        return failure();
      }
      set.insert(full);
    }
    return success();
  }

  void decompose(const llvm::StringSet<> &chosen,
                 const llvm::StringSet<> &kept) {
    SmallVector<nn::DecomposableOpInterface> worklist;
    getOperation()->walk([&](nn::DecomposableOpInterface op) {
      StringRef name = op->getName().getStringRef();
      if (!kept.contains(name) && (chosen.empty() || chosen.contains(name)))
        worklist.push_back(op);
    });
    KeepRole listener;
    OpBuilder builder(&getContext(), &listener);
    for (nn::DecomposableOpInterface op : worklist) {
      listener.role = op->getAttr(nn::kRoleAttr);
      builder.setInsertionPoint(op);
      SmallVector<Value> values = op.decompose(builder);
      if (TypeRange(values) != op->getResultTypes()) {
        op->emitOpError("decomposition gives types (")
            << TypeRange(values) << "), expected those of the results";
        return signalPassFailure();
      }
      op->replaceAllUsesWith(values);
      op->erase();
    }
  }

  /// The names to choose from, for the message.
  std::string decomposableOps() {
    SmallVector<StringRef> names;
    for (RegisteredOperationName info : getContext().getRegisteredOperations())
      if (info.hasInterface<nn::DecomposableOpInterface>())
        names.push_back(info.getStringRef());
    llvm::sort(names);
    return llvm::join(names, ", ");
  }
};
} // namespace
