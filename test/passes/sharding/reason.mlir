// RUN: sheaf-opt %s --dist-propagate --dist-partition --dist-explain=function=f -o /dev/null | FileCheck %s
// RUN: sed -e '/dist.constraint/d' -e 's/%%whole/%%x/' %s > %t.mlir
// RUN: sheaf-opt %t.mlir --dist-propagate --dist-partition --dist-explain=function=f -o /dev/null | FileCheck %s --check-prefix=WITHOUT

// Without the annotation that a collective names, there is no collective.
// CHECK: "kind": "all-gather"
// CHECK: "text": "the user wants it whole"
// WITHOUT: []

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>}) -> tensor<4x8xf32> {
  %whole = dist.constraint %x <[{}, {}]> because "the user wants it whole" : tensor<4x8xf32>
  %y = nn.exp %whole : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
