// RUN: sheaf-opt %s --verify-diagnostics --pass-pipeline="builtin.module(func.func(nn-to-linalg))"

dist.mesh @mesh ["tp" = 2]
// expected-error @below {{has argument 0 of type 'tensor<4xf32, #dist.partial<["tp"], max>>', expected what dist-to-nn leaves: tensors without encoding}}
func.func @f(%x: tensor<4xf32, #dist.partial<["tp"], max>>) {
  return
}
