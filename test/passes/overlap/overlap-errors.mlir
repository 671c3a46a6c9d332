// RUN: not sheaf-opt %s --exec-overlap=kinds=permutes 2>&1 | FileCheck %s
// CHECK: error: exec-overlap: option 'kinds' has 'permutes', expected all_reduce, all_gather, reduce_scatter, all_to_all, permute or broadcast
module {}
// RUN: not sheaf-opt %s --exec-overlap=ahead=-1 2>&1 | FileCheck %s --check-prefix=AHEAD
// AHEAD: error: exec-overlap: option 'ahead' is -1, expected at least 0
// RUN: not sheaf-opt %s --exec-overlap=memory=-5 2>&1 | FileCheck %s --check-prefix=MEMORY
// MEMORY: error: exec-overlap: option 'memory' is -5, expected at least 0
