// Every option of mlir-opt does here what it does there.
// RUN: rm -rf %t && mkdir %t

// Help lists what one needs; the other passes and options are there.
// RUN: sheaf-opt --help | FileCheck %s --check-prefix=HELP
// HELP-NOT: --x86-
// HELP-NOT: --amdgpu-
// HELP-NOT: --convert-scf-to-cf
// HELP: --nn-fuse
// HELP: --load-dialect-plugin
// HELP: --remarks-filter
// RUN: sheaf-opt --help-list | FileCheck %s --check-prefix=LIST
// LIST: --nn-fuse
// RUN: sheaf-opt --help-hidden | FileCheck %s --check-prefix=HIDDEN
// HIDDEN-DAG: --convert-scf-to-cf
// HIDDEN-DAG: --amdgpu-use-aa-in-codegen
// RUN: sheaf-opt --list-passes | FileCheck %s --check-prefix=PASSES
// PASSES-DAG: --convert-scf-to-cf
// PASSES-DAG: --nn-fuse
// RUN: sheaf-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS
// DIALECTS: affine,{{.*}}dist,{{.*}}exec,{{.*}}nn,
// RUN: sheaf-opt --version | FileCheck %s --check-prefix=VERSION
// VERSION: sheaf {{.*}} (MLIR 22.1

// Each option that help lists is compared with mlir-opt's, or in this file. Another one, as of a
// library that came along, is in neither.
// RUN: %python %S/Inputs/same.py %sheaf_bin/sheaf-opt mlir-opt %s %S/plugins.test | FileCheck %s --check-prefix=SAME
// SAME-NOT: BAD
// SAME: {{[6-9][0-9]}} options, {{[4-9][0-9]}} compared, 0 bad

// Bytecode, in and out, of a chosen version.
// RUN: sheaf-opt %s --emit-bytecode -o %t/bytecode
// RUN: sheaf-opt %t/bytecode | FileCheck %s --check-prefix=IR
// RUN: sheaf-opt %s --emit-bytecode --emit-bytecode-version=6 -o %t/bytecode6
// RUN: sheaf-opt %t/bytecode6 | FileCheck %s --check-prefix=IR
// IR: func.func @f(
// IR: nn.relu

// Timing, statistics of ops, the pipeline.
// RUN: sheaf-opt %s --cse --canonicalize --mlir-timing --mlir-timing-display=list -o %t/out 2>&1 | FileCheck %s --check-prefix=TIMING
// TIMING-DAG: CSE
// TIMING-DAG: Canonicalizer
// TIMING-DAG: Total
// RUN: sheaf-opt %s --cse --mlir-timing --mlir-output-format=json -o %t/out 2>&1 | FileCheck %s --check-prefix=JSON
// JSON: "name": "CSE"
// RUN: sheaf-opt %s --print-op-stats -o %t/out 2>&1 | FileCheck %s --check-prefix=STATS
// STATS: nn.relu , 1
// RUN: sheaf-opt %s --cse --mlir-pass-statistics -o %t/out 2>&1 | FileCheck %s --check-prefix=STATISTICS
// STATISTICS: Pass statistics report
// RUN: sheaf-opt %s --pass-pipeline='builtin.module(func.func(cse,nn-decompose),symbol-dce)' --dump-pass-pipeline -o %t/out 2>&1 | FileCheck %s --check-prefix=PIPELINE
// PIPELINE: func.func(
// PIPELINE-NEXT: cse
// PIPELINE-NEXT: nn-decompose

// IR before and after passes.
// RUN: sheaf-opt %s --cse --nn-decompose --mlir-print-ir-after=nn-decompose --mlir-print-ir-before=cse -o %t/out 2>&1 | FileCheck %s --check-prefix=PRINT
// PRINT: IR Dump Before CSE
// PRINT: IR Dump After {{.*}}Decompose
// RUN: sheaf-opt %s --cse --nn-decompose --mlir-print-ir-after-all --mlir-print-ir-after-change --mlir-print-ir-tree-dir=%t/tree -o %t/out
// RUN: ls %t/tree/* | FileCheck %s --check-prefix=TREE
// TREE-NOT: cse
// TREE: nn-decompose.mlir

// Action traces and profiles, debug counters.
// RUN: sheaf-opt %s --nn-decompose --mlir-disable-threading --log-actions-to=%t/actions -o %t/out
// RUN: FileCheck %s --check-prefix=ACTIONS < %t/actions
// ACTIONS: `pass-execution` running `{{.*}}Decompose
// RUN: sheaf-opt %s --cse --profile-actions-to=%t/profile -o %t/out
// RUN: FileCheck %s --check-prefix=PROFILE < %t/profile
// PROFILE: "name": "pass-execution"
// RUN: sheaf-opt %s --cse --nn-decompose --mlir-disable-threading --mlir-debug-counter=pass-execution-skip=0,pass-execution-count=1 --mlir-print-debug-counter -o %t/counted 2>&1 | FileCheck %s --check-prefix=COUNTER
// RUN: FileCheck %s --check-prefix=IR < %t/counted
// COUNTER: pass-execution{{ *}}: {2,0,1}

// Remarks of our passes, as diagnostics and as the YAML of opt-viewer.
// RUN: sheaf-opt %s --pass-pipeline='builtin.module(func.func(nn-fuse))' --remarks-filter=.* -o %t/out 2>&1 | FileCheck %s --check-prefix=REMARK
// REMARK: remark: [Analysis] fused | Category:fusion
// RUN: sheaf-opt %s --pass-pipeline='builtin.module(func.func(nn-fuse))' --remarks-filter=fusion --remark-format=yaml --remarks-output-file=%t/remarks.yaml -o %t/out
// RUN: FileCheck %s --check-prefix=YAML < %t/remarks.yaml
// YAML: --- !Analysis
// YAML: Pass: {{ *}}fusion
// Those of one kind alone: `fused` is an analysis, and nothing else is said here.
// RUN: sheaf-opt %s --pass-pipeline='builtin.module(func.func(nn-fuse))' --remarks-filter-analyse=fusion --remark-policy=final -o %t/out 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: sheaf-opt %s --pass-pipeline='builtin.module(func.func(nn-fuse))' --remarks-filter-missed=fusion -o %t/out 2>&1 | count 0
// RUN: sheaf-opt %s --pass-pipeline='builtin.module(func.func(nn-fuse))' --remarks-filter-failed=fusion -o %t/out 2>&1 | count 0
// RUN: sheaf-opt %s --pass-pipeline='builtin.module(func.func(nn-fuse))' --remarks-filter-passed=fusion -o %t/out 2>&1 | count 0

// How much is said.
// RUN: sheaf-opt %s --nn-print-rules -o %t/out 2>&1 | FileCheck %s --check-prefix=RULES
// RULES: remark: rule:
// RUN: sheaf-opt %s --nn-print-rules --mlir-diagnostic-verbosity-level=errors -o %t/out 2>&1 | count 0

// Reproducers: without a failure, and of one, run again.
// RUN: sheaf-opt %s --nn-decompose --mlir-generate-reproducer=%t/reproducer.mlir -o %t/out
// RUN: sheaf-opt %t/reproducer.mlir --run-reproducer | FileCheck %s --check-prefix=DECOMPOSED
// DECOMPOSED: func.func @f(
// DECOMPOSED-NOT: nn.relu
// DECOMPOSED: nn.select
// RUN: not sheaf-opt %s --nn-differentiate=functions=none --mlir-pass-pipeline-crash-reproducer=%t/crash.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=CRASH
// CRASH: error: Failures have been detected while processing an MLIR pass pipeline
// RUN: not sheaf-opt %t/crash.mlir --run-reproducer 2>&1 | FileCheck %s --check-prefix=FAILED
// A local one starts where the pass that failed does.
// RUN: not sheaf-opt %s --cse --nn-differentiate=functions=none --mlir-disable-threading --mlir-pass-pipeline-crash-reproducer=%t/local.mlir --mlir-pass-pipeline-local-reproducer -o %t/out
// RUN: FileCheck %s --check-prefix=LOCAL < %t/local.mlir
// LOCAL: pipeline: "builtin.module(nn-differentiate{

// A graph for Graphviz.
// RUN: sheaf-opt %s --pass-pipeline='builtin.module(func.func(view-op-graph))' -o %t/out 2>&1 | FileCheck %s --check-prefix=GRAPH
// GRAPH: digraph G
// GRAPH: nn.relu

// A pass that fails is named, with its op.
// RUN: not sheaf-opt %s --nn-differentiate=functions=none 2>&1 | FileCheck %s --check-prefix=FAILED
// FAILED: error: nn-differentiate: option 'functions' names 'none'
// FAILED: sheaf-opt: the pass 'nn-differentiate' failed on 'builtin.module'
// RUN: not sheaf-opt %s --pass-pipeline='builtin.module(func.func(nn-decompose{ops=none}))' 2>&1 | FileCheck %s --check-prefix=NESTED
// NESTED: sheaf-opt: the pass 'nn-decompose' failed on 'func.func' @f

// Files that are not there.
// RUN: not sheaf-opt %t/missing.mlir 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: missing.mlir': No such file or directory
// RUN: not sheaf-opt %s -o %t/missing/out 2>&1 | FileCheck %s --check-prefix=OUTPUT
// OUTPUT: missing/out': No such file or directory

// Other ways to read and write.
// RUN: sheaf-opt %s --mlir-print-debuginfo --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// GENERIC: "nn.relu"(%{{.*}}) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc(
// RUN: sheaf-opt %s --split-input-file --verify-roundtrip | FileCheck %s --check-prefix=IR
// RUN: sheaf-opt %s --no-implicit-module --pass-pipeline='func.func(nn-decompose)' | FileCheck %s --check-prefix=DECOMPOSED

func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = nn.relu %x : tensor<4x8xf32>
  %z = nn.add %y, %x : tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}
