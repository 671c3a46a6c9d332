// RUN: not sheaf-opt %s --split-input-file --dist-check-rules --mlir-print-op-on-diagnostic=false -o /dev/null 2>&1 | FileCheck %s
// RUN: not sheaf-opt %s --split-input-file --dist-check-rules=complete=nn --mlir-print-op-on-diagnostic=false -o /dev/null 2>&1 | FileCheck %s --check-prefix=COMPLETE
// RUN: echo "module {}" | not sheaf-opt --dist-check-rules=complete=mm 2>&1 | FileCheck %s --check-prefix=DIALECT
// COMPLETE: error: nn.abs has a rule and is not in the module, expected one to check
// DIALECT: dist-check-rules: there is no dialect 'mm'

// A rule that holds: padded and empty shards, shards of one, two axes of the mesh.
// CHECK: remark: rules of 2 ops hold in {{[1-9][0-9]}} shardings
func.func @right(%x: tensor<4x6xf32>) -> tensor<4xf32> {
  %e = nn.exp %x : tensor<4x6xf32>
  %y = nn.reduce max %e dims [1] : (tensor<4x6xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A maximum is no sum.
// CHECK: check-rules.mlir:[[@LINE+3]]:8: error: nn.reduce gives something else sharded, b over x = 2 (operands [{}, {"x"}]), on device 0: result 0 at [0] is {{.*}}, expected
// CHECK: check-rules.mlir:[[@LINE+2]]:8: note: its rule is [a][b] -> [a] {a=4, b=6 sum}
func.func @sum(%x: tensor<4x6xf32>) -> tensor<4xf32> {
  %y = nn.reduce max %x dims [1] {nn.rule = "[a][b] -> [a] {a=4, b=6 sum}"} : (tensor<4x6xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Rows that are normalised cannot be cut.
// CHECK: error: nn.softmax gives something else sharded, b over x = 2
func.func @whole(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %y = nn.softmax %x dim 1 {nn.rule = "[a][b] -> [a][b] {a=4, b=6}"} : tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// Dimensions of one size are not yet the same dimension.
// CHECK: error: nn.transpose cannot be computed sharded, a over x = 2 (operands [{"x"}, {}])
func.func @crossed(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = nn.transpose %x [1, 0] {nn.rule = "[a][b] -> [a][b] {a=4, b=4}"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// Not linear.
// CHECK: error: nn.exp gives something else where the sum over operands 0 is taken behind it
func.func @linear(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nn.exp %x {nn.rule = "[a] -> [a] {a=4} linear joint(0)"} : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Falls where its operand grows.
// CHECK: error: nn.neg gives something else where the maximum over operands 0 is taken behind it
func.func @monotone(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nn.neg %x {nn.rule = "[a] -> [a] {a=4} monotone(0)"} : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// CHECK: remark: nn.exp is not checked: it loops over more than 131072 elements; write it smaller
func.func @large(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
  %y = nn.exp %x : tensor<1024x1024xf32>
  return %y : tensor<1024x1024xf32>
}
