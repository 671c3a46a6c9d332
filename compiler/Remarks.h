//===- Remarks.h - What passes did and did not do, and why -----*- C++ -*-===//
//
// Passes report with MLIR's remark engine (mlir/IR/Remarks.h): the category is
// the concern (fusion, sharding, memory), the name what happened. Here the
// reports become diagnostics at the user's lines, or a file for LLVM's
// opt-viewer.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_COMPILER_REMARKS_H
#define SHEAF_COMPILER_REMARKS_H

#include "mlir/IR/MLIRContext.h"

namespace sheaf {

/// Prints the remarks of the categories that match the regular expression
/// `filter` where `print` is set, and writes them to `file`, in LLVM's YAML,
/// where that is not empty. The file is whole when `context` goes away. On
/// failure `error` says why.
mlir::LogicalResult enableRemarks(mlir::MLIRContext &context,
                                  llvm::StringRef filter, bool print,
                                  llvm::StringRef file, std::string &error);

/// While it lives, remarks in `context` are dropped: for a compilation beside
/// the one that was asked for. One at a time in a context.
class DropRemarks {
public:
  explicit DropRemarks(mlir::MLIRContext *context);
  ~DropRemarks();
  DropRemarks(const DropRemarks &) = delete;
  DropRemarks &operator=(const DropRemarks &) = delete;

private:
  mlir::MLIRContext *context;
};

} // namespace sheaf

#endif // SHEAF_COMPILER_REMARKS_H
