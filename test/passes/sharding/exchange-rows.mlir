// RUN: sheaf-opt %s --dist-exchange-rows --dist-verify | FileCheck %s

dist.mesh @mesh ["dp" = 4, "cp" = 2]

// Rows go to their experts and come back by count, and the counts are exchanged once.
// CHECK-LABEL: func.func @there_and_back(
//  CHECK-SAME: %[[ROWS:.*]]: tensor<2x12x8xf32>, %[[OFFSETS:.*]]: tensor<2x5xi32>)
//       CHECK: %[[BUCKET:.*]] = nn.bucket %[[ROWS]], %[[OFFSETS]]
//   CHECK-DAG: %[[END:.*]] = nn.slice %[[OFFSETS]] offsets [0, 1] sizes [2, 4] strides [1, 1]
//   CHECK-DAG: %[[BEGIN:.*]] = nn.slice %[[OFFSETS]] offsets [0, 0] sizes [2, 4] strides [1, 1]
//       CHECK: %[[EACH:.*]] = nn.sub %[[END]], %[[BEGIN]]
//       CHECK: %[[MOST:.*]] = nn.constant dense<6> : tensor<i32>
//       CHECK: %[[BOUND:.*]] = nn.min %[[EACH]], %[[MOST]]
//       CHECK: %[[COUNTS:.*]] = nn.transpose %[[BOUND]] [1, 0] {{.*}}: (tensor<2x4xi32>) -> tensor<4x2xi32>
//       CHECK: %[[COME:.*]] = dist.all_to_all %[[COUNTS]] split 0 concat 1 axes ["dp"]
//  CHECK-SAME: text = "rows go to their experts; how many rows there are, sent first"
//  CHECK-SAME: (tensor<4x2xi32>) -> tensor<1x8xi32>
//       CHECK: %[[THERE:.*]] = dist.exchange_rows %[[BUCKET]] counts %[[COUNTS]], %[[COME]] split 0 concat 1 axes ["dp"]
//  CHECK-SAME: text = "rows go to their experts; only rows that are there, at most these bytes"
//  CHECK-SAME: nn.role = "forward"
//       CHECK: %[[DONE:.*]] = nn.silu %[[THERE]]
//   CHECK-NOT: dist.all_to_all
//       CHECK: %[[BACK:.*]] = dist.exchange_rows %[[DONE]] counts %[[COME]], %[[COUNTS]] split 1 concat 0 axes ["dp"]
//       CHECK: nn.unbucket %[[BACK]], %[[OFFSETS]]
func.func @there_and_back(%x: tensor<2x12x8xf32>, %offsets: tensor<2x5xi32>) -> tensor<2x12x8xf32> {
  %b = nn.bucket %x, %offsets {nn.role = "forward"} : (tensor<2x12x8xf32>, tensor<2x5xi32>) -> tensor<4x2x6x8xf32>
  %t = dist.all_to_all %b split 0 concat 1 axes ["dp"] {nn.role = "forward", dist.reason = {kind = "annotation", text = "rows go to their experts"}}
    : (tensor<4x2x6x8xf32>) -> tensor<1x8x6x8xf32>
  %y = nn.silu %t : tensor<1x8x6x8xf32>
  %z = dist.all_to_all %y split 1 concat 0 axes ["dp"] {nn.role = "forward"} : (tensor<1x8x6x8xf32>) -> tensor<4x2x6x8xf32>
  %u = nn.unbucket %z, %offsets {nn.role = "forward"} : (tensor<4x2x6x8xf32>, tensor<2x5xi32>) -> tensor<2x12x8xf32>
  return %u : tensor<2x12x8xf32>
}

// Counts go the way of the rows where cp cuts the parts first.
// CHECK-LABEL: func.func @cut_first(
//       CHECK: %[[COUNTS:.*]] = nn.transpose
//       CHECK: %[[SENT:.*]] = dist.slice %[[COUNTS]] dim 0 axes ["cp"] : (tensor<4x2xi32>) -> tensor<2x2xi32>
//       CHECK: %[[PART:.*]] = dist.slice %{{.*}} dim 0 axes ["cp"] : (tensor<4x2x6x8xf32>) -> tensor<2x2x6x8xf32>
//       CHECK: %[[COME:.*]] = dist.all_to_all %[[SENT]] split 0 concat 1 axes ["dp":(2)2]
//       CHECK: dist.exchange_rows %[[PART]] counts %[[SENT]], %[[COME]] split 0 concat 1 axes ["dp":(2)2]
func.func @cut_first(%x: tensor<2x12x8xf32>, %offsets: tensor<2x5xi32>) -> tensor<1x4x6x8xf32> {
  %b = nn.bucket %x, %offsets : (tensor<2x12x8xf32>, tensor<2x5xi32>) -> tensor<4x2x6x8xf32>
  %s = dist.slice %b dim 0 axes ["cp"] : (tensor<4x2x6x8xf32>) -> tensor<2x2x6x8xf32>
  %t = dist.all_to_all %s split 0 concat 1 axes ["dp":(2)2] : (tensor<2x2x6x8xf32>) -> tensor<1x4x6x8xf32>
  return %t : tensor<1x4x6x8xf32>
}

// And back: those of all parts are here, those of this device's are sent. The offsets
// may be there later than the rows.
// CHECK-LABEL: func.func @gathered_last(
//       CHECK: %[[OFFSETS:.*]] = nn.add
//       CHECK: %[[ALL:.*]] = nn.transpose
//       CHECK: %[[MINE:.*]] = dist.slice %[[ALL]] dim 0 axes ["cp"] : (tensor<4x2xi32>) -> tensor<2x2xi32>
//       CHECK: %[[SENT:.*]] = dist.all_to_all %[[MINE]] split 0 concat 1 axes ["dp":(2)2] {{.*}} : (tensor<2x2xi32>) -> tensor<1x4xi32>
//       CHECK: %[[BACK:.*]] = dist.exchange_rows %{{.*}} counts %[[SENT]], %[[MINE]] split 1 concat 0 axes ["dp":(2)2]
//       CHECK: %[[WHOLE:.*]] = dist.all_gather %[[BACK]] dim 0 axes ["cp"]
//       CHECK: nn.unbucket %[[WHOLE]], %[[OFFSETS]]
func.func @gathered_last(%y: tensor<1x4x6x8xf32>, %offsets: tensor<2x5xi32>) -> tensor<2x12x8xf32> {
  %t = dist.all_to_all %y split 1 concat 0 axes ["dp":(2)2] : (tensor<1x4x6x8xf32>) -> tensor<2x2x6x8xf32>
  %g = dist.all_gather %t dim 0 axes ["cp"] : (tensor<2x2x6x8xf32>) -> tensor<4x2x6x8xf32>
  %o = nn.add %offsets, %offsets : tensor<2x5xi32>
  %u = nn.unbucket %g, %o : (tensor<4x2x6x8xf32>, tensor<2x5xi32>) -> tensor<2x12x8xf32>
  return %u : tensor<2x12x8xf32>
}

// Other rows, and other dimensions, are none of its business.
// CHECK-LABEL: func.func @others(
//       CHECK: dist.all_to_all %{{.*}} split 3 concat 1
//       CHECK: dist.all_to_all %arg0 split 0 concat 1
//   CHECK-NOT: dist.exchange_rows
//       CHECK: return
func.func @others(%x: tensor<4x2x6x8xf32>, %r: tensor<2x12x8xf32>, %offsets: tensor<2x5xi32>) -> (tensor<4x8x6x2xf32>, tensor<1x8x6x8xf32>) {
  %b = nn.bucket %r, %offsets : (tensor<2x12x8xf32>, tensor<2x5xi32>) -> tensor<4x2x6x8xf32>
  %s = dist.all_to_all %b split 3 concat 1 axes ["dp"] : (tensor<4x2x6x8xf32>) -> tensor<4x8x6x2xf32>
  %t = dist.all_to_all %x split 0 concat 1 axes ["dp"] : (tensor<4x2x6x8xf32>) -> tensor<1x8x6x8xf32>
  return %s, %t : tensor<4x8x6x2xf32>, tensor<1x8x6x8xf32>
}
