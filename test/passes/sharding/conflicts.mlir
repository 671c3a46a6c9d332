// RUN: sheaf-opt %s --split-input-file --dist-propagate --dist-partition | FileCheck %s

// Two dimensions of one result ask for one axis: what costs less is followed, and what
// the other would have cost stands beside it.
// CHECK-LABEL: func.func @cost
// CHECK: nn.einsum {{.*}}dist.conflicts = [{by = "cost", candidates = [{seconds = {{[^}]*}}, what = "{x} of dimension 0 of operand 0"}, {seconds = {{[^}]*}}, what = "{x} of dimension 1 of {{(operand 1|result 0)}}"}], choice = 1 : i64}]
dist.mesh @mesh ["x" = 2]
func.func @cost(%a: tensor<8x4xf32> {dist.sharding = #dist.sharding<[{"x"}, {}]>},
                %b: tensor<4x64xf32> {dist.sharding = #dist.sharding<[{}, {"x"}]>}) -> tensor<8x64xf32> {
  %y = nn.einsum "mk,kn->mn"(%a, %b) : (tensor<8x4xf32>, tensor<4x64xf32>) -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// -----

// A stronger wish needs no price.
// CHECK-LABEL: func.func @priority
// CHECK: nn.einsum {{.*}}dist.conflicts = [{by = "priority", candidates = [{what = "{x} of dimension 0 of {{(operand|result) 0}}"}, {what = "{x} of dimension 1 of operand 1"}], choice = 0 : i64}]
dist.mesh @mesh ["x" = 2]
func.func @priority(%a: tensor<8x4xf32> {dist.sharding = #dist.sharding<[{"x"}, {}]>},
                    %b: tensor<4x64xf32> {dist.sharding = #dist.sharding<[{}, {"x"} p1]>}) -> tensor<8x64xf32> {
  %y = nn.einsum "mk,kn->mn"(%a, %b) : (tensor<8x4xf32>, tensor<4x64xf32>) -> tensor<8x64xf32>
  return %y : tensor<8x64xf32>
}

// -----

// One dimension that two operands have over different axes; and one op without conflict.
// CHECK-LABEL: func.func @size
// CHECK: nn.add {{.*}}dist.conflicts = [{by = "size", candidates = [{what = "{x} of dimension 0 of operand 0"}, {what = "{y} of dimension 0 of operand 1"}], choice = 0 : i64}]
// CHECK: nn.neg
// CHECK-NOT: dist.conflicts
// CHECK: return
dist.mesh @mesh ["x" = 2, "y" = 2]
func.func @size(%a: tensor<8x4xf32> {dist.sharding = #dist.sharding<[{"x"}, {}]>},
                %b: tensor<8x1xf32> {dist.sharding = #dist.sharding<[{"y"}, {}]>}) -> tensor<8x4xf32> {
  %y = nn.add %a, %b : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
  %z = nn.neg %y : tensor<8x4xf32>
  return %z : tensor<8x4xf32>
}
