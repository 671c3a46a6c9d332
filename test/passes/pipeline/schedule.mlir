// RUN: sheaf-opt %s --pipe-schedule="ranks=2 microbatches=2" | FileCheck %s
// RUN: sheaf-opt %s --pipe-schedule="ranks=1 microbatches=1 pipeline=interleaved" | FileCheck %s --check-prefix=ONE
// RUN: sheaf-opt %s --pipe-schedule="ranks=1 microbatches=1 pipeline=bfs" --pipe-schedule="ranks=2 microbatches=1 pipeline=zb-h1" | FileCheck %s --check-prefix=TWICE
// RUN: sheaf-opt %s --pipe-schedule="ranks=2 microbatches=2 pipeline=greedy memory-limit=300" | FileCheck %s --check-prefix=GREEDY
// RUN: sheaf-schedule --pipeline=gpipe --ranks=2 --microbatches=2 -o %t.txt
// RUN: sheaf-opt %s --pipe-schedule="pipeline=file:%t.txt" | FileCheck %s --check-prefix=FILE

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<F 1>] : tensor<4x8xf32>
  pipe.value I 1 to [#pipe.use<I 0>] : tensor<4x8xf32>
}

// CHECK: pipe.pipeline @model
// CHECK: pipe.schedule @model_schedule of @model microbatches 2 {
// CHECK-NEXT: pipe.rank stages [0] {
// CHECK-NEXT: pipe.compute F 0 microbatch 0 () : () -> ()
// CHECK-NEXT: pipe.compute F 0 microbatch 1 () : () -> ()
// CHECK-NEXT: pipe.compute B 0 microbatch 0 () : () -> ()
// CHECK-NEXT: pipe.compute B 0 microbatch 1 () : () -> ()
// CHECK: pipe.rank stages [1] {
// CHECK-NEXT: pipe.compute F 1 microbatch 0 () : () -> ()
// CHECK-NEXT: pipe.compute B 1 microbatch 0 () : () -> ()

// Both stages on one rank.
// ONE: pipe.rank stages [0, 1] {
// ONE-NEXT: pipe.compute F 0 microbatch 0
// ONE-NEXT: pipe.compute F 1 microbatch 0
// ONE-NEXT: pipe.compute B 1 microbatch 0
// ONE-NEXT: pipe.compute B 0 microbatch 0

// A second schedule takes the place of the first.
// TWICE: pipe.schedule @model_schedule of @model microbatches 1
// TWICE: pipe.compute I 0 microbatch 0
// TWICE-NOT: pipe.schedule

// GREEDY: pipe.schedule @model_schedule of @model microbatches 2
// GREEDY: pipe.rank stages [1] {
// GREEDY-NEXT: pipe.compute F 1 microbatch 0

// FILE: pipe.rank stages [1] {
// FILE-NEXT: pipe.compute F 1 microbatch 0
// FILE-NEXT: pipe.compute F 1 microbatch 1
// FILE-NEXT: pipe.compute B 1 microbatch 0
