// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(func.func(nn-to-linalg))"

dist.mesh @mesh ["tp" = 2]
// expected-error @below {{has argument 0 of type 'tensor<4xf32, #dist.partial<["tp"], max>>', expected what dist-to-nn leaves: tensors without encoding}}
func.func @f(%x: tensor<4xf32, #dist.partial<["tp"], max>>) {
  return
}

// -----

func.func @f(%x: tensor<2147483647xf32>) {
  // expected-error @below {{'nn.top_k' op has k of 2147483647, nn-to-linalg expects at most 1024}}
  // expected-error @below {{failed to legalize operation 'nn.top_k'}}
  %0, %1 = nn.top_k %x k 2147483647 : (tensor<2147483647xf32>) -> (tensor<2147483647xf32>, tensor<2147483647xi32>)
  return
}
