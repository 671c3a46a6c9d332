// RUN: sheaf-opt %s --split-input-file --verify-diagnostics --dist-to-nn

// What nn has no numbers for.
dist.mesh @mesh ["tp" = 2]
func.func @f(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  // expected-error@+1 {{gives 'tensor<4xcomplex<f32>, #dist.partial<["tp"], sum>>', expected elements of type f64, f32, bf16, f16, an 8-bit float, i32, i8 or i1}}
  %0 = dist.make_partial sum %x axes ["tp"] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>, #dist.partial<["tp"], sum>>
  %1 = dist.all_reduce sum %0 axes ["tp"] : (tensor<4xcomplex<f32>, #dist.partial<["tp"], sum>>) -> tensor<4xcomplex<f32>>
  return %1 : tensor<4xcomplex<f32>>
}

// -----

dist.mesh @mesh ["tp" = 2]
func.func @f(%x: tensor<4xi64>) -> tensor<8xi64> {
  // expected-error@+1 {{gives 'tensor<8xi64>', expected elements of type}}
  %0 = dist.all_gather %x dim 0 axes ["tp"] : (tensor<4xi64>) -> tensor<8xi64>
  return %0 : tensor<8xi64>
}
