// RUN: sheaf-opt %s --dist-propagate=why=%%sum -o /dev/null | FileCheck %s --check-prefix=SUM
// RUN: sheaf-opt %s --dist-propagate=why=@f:%%b -o /dev/null | FileCheck %s --check-prefix=ARGUMENT
// RUN: sheaf-opt %s --dist-propagate=why=weight -o /dev/null | FileCheck %s --check-prefix=PARAMETER
// RUN: sheaf-opt %s --dist-propagate=why=%%alone -o /dev/null | FileCheck %s --check-prefix=ALONE
// RUN: sheaf-opt %s --dist-propagate=why=45 -o /dev/null | FileCheck %s --check-prefix=SUM
// RUN: sheaf-opt %s --dist-propagate=why=why.mlir:45:10 -o /dev/null | FileCheck %s --check-prefix=SUM
// RUN: not sheaf-opt %s --dist-propagate=why=%%sun -o /dev/null 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not sheaf-opt %s --dist-propagate=why=@f:weigth -o /dev/null 2>&1 | FileCheck %s --check-prefix=NEAR
// RUN: sheaf-opt %s --dist-propagate=origins=true | FileCheck %s --check-prefix=ORIGINS
// RUN: sheaf-opt %s --dist-propagate=origins=true --dist-partition | FileCheck %s --check-prefix=PARTITION

// Each axis, step by step, up to what a user wrote.
// SUM: nn.add at {{.*}}why.mlir:45:10 in @f, tensor<4x8xf32>
// SUM-NEXT: over dp:
// SUM-NEXT: through nn.add at {{.*}}:45:10 from nn.exp at {{.*}}:44:8 in @f
// SUM-NEXT: through nn.exp at {{.*}}:44:8 from argument 0 of @f at {{.*}}:41:14
// SUM-NEXT: because of the user's batch
// SUM-NEXT: over tp:
// SUM-NEXT: through nn.add at {{.*}}:45:10 from argument 1 of @f at {{.*}}:41:
// SUM-NEXT: because of the sharding of argument 1 of @f at {{.*}}:41:

// ARGUMENT: argument 1 of @f at {{.*}}, tensor<8xf32>
// ARGUMENT-NEXT: over tp:
// ARGUMENT-NEXT: because of the sharding of argument 1 of @f
// PARAMETER: argument 2 of @f, parameter "weight" at
// PARAMETER-NEXT: whole on every device: no sharding reaches it
// ALONE: nn.exp at {{.*}}, tensor<8x8xf32>
// ALONE-NEXT: whole on every device
// NONE: error: nothing is named '%sun'; expected %name or @function:%name as in the file, a parameter, the role of a batch argument, LINE or FILE:LINE; the nearest name is '%sum'
// NEAR: the nearest name is 'weight'

// As attributes, for partitioning; which takes them off.
// ORIGINS: module attributes {dist.annotations = ["the user's batch", "the sharding of argument 1 of @f at {{.*}}"]}
// ORIGINS: nn.add {{.*}} {dist.origins = array<i32: 0, 1>
// PARTITION-NOT: dist.annotations
// PARTITION-NOT: dist.origins
// PARTITION-NOT: dist.because

dist.mesh @mesh ["dp" = 2, "tp" = 2]

func.func @f(%a: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}]>, dist.because = {dp = "the user's batch"}}, %b: tensor<8xf32> {dist.sharding = #dist.sharding<[{"tp"}]>},
             %w: tensor<8x8xf32> {nn.param = #nn.param<"weight", axes = [embed, mlp], init = constant(0)>})
    -> (tensor<4x8xf32>, tensor<8x8xf32>) {
  %x = nn.exp %a : tensor<4x8xf32>
  %sum = nn.add %x, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %alone = nn.exp %w : tensor<8x8xf32>
  return %sum, %alone : tensor<4x8xf32>, tensor<8x8xf32>
}
