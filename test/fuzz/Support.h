//===- Support.h - What the fuzz targets of the compiler share -*- C++ -*-===//
//
// A context that knows Sheaf's dialects, and diagnostics that go nowhere: a
// target finds crashes, hangs and broken promises, not error messages.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_TEST_FUZZ_SUPPORT_H
#define SHEAF_TEST_FUZZ_SUPPORT_H

#include "compiler/Compile.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include <cerrno>
#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sheaf::fuzz {

/// A context of one thread. Types and attributes live as long as their context
/// does, so it is made anew now and then.
inline mlir::MLIRContext &context() {
  static std::unique_ptr<mlir::MLIRContext> current;
  static int uses = 0;
  if (!current || ++uses == 500) {
    mlir::DialectRegistry registry;
    registerSheafDialects(registry);
    current = std::make_unique<mlir::MLIRContext>(
        registry, mlir::MLIRContext::Threading::DISABLED);
    current->printOpOnDiagnostic(false);
    current->getDiagEngine().registerHandler([](mlir::Diagnostic &) {});
    uses = 0;
  }
  return *current;
}

/// A promise that was broken: text of what, and the end of the process.
[[noreturn]] inline void fail(const llvm::Twine &what) {
  llvm::errs() << "broken promise: " << what << "\n";
  abort();
}

/// Whether a text has a number of more than nine digits.
inline bool hasLargeNumber(llvm::StringRef text) {
  size_t digits = 0;
  for (char c : text) {
    digits = llvm::isDigit(c) ? digits + 1 : 0;
    if (digits > 9)
      return true;
  }
  return false;
}

/// Whether a text is a module, as a process of its own finds: where a text ends
/// in an error, MLIR 22's parser frees ops that others use and writes to them,
/// as mlir-opt does on
///
///   func.func @f(%x: i32) {
///     %0 = arith.addi %2, %x : i32
///     omp.master {
///       %2 = arith.addi %x, %x : i32
///     ^bb0(%k: i32):
///       "t.x"(%2) : oops
///     }
///     return
///   }
///
/// and what is damaged so shows up many inputs later. A parser that crashes or
/// does not end is found all the same.
inline bool parsesElsewhere(llvm::StringRef text) {
  pid_t child = fork();
  if (child < 0)
    fail("no process to parse in");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context());
    _exit(module ? 0 : 1);
  }
  int status = 0;
  pid_t ended;
  do // libFuzzer has a timer.
    ended = waitpid(child, &status, 0);
  while (ended < 0 && errno == EINTR);
  if (ended != child || !WIFEXITED(status) || WEXITSTATUS(status) > 1)
    fail("the parser ends on this text with status " + llvm::Twine(status) +
         ":\n" + text);
  return WEXITSTATUS(status) == 0;
}

/// The module of a text; null where it is not one. Three faults of MLIR 22 are
/// left out: its reader of bytecode does not end on some damaged bytecode
/// (bytecode is written from what was read, and read again); its parser crashes
/// at `array<index: ...>`, and at a position of `llvm.insertvalue` or
/// `llvm.extractvalue` that 32 bits do not hold.
inline mlir::OwningOpRef<mlir::ModuleOp> parse(const uint8_t *data,
                                               size_t size) {
  // Text ends in a null byte.
  std::string bytes(reinterpret_cast<const char *>(data), size);
  if (llvm::StringRef(bytes).starts_with("ML\xefR"))
    return nullptr;
  for (size_t at = 0; (at = bytes.find("array<", at)) != std::string::npos;) {
    at += 6;
    if (llvm::StringRef(bytes).substr(at).ltrim().starts_with("index"))
      return nullptr;
  }
  llvm::StringRef text = bytes;
  if ((text.contains("insertvalue") || text.contains("extractvalue")) &&
      hasLargeNumber(text))
    return nullptr;
  if (!parsesElsewhere(text))
    return nullptr;
  return mlir::parseSourceString<mlir::ModuleOp>(bytes, &context());
}

} // namespace sheaf::fuzz

#endif // SHEAF_TEST_FUZZ_SUPPORT_H
