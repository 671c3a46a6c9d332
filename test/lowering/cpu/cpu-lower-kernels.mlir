// RUN: sheaf-opt %s --split-input-file --cpu-lower-kernels | FileCheck %s
// RUN: sheaf-opt %s --split-input-file --cpu-lower-kernels=vector-bytes=32 \
// RUN:   | FileCheck %s --check-prefix=SHORT

// One loop over all dimensions, in blocks; the scalar is read once; the result may
// have the buffer of the first operand.
// CHECK-LABEL: func.func @scale(
// CHECK-SAME: %[[X:.+]]: memref<4x800xf32>, %[[S:.+]]: memref<f32>, %[[Y:.+]]: memref<4x800xf32>, %[[BEGIN:.+]]: index, %[[END:.+]]: index)
// CHECK-SAME: exec.bytes = 25604 : i64, exec.extent = 4 : i64, exec.flops = 3200 : i64
// CHECK-SAME: exec.in_place = array<i64: 0, 0>, exec.inputs = 2 : i64
// CHECK: %[[SCALE:.+]] = memref.load
// CHECK: scf.for %{{.+}} = %[[BEGIN]] to %[[END]]
// CHECK: scf.for
// CHECK: vector.load {{.*}} vector<16xf32>
// CHECK: vector.store
func.func @scale(%x: tensor<4x800xf32>, %s: tensor<f32>) -> tensor<4x800xf32> attributes {exec.kernel} {
  %y = nn.mul %x, %s : (tensor<4x800xf32>, tensor<f32>) -> tensor<4x800xf32>
  return %y : tensor<4x800xf32>
}

// -----

// Several results in one pass.
// CHECK-LABEL: func.func @two(
// CHECK: vector.load
// CHECK-NOT: vector.load
// CHECK: vector.store
// CHECK: vector.store
func.func @two(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) attributes {exec.kernel} {
  %y = nn.mul %x, %x : tensor<64xf32>
  %z = nn.add %y, %x : tensor<64xf32>
  return %y, %z : tensor<64xf32>, tensor<64xf32>
}

// -----

// Rows are items. The exponentials are computed once and kept on the stack.
// CHECK-LABEL: func.func @softmax(
// CHECK-SAME: exec.extent = 32 : i64
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<64xf32>
// CHECK: arith.maximumf
// CHECK-COUNT-4: math.exp {{.*}} vector<16xf32>
// CHECK-NOT: math.exp
// CHECK: return
func.func @softmax(%x: tensor<4x8x64xf32>) -> tensor<4x8x64xf32> attributes {exec.kernel} {
  %y = nn.softmax %x dim 2 : tensor<4x8x64xf32>
  return %y : tensor<4x8x64xf32>
}

// -----

// Blocks of columns are items; a sum is taken in stretches of 64 rows.
// CHECK-LABEL: func.func @columns(
// CHECK-SAME: exec.extent = 12 : i64
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (vector<64xf32>)
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> (vector<64xf32>)
func.func @columns(%x: tensor<1024x768xf32>) -> tensor<768xf32> attributes {exec.kernel} {
  %y = nn.reduce sum %x dims [0] : (tensor<1024x768xf32>) -> tensor<768xf32>
  return %y : tensor<768xf32>
}

// -----

// Reductions that do not depend on each other share a loop, in which four vectors
// of a row go to accumulators of their own.
// CHECK-LABEL: func.func @statistics(
// CHECK: scf.for
// CHECK: scf.for {{.*}} to %c64{{.*}} step %c64
// CHECK-COUNT-4: vector.load
// CHECK-NOT: scf.for
func.func @statistics(%x: tensor<8x64xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {exec.kernel} {
  %y = nn.reduce sum %x dims [1] : (tensor<8x64xf32>) -> tensor<8xf32>
  %z = nn.reduce max %x dims [1] : (tensor<8x64xf32>) -> tensor<8xf32>
  return %y, %z : tensor<8xf32>, tensor<8xf32>
}

// -----

// A loop over a concatenation is cut where its parts meet: no test is left.
// CHECK-LABEL: func.func @parts(
// CHECK-NOT: arith.select
// CHECK: return
func.func @parts(%a: tensor<4x16xf32>, %b: tensor<4x32xf32>) -> tensor<4x48xf32> attributes {exec.kernel} {
  %y = nn.concatenate %a, %b dim 1 : (tensor<4x16xf32>, tensor<4x32xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// An i1 is a byte in memory; a dense constant is a global.
// CHECK: memref.global "private" constant @mask_constant
// CHECK-LABEL: func.func @mask(
// CHECK-SAME: memref<5xi8>
func.func @mask(%x: tensor<5xi1>) -> tensor<5xi1> attributes {exec.kernel} {
  %c = nn.constant dense<[true, false, false, true, true]> : tensor<5xi1>
  %y = nn.and %x, %c : tensor<5xi1>
  return %y : tensor<5xi1>
}

// -----

// Other functions stay.
// CHECK-LABEL: func.func @other(%{{.*}}: tensor<5xf32>) -> tensor<5xf32>
func.func @other(%x: tensor<5xf32>) -> tensor<5xf32> {
  %y = nn.add %x, %x : tensor<5xf32>
  return %y : tensor<5xf32>
}

// -----

// Rows of a large result go past the caches, from a whole line of it on (here in
// another place than the operand), and the next row is fetched in the last two
// passes over one.
// CHECK-LABEL: func.func @large_rows(
// CHECK: memref.extract_aligned_pointer_as_index
// CHECK: memref.prefetch
// CHECK: memref.prefetch
// CHECK: scf.if
// CHECK: vector.store {{.*}} {alignment = 64 : i64, nontemporal = true}
// CHECK: } else {
// CHECK: vector.store
// CHECK-NOT: nontemporal
// CHECK: return
func.func @large_rows(%x: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> attributes {exec.kernel} {
  %y = nn.softmax %x dim 1 : tensor<4096x1024xf32>
  return %y : tensor<4096x1024xf32>
}

// -----

// So does the only result of an elementwise kernel; one with several, such as an
// optimizer that works in place, stores as usual.
// CHECK-LABEL: func.func @large(
// CHECK: vector.store {{.*}} {alignment = 64 : i64, nontemporal = true}
// CHECK: return
func.func @large(%x: tensor<4096x1024xf32>, %y: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> attributes {exec.kernel} {
  %0 = nn.add %x, %y : tensor<4096x1024xf32>
  return %0 : tensor<4096x1024xf32>
}

// CHECK-LABEL: func.func @large_two(
// CHECK-NOT: nontemporal
// CHECK: return
func.func @large_two(%x: tensor<4096x1024xf32>, %y: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>, tensor<4096x1024xf32>) attributes {exec.kernel} {
  %0 = nn.add %x, %y : tensor<4096x1024xf32>
  %1 = nn.mul %x, %y : tensor<4096x1024xf32>
  return %0, %1 : tensor<4096x1024xf32>, tensor<4096x1024xf32>
}

// -----

// A smaller one is left where the next kernel finds it.
// CHECK-LABEL: func.func @small_rows(
// CHECK-NOT: nontemporal
// CHECK: return
func.func @small_rows(%x: tensor<2048x1024xf32>) -> tensor<2048x1024xf32> attributes {exec.kernel} {
  %y = nn.softmax %x dim 1 : tensor<2048x1024xf32>
  return %y : tensor<2048x1024xf32>
}

// -----

// Cross entropy and its gradient: the exponentials are computed once, in the pass that
// sums them, and kept; the gradient has them times a number for each row.
// CHECK-LABEL: func.func @loss_and_gradient(
// CHECK: %[[KEPT:.+]] = memref.alloca() {alignment = 64 : i64} : memref<512xf32>
// CHECK: arith.maximumf
// CHECK: math.exp {{.*}} : vector<16xf32>
// CHECK: vector.store %{{.+}}, %[[KEPT]]
// CHECK: math.exp %{{.+}} : f32
// CHECK-NOT: math.exp
// CHECK: vector.load %[[KEPT]]
// CHECK-NOT: math.exp
// CHECK: return
func.func @loss_and_gradient(%x: tensor<64x512xf32>, %t: tensor<64xi32>, %g: tensor<64xf32>)
    -> (tensor<64xf32>, tensor<64x512xf32>) attributes {exec.kernel} {
  %l, %e = nn.cross_entropy %x, %t : (tensor<64x512xf32>, tensor<64xi32>) -> (tensor<64xf32>, tensor<64xf32>)
  %d = nn.cross_entropy_grad %x, %t, %e grad %g : (tensor<64x512xf32>, tensor<64xi32>, tensor<64xf32>, tensor<64xf32>) -> tensor<64x512xf32>
  return %l, %d : tensor<64xf32>, tensor<64x512xf32>
}

// -----

// Sums of blocks of rows: an item goes through its rows as they lie, two at a time, the
// sums in the result, and fetches the next two.
// CHECK-LABEL: func.func @sum_blocks(
// CHECK-SAME: exec.extent = 32 : i64
// CHECK: scf.for
// CHECK: scf.for {{.*}} {
// CHECK-COUNT-2: memref.prefetch
// CHECK-COUNT-2: arith.addf {{.*}} : vector<16xf32>
// CHECK: vector.store
// CHECK: scf.for
// CHECK: scf.for
// CHECK: vector.load
// CHECK-COUNT-2: arith.addf {{.*}} : vector<16xf32>
// CHECK: vector.store
// CHECK: return
func.func @sum_blocks(%x: tensor<32x16x128xf32>) -> tensor<32x128xf32> attributes {exec.kernel} {
  %y = nn.reduce sum %x dims [1] : (tensor<32x16x128xf32>) -> tensor<32x128xf32>
  return %y : tensor<32x128xf32>
}

// -----

// Memory rests while the largest is found, and brings the next row while
// exponentials are computed.
// CHECK-LABEL: func.func @loss(
// CHECK: scf.for
// CHECK: scf.for
// CHECK-NOT: memref.prefetch
// CHECK: arith.cmpf ogt
// CHECK: memref.prefetch
// CHECK: math.exp
func.func @loss(%x: tensor<64x512xf32>, %t: tensor<64xi32>)
    -> (tensor<64xf32>, tensor<64xf32>) attributes {exec.kernel} {
  %l, %e = nn.cross_entropy %x, %t
      : (tensor<64x512xf32>, tensor<64xi32>) -> (tensor<64xf32>, tensor<64xf32>)
  return %l, %e : tensor<64xf32>, tensor<64xf32>
}

// -----

// With registers of 32 bytes four chains of an exponential alternate.
// CHECK-LABEL: func.func @long(
// CHECK: math.exp {{.*}} : vector<16xf32>
// SHORT-LABEL: func.func @long(
// SHORT: math.exp {{.*}} : vector<32xf32>
func.func @long(%x: tensor<4x800xf32>) -> tensor<4x800xf32> attributes {exec.kernel} {
  %y = nn.gelu_tanh %x : tensor<4x800xf32>
  return %y : tensor<4x800xf32>
}
