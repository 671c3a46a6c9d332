// RUN: not sheaf-opt %s --pipe-schedule="ranks=2 pipeline=1f1c" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not sheaf-opt %s --pipe-schedule="ranks=3" 2>&1 | FileCheck %s --check-prefix=RANKS
// RUN: not sheaf-opt %s --pipe-schedule="ranks=1 microbatches=8 pipeline=zb-h1" 2>&1 | FileCheck %s --check-prefix=STAGES
// RUN: not sheaf-opt %s --pipe-schedule="ranks=1 microbatches=1 pipeline=dualpipev" 2>&1 | FileCheck %s --check-prefix=DUAL
// RUN: not sheaf-opt %s --pipe-schedule="ranks=2 microbatches=2 pipeline=greedy memory-limit=10" 2>&1 | FileCheck %s --check-prefix=GREEDY
// RUN: not sheaf-opt %s --pipe-schedule="pipeline=file:%t.none" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: echo 'r0: 0F0 0B0' > %t.one
// RUN: not sheaf-opt %s --pipe-schedule="pipeline=file:%t.one" 2>&1 | FileCheck %s --check-prefix=ONE
// RUN: echo 'r0: F0 B0 F1 B1' > %t.circle && echo 'r1: F0 F1 B0 B1' >> %t.circle
// RUN: not sheaf-opt %s --pipe-schedule="pipeline=file:%t.circle" 2>&1 | FileCheck %s --check-prefix=CIRCLE
// RUN: echo 'r0: F0 G0' > %t.word
// RUN: not sheaf-opt %s --pipe-schedule="pipeline=file:%t.word" 2>&1 | FileCheck %s --check-prefix=WORD

// NAME: schedule-errors.mlir:[[# @LINE + 11]]:1: error: 'pipe.pipeline' op unknown schedule '1f1c', expected '1f1b'
// RANKS: error: 'pipe.pipeline' op has 2 stages for 3 ranks and 1 microbatches, expected a multiple of the ranks, and between 1 and 1048576 of each
// STAGES: error: 'pipe.pipeline' op has 2 stages, expected 1 for zb-h1 on 1 ranks
// DUAL: error: 'pipe.pipeline' op dualpipev is not defined for 1 microbatches on 1 ranks, expected at least 2, twice the ranks
// GREEDY: error: 'pipe.pipeline' op no schedule of 2 stages on 2 ranks keeps to 10 bytes a rank, expected a limit of at least 256
// NONE: error: 'pipe.pipeline' op cannot read '{{.*}}.none': No such file or directory
// ONE: error: 'pipe.pipeline' op cannot have this schedule: {{.*}}.one: error: the schedule has 1 stages, expected 2
// CIRCLE: error: 'pipe.pipeline' op cannot have this schedule: {{.*}}.circle:1:8: error: the order cannot run: actions wait for each other in a circle, expected every action behind what it reads
// CIRCLE: {{.*}}.circle:1:8: note: '0B0' reads what rank 1 computes behind '1F1'
// WORD: error: 'pipe.pipeline' op {{.*}}.word:1:8: unknown action 'G0'

pipe.pipeline @model {
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.stage forward 1.0 input_gradient 1.0 weight_gradient 1.0
  pipe.value F 0 to [#pipe.use<F 1>] : tensor<4x8xf32>
  pipe.value I 1 to [#pipe.use<I 0>] : tensor<4x8xf32>
}
