// RUN: sheaf-opt %s --split-input-file --nn-to-linalg | FileCheck %s

// Broadcasts are indexing maps: nothing is copied.
// CHECK-DAG: #[[$ALL:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[$ROW:.+]] = affine_map<(d0, d1) -> (d1)>
// CHECK-DAG: #[[$COLUMN:.+]] = affine_map<(d0, d1) -> (d0, 0)>
// CHECK-LABEL: @broadcast
// CHECK: linalg.generic {indexing_maps = [#[[$ALL]], #[[$ROW]], #[[$ALL]]]
// CHECK: arith.addf
// CHECK: linalg.generic {indexing_maps = [#[[$ALL]], #[[$COLUMN]], #[[$ALL]]]
// CHECK: arith.mulf
func.func @broadcast(%a: tensor<4x8xf32>, %b: tensor<8xf32>, %c: tensor<4x1xf32>) -> tensor<4x8xf32> {
  %0 = nn.add %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = nn.mul %0, %c : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// bf16 is computed in f32 and rounded once an op.
// CHECK-LABEL: @narrow
// CHECK: arith.extf
// CHECK: arith.mulf {{.*}} : f32
// CHECK: arith.truncf {{.*}} : f32 to bf16
func.func @narrow(%a: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = nn.mul %a, %a : tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

// Sums are taken in f32; `keep` is a reshape.
// CHECK-LABEL: @mean
// CHECK: linalg.fill {{.*}} -> tensor<4xf32>
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]{{.*}} ins({{.*}} : tensor<4x8xbf16>) outs({{.*}} : tensor<4xf32>)
// CHECK: arith.divf
// CHECK: arith.truncf
// CHECK: tensor.expand_shape {{.*}} into tensor<4x1xbf16>
func.func @mean(%a: tensor<4x8xbf16>) -> tensor<4x1xbf16> {
  %0 = nn.reduce mean %a dims [1] keep : (tensor<4x8xbf16>) -> tensor<4x1xbf16>
  return %0 : tensor<4x1xbf16>
}

// -----

// NaN goes through a maximum.
// CHECK-LABEL: @maximum
// CHECK: arith.maximumf
func.func @maximum(%a: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = nn.reduce max %a dims [1] : (tensor<4x8xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK-LABEL: @product
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]
func.func @product(%a: tensor<4x8xf32>, %b: tensor<5x8xf32>) -> tensor<4x5xf32> {
  %0 = nn.einsum "ac,bc->ab"(%a, %b) : (tensor<4x8xf32>, tensor<5x8xf32>) -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// -----

// CHECK-LABEL: @movement
// CHECK: tensor.extract_slice {{.*}}[0, 1] [4, 3] [1, 2]
// CHECK: tensor.insert_slice {{.*}}[1, 0] [4, 8] [2, 1]
// CHECK: tensor.insert_slice {{.*}}[0, 0] [4, 8] [1, 1]
// CHECK: tensor.insert_slice {{.*}}[4, 0] [4, 8] [1, 1]
// CHECK: tensor.collapse_shape
// CHECK: tensor.expand_shape
func.func @movement(%x: tensor<4x8xf32>) -> (tensor<4x3xf32>, tensor<9x8xf32>, tensor<8x8xf32>, tensor<2x16xf32>) {
  %0 = nn.slice %x offsets [0, 1] sizes [4, 3] strides [1, 2] : (tensor<4x8xf32>) -> tensor<4x3xf32>
  %1 = nn.pad %x low [1, 0] high [1, 0] interior [1, 0] : (tensor<4x8xf32>) -> tensor<9x8xf32>
  %2 = nn.concatenate %x, %x dim 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %3 = nn.reshape %x : tensor<4x8xf32> -> tensor<2x16xf32>
  return %0, %1, %2, %3 : tensor<4x3xf32>, tensor<9x8xf32>, tensor<8x8xf32>, tensor<2x16xf32>
}

// -----

// An index outside of the table reads row 0, which is then not used.
// CHECK-LABEL: @gather
// CHECK: %[[INSIDE:.+]] = arith.cmpi ule
// CHECK: arith.select %[[INSIDE]]
// CHECK: %[[ELEMENT:.+]] = tensor.extract
// CHECK: arith.select %[[INSIDE]], %[[ELEMENT]]
func.func @gather(%x: tensor<4x8xf32>, %i: tensor<3xi32>) -> tensor<3x8xf32> {
  %0 = nn.gather %x[%i] axis 0 : (tensor<4x8xf32>, tensor<3xi32>) -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// -----

// A composite op by its decomposition.
// CHECK-LABEL: @composite
// CHECK-NOT: nn.
// CHECK: math.exp
// CHECK-NOT: nn.
func.func @composite(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.softmax %x dim 1 : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// The loop over microbatches stays; its body is converted.
// CHECK-LABEL: @loop
// CHECK: nn.microbatches 2
// CHECK: linalg.generic
// CHECK: nn.yield
func.func @loop(%x: tensor<4xf32>, %zero: tensor<2xf32>) -> tensor<2xf32> {
  %sum = nn.microbatches 2 slices(%x : tensor<4xf32>) inits(%zero : tensor<2xf32>) -> tensor<2xf32> {
  ^bb0(%k: tensor<i32>, %part: tensor<2xf32>, %acc: tensor<2xf32>):
    %next = nn.add %acc, %part : tensor<2xf32>
    nn.yield %next : tensor<2xf32>
  }
  return %sum : tensor<2xf32>
}
