//===- DistToNN.h - From one device's view to its program ------*- C++ -*-===//
//
// The pass that resolves the mesh: collectives over named axes become transfers
// in groups of ranks, and what depends on a device's place becomes code on its
// coordinates.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_LOWERING_DISTTONN_DISTTONN_H
#define SHEAF_LOWERING_DISTTONN_DISTTONN_H

#include "mlir/Pass/Pass.h"

namespace sheaf {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lowering/DistToNN/Passes.h.inc"

} // namespace sheaf

#endif // SHEAF_LOWERING_DISTTONN_DISTTONN_H
