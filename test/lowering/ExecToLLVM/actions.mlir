// RUN: sheaf-opt %s --exec-to-llvm | FileCheck %s

// A call that is an action of a schedule stands between two marks, instruction 9: its number,
// and -1. Numbers are given in the order of the calls; one action may be two calls.
// CHECK: module attributes {exec.actions = ["0F0", "0B0"]
// CHECK-DAG: @program_step(dense<[9, 0, {{[0-9, ]*}}, 9, -1, 9, 1, {{[0-9, ]*}}, 9, -1, 9, 1, {{[0-9, ]*}}, 9, -1]>
func.func private @part(%y: memref<4xf32>) attributes {exec.scratch_bytes = 0 : i64} {
  return
}
func.func @step(%y: memref<4xf32>) attributes {exec.scratch_bytes = 64 : i64} {
  exec.call @part writes(%y : memref<4xf32>) scratch 0 {exec.action = "0F0"}
  exec.call @part writes(%y : memref<4xf32>) scratch 0 {exec.action = "0B0"}
  exec.call @part writes(%y : memref<4xf32>) scratch 0 {exec.action = "0B0"}
  return
}
