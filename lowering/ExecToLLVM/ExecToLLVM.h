//===- ExecToLLVM.h - Host code --------------------------------*- C++ -*-===//
//
// The pass that turns placed functions into LLVM on the runtime's C interface.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_EXECTOLLVM_EXECTOLLVM_H
#define SHEAF_LOWERING_EXECTOLLVM_EXECTOLLVM_H

#include "dialects/Exec/Exec.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/Pass.h"

namespace sheaf {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lowering/ExecToLLVM/Passes.h.inc"

} // namespace sheaf

#endif // SHEAF_LOWERING_EXECTOLLVM_EXECTOLLVM_H
