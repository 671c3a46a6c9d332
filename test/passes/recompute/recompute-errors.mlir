// RUN: not sheaf-opt %s --nn-recompute=policy=some 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not sheaf-opt %s --nn-recompute=policy=full 2>&1 | FileCheck %s
// POLICY: error: nn-recompute: option 'policy' is 'some', expected none, selective or full
// CHECK: error: 'func.func' op has "kept zero" in nn.operands, expected for instance "kept 0"
func.func private @layer_forward(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {nn.layer} {
  %y = nn.exp %x : tensor<4xf32>
  return %y, %y : tensor<4xf32>, tensor<4xf32>
}
func.func private @layer_backward(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nn.layer, nn.forward = "layer_forward", nn.operands = ["kept zero"], nn.results = ["argument 0"]} {
  return %x : tensor<4xf32>
}

// RUN: sheaf-model gpt --layers=1 --hidden=8 --heads=2 --vocab=11 --seq=4 --batch=2 -o %t.model
// RUN: sheaf-compile %t.model --emit=step -o %t.step
// RUN: not sheaf-opt %t.step --nn-recompute=policy=full 2>&1 | FileCheck %s --check-prefix=LATE
// LATE: error: 'func.func' op has the nn.{{input|weight}}_gradient @{{.*}}, which is not in the module; run nn-recompute right after nn-differentiate
