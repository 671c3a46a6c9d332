// RUN: not sheaf-opt %s --exec-start-early=kinds=permutes 2>&1 | FileCheck %s
// CHECK: error: exec-start-early: option 'kinds' has 'permutes', expected all_reduce, all_gather, reduce_scatter, all_to_all, permute or broadcast
module {}
