//===- DistDialect.td - Meshes, shardings, collectives -----*- tablegen -*-===//

#ifndef SHEAF_DIST_DIALECT_TD
#define SHEAF_DIST_DIALECT_TD

include "mlir/IR/OpBase.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::sheaf::dist";
  let summary = "meshes of devices, shardings of values, collectives";
  let description = [{
    A module has at most one `dist.mesh`. On global tensors, shardings are
    attributes and change no type: `dist.sharding` on arguments and results of
    functions, `dist.shardings` (one for each result) on ops, and
    `dist.argument_shardings` on loops. On local tensors, collectives move data
    between devices; a value that is still to be reduced has `#dist.partial` as
    the encoding of its type.

    A collective may carry `dist.reason`, a dictionary that says who asked for it.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerDistAttributes();
  }];
}

#endif // SHEAF_DIST_DIALECT_TD
