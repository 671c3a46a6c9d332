//===- Predict.cpp - What transfers are waited for ------------------------===//

#include "passes/overlap/Predict.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <map>

using namespace mlir;
using namespace sheaf;
using namespace sheaf::exec;

namespace {
constexpr int64_t kMostTrips = 64;
using Communicator = std::tuple<ArrayRef<int64_t>, ArrayRef<int64_t>, int64_t>;

struct Prediction {
  OpCosts &costs;
  llvm::function_ref<void(CollectiveOp, double, double)> report;
  SymbolTable symbols;
  double now = 0;
  std::map<Communicator, double> free;       ///< When each has sent all.
  llvm::SmallPtrSet<Operation *, 8> running; ///< Calls that have not ended.

  /// When a transfer that starts now has ended.
  double endOf(CollectiveOp op, double seconds) {
    double &end = free[{op.getSizes(), op.getStrides(), op.getChannel()}];
    end = std::max(end, now) + seconds;
    return end;
  }

  void run(Block &block) {
    struct Started {
      CollectiveOp op;
      double seconds, end;
    };
    DenseMap<Value, Started> started;
    for (Operation &op : block) {
      if (auto collective = dyn_cast<CollectiveOp>(op)) {
        double seconds = costs.transferSeconds(collective);
        double end = endOf(collective, seconds);
        if (collective.isStarted()) {
          started[collective.getWritten()[1]] = {collective, seconds, end};
        } else {
          report(collective, seconds, end - now);
          now = end;
        }
      } else if (auto wait = dyn_cast<WaitOp>(op)) {
        auto it = started.find(wait.getRead()[0]);
        if (it == started.end())
          continue;
        double exposed = std::max(0.0, it->second.end - now);
        report(it->second.op, it->second.seconds, exposed);
        now += exposed;
      } else if (auto call = dyn_cast<exec::CallOp>(op)) {
        if (auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
            callee && !callee.isExternal() && running.insert(callee).second) {
          run(callee.front());
          running.erase(callee);
        }
      } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
        int64_t trips = 1;
        if (std::optional<APInt> count = loop.getStaticTripCount())
          trips = count->getSExtValue();
        // The average of each time is asked for.
        for (int64_t i = 0; i < std::min(trips, kMostTrips); ++i)
          run(*loop.getBody());
      } else {
        now += costs.seconds(&op);
      }
    }
  }
};
} // namespace

void sheaf::predictExposure(
    func::FuncOp entry, OpCosts &costs,
    llvm::function_ref<void(CollectiveOp, double, double)> report) {
  if (entry.isExternal())
    return;
  Prediction{costs, report, SymbolTable(entry->getParentOfType<ModuleOp>()),
             0,     {},     {}}
      .run(entry.front());
}
