// RUN: sheaf-opt %s | sheaf-opt | FileCheck %s

// Device order; a link that nobody described.
// CHECK: dist.mesh @line ["x" = 4] devices [0, 2, 1, 3]
dist.mesh @line ["x" = 4] devices [0, 2, 1, 3]
