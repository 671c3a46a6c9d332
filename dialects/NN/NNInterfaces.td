//===- NNInterfaces.td - What an op tells the compiler -----*- tablegen -*-===//

#ifndef SHEAF_NN_INTERFACES_TD
#define SHEAF_NN_INTERFACES_TD

include "mlir/IR/OpBase.td"

def NN_RuleOpInterface : OpInterface<"RuleOpInterface"> {
  let cppNamespace = "::sheaf::nn";
  let description = [{
    How the dimensions of an op's operands and results relate, as data: the one
    place that propagation, partitioning, cost and explanations read. An op
    without a rule is legal and is replicated.
  }];
  let methods = [
    InterfaceMethod<"The sharding rule of this op on its present shapes.",
      "::sheaf::nn::ShardingRule", "getShardingRule">,
  ];
}

def NN_GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::sheaf::nn";
  let description = [{
    How an op is differentiated in reverse. The gradient of each operand is
    built by ops of its own, so that a gradient that nobody needs costs nothing
    and input and weight gradients can be scheduled apart.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the gradients of the operands that `gradients.needs` asks for and
      hands them over with `gradients.set`. An operand not set has gradient 0.
      The values read may be the operands and results of this op.
    }], "void", "buildGradient", (ins "::sheaf::nn::Gradients &":$gradients)>,
  ];
}

def NN_DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::sheaf::nn";
  let description = [{
    A composite op: one for which a good kernel exists. The decomposition into
    simple ops is its reference semantics.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds simple ops that compute the results of this op and returns one value
      for each result. The op itself is left in place.
    }], "::llvm::SmallVector<::mlir::Value>", "decompose",
      (ins "::mlir::OpBuilder &":$builder)>,
  ];
}

#endif // SHEAF_NN_INTERFACES_TD
