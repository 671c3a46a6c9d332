// A module in which a pass fails shrinks to the op that it fails at; what the tester does not
// find interesting is refused; MLIR's own reductions are there.
// RUN: sheaf-reduce %s --reduce-values="test=%sheaf_source/scripts/interesting.sh test-arg='cannot be differentiated',%sheaf_bin/sheaf-opt,--nn-differentiate=functions=f" -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: not sheaf-opt %t.mlir --nn-differentiate=functions=f -o %t.out 2>&1 | FileCheck %s --check-prefix=FAULT
// FAULT: 'nn.microbatches' op cannot be differentiated
// RUN: not sheaf-reduce %s --reduce-values="test=%sheaf_source/scripts/interesting.sh test-arg=nonsense,%sheaf_bin/sheaf-opt" 2>&1 | FileCheck %s --check-prefix=DULL
// DULL: error: reduce-values: '{{.*}}interesting.sh' does not find the module interesting
// RUN: not sheaf-reduce %s --reduce-values="test=%t.none" 2>&1 | FileCheck %s --check-prefix=TESTER
// TESTER: error: reduce-values: found no program '{{.*}}.none', expected test=PROGRAM
// RUN: not sheaf-reduce %s -o %t.none/out 2>&1 | FileCheck %s --check-prefix=OUTPUT
// OUTPUT: sheaf-reduce: cannot open output file '{{.*}}.none/out': No such file or directory
// RUN: sheaf-reduce %s --opt-reduction-pass="opt-pass=symbol-dce test=%sheaf_source/scripts/interesting.sh test-arg=nn.microbatches,%sheaf_bin/sheaf-opt" | FileCheck %s --check-prefix=DCE
// DCE-NOT: @unused
// DCE: @f

// CHECK-NOT: nn.einsum
// CHECK-NOT: @g
// CHECK: func.func @f
// CHECK: nn.microbatches
// CHECK-NOT: nn.add
func.func private @unused(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  return %x : tensor<4x8xf32>
}
func.func @g(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = nn.exp %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %g = call @g(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %h = nn.einsum "be,ef->bf"(%g, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %r = nn.relu %h : tensor<4x8xf32>
  %s = nn.softmax %r dim 1 : tensor<4x8xf32>
  %m = nn.microbatches 2 inits(%s : tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%k: tensor<i32>, %a: tensor<4x8xf32>):
    %b = nn.add %a, %x : tensor<4x8xf32>
    nn.yield %b : tensor<4x8xf32>
  }
  %t = nn.tanh %m : tensor<4x8xf32>
  %y = nn.add %t, %x : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
