//===- Exec.h - The program of a rank on buffers ---------------*- C++ -*-===//
//
// The public header of the exec dialect: buffers, kernel launches, matrix
// products and calls, first unplaced, then placed.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_DIALECTS_EXEC_EXEC_H
#define SHEAF_DIALECTS_EXEC_EXEC_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace sheaf::exec {

/// Whether a type is a memref of integers or floats of static shape, no size of
/// which is 0, and identity layout.
bool isMemory(mlir::Type type);
/// Whether a tensor can lie in such a memory.
bool isTensor(mlir::Type type);
/// The bytes of a buffer; an i1 element takes one.
int64_t getBytes(mlir::MemRefType type);
/// The buffer or argument that a view, or a part, is of.
mlir::Value getRootBuffer(mlir::Value buffer);
/// Whether a type is that of the handle of a transfer, tensor<i64>.
bool isHandle(mlir::Type type);
/// Every buffer starts at a multiple of this (SHEAF_ALIGNMENT of the C ABI).
inline constexpr int64_t kAlignment = 64;
inline int64_t alignUp(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The symbol of the module that holds the kernels.
inline constexpr llvm::StringLiteral kKernelsName = "kernels";
/// On a function of that module: it is a kernel.
inline constexpr llvm::StringLiteral kKernelAttr = "exec.kernel";
/// On a placed function: the bytes of scratch memory that it needs.
inline constexpr llvm::StringLiteral kScratchAttr = "exec.scratch_bytes";
/// On a placed function: those bytes where most are alive, by what they hold: a
/// dictionary of integers whose sum is exec.scratch_bytes.
inline constexpr llvm::StringLiteral kScratchKindsAttr = "exec.scratch_kinds";
/// On a placed entry: the most bytes of gathered weights that are alive at
/// once. Not there where it gathers none.
inline constexpr llvm::StringLiteral kGatheredAttr = "exec.gathered_bytes";
/// On a placed entry of a pipeline: the most bytes that a rank needs, buffers
/// of the runtime included, and the action of the schedule where it does.
inline constexpr llvm::StringLiteral kPeakAttr = "exec.peak_bytes";
inline constexpr llvm::StringLiteral kPeakActionAttr = "exec.peak_action";
/// The most that it may need, and the largest buffer of an entry: what an
/// address can reach (the runtime refuses more).
inline constexpr int64_t kMaxScratchBytes = int64_t(1) << 48;
/// On a function on buffers: how many of its arguments are only read.
inline constexpr llvm::StringLiteral kReadCountAttr = "exec.read_count";
/// On a function on buffers: it is an entry of the artifact. An array with one
/// [kind, name] for each argument, with a third element where there is more to
/// say (the nn.param of a parameter, the value of a scalar; else unit) and a
/// fourth where the buffer is a rank's part of a whole tensor: its layout.
inline constexpr llvm::StringLiteral kEntryAttr = "exec.entry";
/// On a function of floor 3 to 5 that is public: ["step", 2], it is what the
/// ranks at place 2 along the pipeline's axis run as the entry `step`.
inline constexpr llvm::StringLiteral kPlaceAttr = "exec.place";
/// On a call of a stage part, of either floor: the action of the schedule that
/// it carries out, a string. Two calls behind each other may do one together.
inline constexpr llvm::StringLiteral kActionAttr = "exec.action";
/// On a module: the names of the actions that its marks count, strings.
inline constexpr llvm::StringLiteral kActionsAttr = "exec.actions";
/// On a module with a pipeline: what each of its ranks computes when, as the
/// text of a schedule.
inline constexpr llvm::StringLiteral kScheduleAttr = "exec.schedule";
/// On an argument of an entry: this rank's coordinates, tensor<Nxi32> for a
/// mesh of N axes.
inline constexpr llvm::StringLiteral kCoordinatesAttr = "exec.coordinates";
/// On an argument or result of an entry: where the rank's part lies in the
/// whole tensor, a dictionary {global = array<i64: ...>, axes = [["dp"], []],
/// blocks = array<i64: ...>}: the whole shape, and for each dimension the axes
/// of the mesh that cut it, the outermost first, and how many blocks they cut,
/// each for itself.
inline constexpr llvm::StringLiteral kLayoutAttr = "exec.layout";
/// On a module: the axes of its mesh, [["dp", 4], ["tp", 2]], the outermost
/// first.
inline constexpr llvm::StringLiteral kMeshAttr = "exec.mesh";
/// Beside it, where ranks do not stand in the order of their numbers: the rank
/// at each place, array<i64: ...>.
inline constexpr llvm::StringLiteral kDevicesAttr = "exec.devices";
/// On a lowered kernel: the size of its index space, and the items of a task
/// (from shapes alone).
inline constexpr llvm::StringLiteral kExtentAttr = "exec.extent";
inline constexpr llvm::StringLiteral kGrainAttr = "exec.grain";
/// On a lowered kernel: arithmetic operations, and bytes of all operands, of
/// one launch.
inline constexpr llvm::StringLiteral kFlopsAttr = "exec.flops";
inline constexpr llvm::StringLiteral kBytesAttr = "exec.bytes";
/// On a lowered kernel: how many operands are read; the others are written.
inline constexpr llvm::StringLiteral kInputsAttr = "exec.inputs";
/// On a lowered kernel: pairs (input, result), flat: the result's buffer may be
/// that of the input. Several pairs may be used at once. Anything else must not
/// overlap.
inline constexpr llvm::StringLiteral kInPlaceAttr = "exec.in_place";
/// On products, and on attention in a kernel: the element types that its
/// operands and then its results would have, an array of types. Only where one
/// is narrower than that of the program.
inline constexpr llvm::StringLiteral kNarrowAttr = "exec.narrow";
/// On a kernel: by how many bytes it would read and write less.
inline constexpr llvm::StringLiteral kNarrowSavedAttr = "exec.narrow_saved";
/// On a kernel: it only casts, and would not be there.
inline constexpr llvm::StringLiteral kNarrowNoneAttr = "exec.narrow_none";
/// On a kernel of attention: "attention" or "attention gradient".
inline constexpr llvm::StringLiteral kKindAttr = "exec.kind";

/// On a module: what its launches and products are, in the order of their ids:
/// an array of dictionaries {name, kind, flops, bytes, loc}.
inline constexpr llvm::StringLiteral kTableAttr = "exec.table";
/// On a module: what its transfers between ranks are, in the order of their
/// ids: an array of dictionaries, what their `about` says and {loc}.
inline constexpr llvm::StringLiteral kCollectivesAttr = "exec.collectives";

} // namespace sheaf::exec

#include "dialects/Exec/ExecDialect.h.inc"
#include "dialects/Exec/ExecEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Exec/ExecAttrs.h.inc"
#include "dialects/Exec/ExecInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/Exec/ExecOps.h.inc"

namespace sheaf::exec {
/// The buffer or argument that a buffer value is a view of.
mlir::Value getBase(mlir::Value buffer);
} // namespace sheaf::exec

#endif // SHEAF_DIALECTS_EXEC_EXEC_H
