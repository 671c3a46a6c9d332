//===- Program.h - Host code as data ---------------------------*- C++ -*-===//
//
// A step of a deep model makes thousands of launches. Written out as code they
// would take longer to compile than all kernels, so they are data: words that
// one small loop in the artifact carries out. This file has the words and the
// loop.
//
// An instruction is [operation | pointers << 8, what, a word for each pointer].
// What: the index of the launch's, product's or transfer's description, the
// bytes of a copy, the index of the function called, the number of an action.
// A pointer is [base << 40 |
// offset in bytes], where base 0 is the scratch memory and base i + 1 is buffer
// i of the function. A call has the callee's scratch memory behind its buffers.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_EXECTOLLVM_PROGRAM_H
#define SHEAF_LOWERING_EXECTOLLVM_PROGRAM_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace sheaf {

/// What an instruction does, in its low eight bits.
enum class Instruction : int64_t {
  Launch,
  Matmul,
  Copy,
  Call,
  Collective,
  GroupedMatmul,
  /// Pointers: what is sent, what comes, and where the handle goes.
  Start,
  /// Pointers: where the handle is, and the buffers.
  Wait,
  /// Pointers: rows, counts of those sent and of those that come, the result.
  Rows,
  /// An action of the schedule begins, or with -1 ends. No pointers.
  Mark
};

/// Bits of the offset in a pointer's word: one tebibyte of scratch memory.
constexpr int kOffsetBits = 40;
/// Bases that a pointer's word has room for.
constexpr int64_t kMostBases = int64_t{1} << 23;

/// Names of the symbols that the loop reads.
constexpr llvm::StringLiteral kRunName = "run_program";
constexpr llvm::StringLiteral kDescriptionsName = "descriptions";
constexpr llvm::StringLiteral kFunctionsName = "functions";

/// Fields of SheafContext, SheafDevice and SheafCommunicator, in order (abi.h).
enum ContextField { kDevice, kBuffers, kArena, kRuntime, kCommunicator };
enum DeviceField { kLaunch, kMatmul, kCopy, kZero, kGroupedMatmul, kMark };
enum CommunicatorField { kStart, kWait, kStartRows };

/// Starts the transfer that `description` describes and waits for it.
void transfer(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value context,
              mlir::Value description, mlir::Value send, mlir::Value receive);

/// The same for rows, whose buffers are in a table.
void transferRows(mlir::OpBuilder &builder, mlir::Location loc,
                  mlir::Value context, mlir::Value description,
                  mlir::Value buffers);

/// Starts a transfer that reads `send` and writes `receive`, and stores its
/// handle.
void startTransfer(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Value context, mlir::Value description,
                   mlir::Value send, mlir::Value receive, mlir::Value handle);
/// Waits for the transfer whose handle is stored there.
void waitForTransfer(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value context, mlir::Value handle);

/// Adds to `module` the function
///   void run_program(context, buffers, scratch, const int64_t *begin, const
///   int64_t *end)
/// that carries out the instructions of [begin, end), each with at most
/// `mostPointers` pointers. It reads the tables `descriptions` and `functions`.
void addProgramLoop(mlir::ModuleOp module, int64_t mostPointers);

/// Adds a constant table of addresses of `symbols`.
void addAddressTable(mlir::ModuleOp module, llvm::StringRef name,
                     llvm::ArrayRef<std::string> symbols);

} // namespace sheaf

#endif // SHEAF_LOWERING_EXECTOLLVM_PROGRAM_H
