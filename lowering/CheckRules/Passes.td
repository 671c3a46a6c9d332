//===- Passes.td - Check rules by running ops --------------*- tablegen -*-===//

#ifndef SHEAF_LOWERING_CHECKRULES_PASSES_TD
#define SHEAF_LOWERING_CHECKRULES_PASSES_TD

include "mlir/Pass/PassBase.td"

def DistCheckRules : Pass<"dist-check-rules", "::mlir::ModuleOp"> {
  let summary = "Run every op whole and sharded, and compare";
  let description = [{
    For people who add ops. Takes each op of the module that has a sharding rule, of nn
    or of a plugin, and computes it on random inputs: whole, and sharded in every way
    that its rule allows, along each factor over 2 and 3 devices, over as many as it
    has elements and over one more, along two factors at once, and along one over two
    axes of the mesh. Sharded, it is partitioned as `dist-partition` does and runs on
    all devices; what lies behind the end of a shard holds NaN. What the rule says of
    linearity and monotony is tried, too. At the first difference an error names op,
    sharding and element.

    Ops are as large as they are written: a dimension should have 4 to 8 elements. With
    `complete=DIALECT,...` it is an error if an op of these dialects that has a rule is
    not in the module.

    Changes nothing.

    ```mlir
    func.func @f(%x: tensor<4x6xf32>) -> tensor<4xf32> {
      %y = nn.reduce sum %x dims [1] : (tensor<4x6xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let options = [
    ListOption<"complete", "complete", "std::string",
      "Dialects of which every op with a rule must be there">,
    Option<"seed", "seed", "uint64_t", /*default=*/"1", "Of the random inputs">,
    Option<"mostLoops", "most-loops", "int64_t", /*default=*/"131072",
      "Ops that loop over more elements are left out, with a remark">,
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect",
    "::sheaf::dist::DistDialect", "::sheaf::nn::NNDialect"];
}

#endif // SHEAF_LOWERING_CHECKRULES_PASSES_TD
