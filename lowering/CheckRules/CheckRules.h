//===- CheckRules.h - Check rules by running ops ---------------*- C++ -*-===//
//
// A pass that computes every op whole and sharded and compares.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_CHECKRULES_CHECKRULES_H
#define SHEAF_LOWERING_CHECKRULES_CHECKRULES_H

#include "mlir/Pass/Pass.h"

namespace sheaf {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lowering/CheckRules/Passes.h.inc"

} // namespace sheaf

#endif // SHEAF_LOWERING_CHECKRULES_CHECKRULES_H
