//===- Emitter.h - Emits the loops of a kernel -----------------*- C++ -*-===//
//
// A value is computed in the outermost loop in which its place is known and is
// kept there: what does not change in a loop leaves it, nothing is computed
// twice, and a reduction opens loops of its own in that place. One loop at a
// time is done several elements at once; what does not depend on it stays
// scalar.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_CPU_KERNELS_EMITTER_H
#define SHEAF_LOWERING_CPU_KERNELS_EMITTER_H

#include "lowering/cpu/kernels/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/DenseSet.h"
#include <map>

namespace sheaf::cpu {

class Emitter {
public:
  /// `kernel` is the range form, with an empty body; `source` holds the ops.
  /// `streamedBytes` as in `lowerKernel`.
  Emitter(mlir::func::FuncOp source, mlir::func::FuncOp kernel,
          int64_t streamedBytes);

  void emit(const Plan &plan);
  /// `nn.top_k`, `nn.expert_sort` and `nn.gather_grad`, whose items are rows,
  /// groups and blocks of rows.
  void emitTopK(nn::TopKOp op);
  void emitExpertSort(nn::ExpertSortOp op);
  void emitGatherGrad(nn::GatherGradOp op, int64_t rowBlock, mlir::Value base);

private:
  using Values = llvm::SmallVector<mlir::Value>;

  /// The elements of a tensor along dimension `dim`, kept in `buffer` for loops
  /// that come later: a function that takes long is computed once.
  struct Row {
    mlir::Value tensor;
    Indices place; ///< without what it has in `dim`
    unsigned dim;
    mlir::Value buffer;
  };
  /// The body of a loop (or the function), in which code is added at `builder`.
  struct Scope {
    mlir::OpBuilder builder;
    std::vector<Row> rows;
    std::map<std::pair<void *, Indices>, mlir::Value> elements;
    std::map<std::pair<Index, bool>, mlir::Value> numbers;
  };
  /// Goes out to the scope of depth `depth` for a while.
  class At {
  public:
    At(Emitter &emitter, unsigned depth);
    ~At();

  private:
    Emitter &emitter;
    llvm::SmallVector<std::unique_ptr<Scope>> inner;
  };

  mlir::OpBuilder &builder() { return scopes.back()->builder; }
  unsigned depth() const { return scopes.size() - 1; }
  void open(mlir::Block *body);
  void close(mlir::Operation *loop);

  template <typename Op, typename... Args>
  Op make(Args &&...args) {
    return Op::create(builder(), loc, std::forward<Args>(args)...);
  }
  mlir::Value constant(int64_t value);

  /// A loop from `low` to `high` (with that range for the planner) that carries
  /// `values`.
  using Body = llvm::function_ref<Values(Index, llvm::ArrayRef<mlir::Value>)>;
  Values loop(mlir::Value low, mlir::Value high, int64_t step, int64_t lanes,
              std::pair<int64_t, int64_t> range,
              llvm::ArrayRef<mlir::Value> values, Body body);
  Values loop(int64_t low, int64_t high, llvm::ArrayRef<mlir::Value> values,
              Body body);
  /// The elements of a loop, `lanes` at once, then what is left one by one.
  /// The length is a multiple of `multiple`.
  void vectorLoop(mlir::Value low, mlir::Value high,
                  std::pair<int64_t, int64_t> range, int64_t multiple,
                  int64_t lanes, llvm::function_ref<void(Index)> body);
  void vectorLoop(int64_t low, int64_t high, int64_t lanes,
                  llvm::function_ref<void(Index)> body);

  /// The items of a plan that sweeps.
  void emitSweeps(const Plan &plan);
  /// Fetches what lies `ahead` rows behind `count` rows from `row` on, of the
  /// operands that a sweep reads along `column`.
  void fetchRows(mlir::ValueRange results, const Indices &place,
                 const Index &row, int64_t count, const Index &column,
                 mlir::Value ahead);

  // Numbers.
  /// An index of one lane, or the first lane's of one with a step.
  mlir::Value first(const Index &index);
  /// All lanes.
  mlir::Value all(const Index &index);
  mlir::Value variable(unsigned variable, bool allLanes);
  /// As integers of type `element`; a scalar where there is one lane.
  mlir::Value asInteger(const Index &index, mlir::Type element);
  mlir::Value spread(mlir::Value scalar, int64_t lanes);
  /// Makes scalars vectors where there is a vector among `values`.
  void align(Values &values);

  // Memory.
  mlir::Value load(mlir::Value buffer, const Index &offset, mlir::Type element);
  void store(mlir::Value value, mlir::Value buffer, const Index &offset);
  /// The one-dimensional memref of an argument or constant.
  mlir::Value bufferOf(mlir::Value tensor);

  // Rows that are kept.
  mlir::Value findRow(mlir::Value tensor, const Indices &place);
  /// Keeps what the open loop over `index`, [0, size), has computed so far.
  void keepRows(const Index &index, int64_t size, std::vector<Row> &rows);

  // Streams.
  mlir::Value addressOf(mlir::Value buffer);
  /// Decides, by size and shape alone, which results are stored past the
  /// caches. Whether a store could be (it must begin at a whole line, and not
  /// take the place of an operand) changes no bit of what is stored.
  void chooseStreams(const Plan &plan, mlir::ValueRange results);
  /// Fetches the next item's row in the last of several passes over a row.
  void prefetchRows(mlir::scf::ForOp items);

  // Elements.
  mlir::Value element(mlir::Value tensor, const Indices &place);
  mlir::Value compute(mlir::Operation *op, mlir::Value result,
                      const Indices &place);
  mlir::Value computePad(nn::PadOp pad, const Indices &place);
  mlir::Value computeConcatenate(nn::ConcatenateOp concat,
                                 const Indices &place);
  mlir::Value computeGather(nn::GatherOp gather, const Indices &place);
  mlir::Value computeRandom(nn::RandomOp random, const Indices &place);
  void reduce(llvm::ArrayRef<mlir::Operation *> group, const Indices &place);
  /// Computes, outside of the open loop, the reductions that an element needs,
  /// in front of anything else: what they keep is then there.
  void reduceFirst(mlir::Value tensor, const Indices &place);
  /// Whether an index is inside its window, and the index there.
  std::pair<mlir::Value, Index> enter(const Window &window);
  Index clamped(mlir::Value number, const Index &base, int64_t size);

  mlir::func::FuncOp source, kernel;
  mlir::Location loc;
  Indexing indexing;
  llvm::SmallVector<std::unique_ptr<Scope>> scopes;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  llvm::DenseMap<mlir::Operation *, llvm::ArrayRef<mlir::Operation *>> groupOf;
  llvm::SmallVector<mlir::Value> outputs;
  int64_t streamedBytes, keptBytes = 0;
  /// Results that are stored past the caches, with the condition for it, if
  /// any; and the first of them, at whose lines vectors begin.
  llvm::DenseMap<mlir::Value, mlir::Value> streams;
  std::optional<unsigned> streamed;
  /// Loads of vectors from the rows of operands, where items are rows, whose
  /// variable is the other `row` below: the offset of the row, the distance to
  /// the next one, and which loop over the row it is.
  struct RowLoad {
    mlir::vector::LoadOp op;
    mlir::Value row;
    int64_t stride;
    unsigned pass;
  };
  std::vector<RowLoad> rowLoads;
  std::optional<unsigned> row;
  unsigned pass = 0;
  /// Passes that compute functions such as exp, in which memory would rest.
  llvm::SmallDenseSet<unsigned> longPasses;
};

} // namespace sheaf::cpu

#endif // SHEAF_LOWERING_CPU_KERNELS_EMITTER_H
