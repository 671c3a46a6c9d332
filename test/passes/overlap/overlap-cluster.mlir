// RUN: split-file %s %t
// RUN: sheaf-opt %t/in.mlir --exec-overlap=cluster=%t/fast.json | grep -v exec.buffer | FileCheck %t/in.mlir --check-prefix=FAST
// RUN: sheaf-opt %t/in.mlir --exec-overlap=cluster=%t/slow.json | grep -v exec.buffer | FileCheck %t/in.mlir --check-prefix=SLOW
// RUN: not sheaf-opt %t/in.mlir --exec-overlap=cluster=%t/none.json 2>&1 | FileCheck %t/in.mlir --check-prefix=NONE
// RUN: not sheaf-opt %t/in.mlir --exec-overlap=cluster=%t/short.json 2>&1 | FileCheck %t/in.mlir --check-prefix=SHORT

//--- fast.json
{"name": "fast",
 "device": {"name": "d", "memory_bytes": 1e9, "multiprocessors": 10,
   "memory": {"bytes_per_second": 1e9, "efficiency": 1},
   "products": {"f32": {"flops_per_second": 1e9, "efficiency": 1}},
   "attention": {"forward_efficiency": 1, "backward_efficiency": 1},
   "elementwise": {"flops_per_second": 1e12, "efficiency": 1},
   "launch_seconds": 0, "least_kernel_seconds": 1e-6, "issue_seconds": 0},
 "node": {"devices": 8},
 "communication": {"multiprocessors": 1, "transfers": [
   {"kinds": ["all-gather", "reduce-scatter", "all-reduce"], "members_per_node": 2, "nodes": 1,
    "bytes_per_second": 1e12, "latency_seconds": 0.5e-6}]}}
//--- slow.json
{"name": "slow",
 "device": {"name": "d", "memory_bytes": 1e9, "multiprocessors": 10,
   "memory": {"bytes_per_second": 1e9, "efficiency": 1},
   "products": {"f32": {"flops_per_second": 1e9, "efficiency": 1}},
   "attention": {"forward_efficiency": 1, "backward_efficiency": 1},
   "elementwise": {"flops_per_second": 1e12, "efficiency": 1},
   "launch_seconds": 0, "least_kernel_seconds": 1e-6, "issue_seconds": 0},
 "node": {"devices": 8},
 "communication": {"multiprocessors": 1, "transfers": [
   {"kinds": ["all-gather", "reduce-scatter", "all-reduce"], "members_per_node": 2, "nodes": 1,
    "bytes_per_second": 1e12, "latency_seconds": 1.9e-6}]}}
//--- short.json
{"name": "short", "device": {}}
//--- in.mlir
// NONE: error: exec-overlap: {{.*}}none.json
// SHORT: error: exec-overlap: {{.*}}short.json
func.func private @layer(%x: memref<16xf32>, %w: memref<64xf32>, %y: memref<16xf32>) attributes {exec.read_count = 2 : i64} {
  exec.copy reads(%x : memref<16xf32>) writes(%y : memref<16xf32>)
  return
}

// A layer takes a microsecond. What takes half of one starts one layer ahead, what takes two starts three ahead.
// FAST-LABEL: func.func @f
// FAST: exec.call
// FAST-NEXT: exec.call
// FAST-NEXT: exec.call
// FAST-NEXT: exec.collective all_gather
// FAST-NEXT: exec.call
// FAST-NEXT: exec.wait
// FAST-NEXT: exec.call
// SLOW-LABEL: func.func @f
// SLOW: exec.call
// SLOW-NEXT: exec.collective all_gather
// SLOW-NEXT: exec.call
// SLOW-NEXT: exec.call
// SLOW-NEXT: exec.call
// SLOW-NEXT: exec.wait
// SLOW-NEXT: exec.call
func.func @f(%x: memref<16xf32>, %s: memref<32xf32>, %w: memref<64xf32>, %y: memref<16xf32>)
    attributes {exec.entry = [["input", "x"], ["parameter", "s"], ["parameter", "w"], ["output", "y"]], exec.read_count = 3 : i64} {
  %a = exec.buffer : memref<16xf32>
  %b = exec.buffer : memref<16xf32>
  exec.call @layer reads(%x, %w : memref<16xf32>, memref<64xf32>) writes(%a : memref<16xf32>)
  exec.call @layer reads(%a, %w : memref<16xf32>, memref<64xf32>) writes(%b : memref<16xf32>)
  exec.call @layer reads(%b, %w : memref<16xf32>, memref<64xf32>) writes(%a : memref<16xf32>)
  exec.call @layer reads(%a, %w : memref<16xf32>, memref<64xf32>) writes(%b : memref<16xf32>)
  %g = exec.buffer : memref<64xf32>
  exec.collective all_gather reads(%s : memref<32xf32>) writes(%g : memref<64xf32>) sizes [2] strides [1]
  exec.call @layer reads(%b, %g : memref<16xf32>, memref<64xf32>) writes(%y : memref<16xf32>)
  return
}
