//===- Points.h - Where passes of others stand -----------------*- C++ -*-===//
//
// The driver's phases have named points between them, at which plugins and the
// option --pass-at run passes of their own.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_COMPILER_POINTS_H
#define SHEAF_COMPILER_POINTS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace sheaf {

/// A place between phases.
struct Point {
  llvm::StringLiteral name, meaning;
};
/// In the order in which a compilation meets them.
llvm::ArrayRef<Point> getPoints();

/// Runs `pipeline` at a point of every compilation of this process, as the
/// option
/// --pass-at does. A plugin calls it while it registers its passes. It is weak,
/// as programs other than sheaf-compile load plugins, too: call it where it is
/// there.
__attribute__((weak)) void attachPasses(llvm::StringRef point,
                                        llvm::StringRef pipeline);

} // namespace sheaf

#endif // SHEAF_COMPILER_POINTS_H
