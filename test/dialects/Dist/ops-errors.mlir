// RUN: sheaf-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{axis "dp" has size 0, expected at least 1}}
dist.mesh @mesh ["dp" = 0]

// -----

// expected-error@+1 {{unknown link 'carrier', expected 'memory', 'nvlink', 'pcie', 'network' or 'link(bandwidth, latency)'}}
dist.mesh @mesh ["dp" = 2 carrier]

// -----

// expected-error@+1 {{a link needs a positive bandwidth and a latency of at least 0}}
dist.mesh @mesh ["dp" = 2 link(0.0, 1.0)]

// -----

// expected-error@+1 {{has two axes named "dp", expected each name once}}
dist.mesh @mesh ["dp" = 2, "dp" = 4]

// -----

// Infinite where it is computed with, and in no text that is read back.
// expected-error@+1 {{a link needs a positive bandwidth and a latency of at least 0, both finite}}
dist.mesh @mesh ["dp" = 2 link(1.0e400, 1.0)]

// -----

// expected-error@+1 {{has an axis named "", expected letters, digits and '_', as in "dp"}}
dist.mesh @mesh ["" = 2]

// -----

// No artifact has more ranks.
// expected-error@+1 {{has more than 1048576 devices}}
dist.mesh @mesh ["dp" = 1024, "tp" = 2048]

// -----

// What explanations write would be another axis, or two.
// expected-error@+1 {{has an axis named "dp:(1)2", expected letters, digits and '_', as in "dp"}}
dist.mesh @mesh ["dp" = 4, "dp:(1)2" = 2]

// -----

// expected-error@+1 {{lists 3 devices, its axes give 2; expected each rank from 0 to 1 once}}
dist.mesh @mesh ["dp" = 2] devices [0, 1, 2]

// -----

// expected-error@+1 {{lists device 1 twice, expected each rank from 0 to 1 once}}
dist.mesh @mesh ["dp" = 2] devices [1, 1]

// -----

// expected-note@+1 {{the first is here}}
dist.mesh @mesh ["dp" = 2]
// expected-error@+1 {{is the second mesh of the module, expected one}}
dist.mesh @other ["dp" = 2]

// -----

// expected-error@+1 {{needs a mesh, but the module has none; declare one with dist.mesh @mesh ["dp" = 2]}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<[{"dp"}]>}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 4]
// expected-error@+1 {{argument 0 uses axis "pp", which the mesh does not have; it has "dp", "tp"}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<[{"pp"}]>}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 4]
// expected-error@+1 {{argument 0 uses axis "dp" twice; leave one of the two out, or shard each by a part of the axis, as in "dp":(1)2 and "dp":(2)2}}
func.func @f(%x: tensor<4x4xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"dp"}]>}) {
  return
}

// -----

// A sub-axis and the axis that it is a part of.
dist.mesh @mesh ["dp" = 4]
// expected-error@+1 {{argument 0 uses axis "dp":(2)2 twice, the other time as "dp"}}
func.func @f(%x: tensor<4x4xf32> {dist.sharding = #dist.sharding<[{"dp"}, {"dp":(2)2}]>}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 4]
// expected-error@+1 {{argument 0 uses sub-axis "dp":(1)3 of an axis of size 4, which 1 times 3 does not divide}}
func.func @f(%x: tensor<4x4xf32> {dist.sharding = #dist.sharding<[{}, {"dp":(1)3}]>}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 4]
// expected-error@+1 {{argument 0 has a sharding of 1 dimensions, its type 'tensor<4x4xf32>' has 2}}
func.func @f(%x: tensor<4x4xf32> {dist.sharding = #dist.sharding<[{}]>}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 4]
// expected-error@+1 {{argument 0 has 3 blocks in dimension 0, whose size is 4}}
func.func @f(%x: tensor<4xf32> {dist.sharding = #dist.sharding<[{"dp"} blocks 3]>}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 4]
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{has 4 devices in a group and size 12 in dimension 0 of 'tensor<12xf32>', so a part has size 3, but 'tensor<4xf32>' has 4}}
  %0 = dist.all_gather %x dim 0 axes ["dp"] : (tensor<4xf32>) -> tensor<12xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 4]
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{needs 'tensor<4xf32>' to be partial over "dp"}}
  %0 = dist.all_reduce sum %x axes ["dp"] : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 4]
func.func @f(%x: tensor<4xf32, #dist.partial<["dp"], max>>) {
  // expected-error@+1 {{is a sum, but 'tensor<4xf32, #dist.partial<["dp"], max>>' is partial by max, expected one kind; reduce by that kind first}}
  %0 = dist.all_reduce sum %x axes ["dp"] : (tensor<4xf32, #dist.partial<["dp"], max>>) -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 4]
func.func @f(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{dim is 2, but 'tensor<4x4xf32>' has 2 dimensions}}
  %0 = dist.slice %x dim 2 axes ["dp"] : (tensor<4x4xf32>) -> tensor<4x1xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 4, "tp" = 2]
func.func @f(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{has dimension 0 in 4 parts before and 2 after, expected as many}}
  %0 = dist.permute %x from <[{"dp"}, {"tp"}]> to <[{"tp"}, {"dp"}]> : tensor<4x4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 4]
func.func @f(%x: tensor<4x4xf32>) {
  // expected-error@+1 {{asks for a partial value; a constraint is on a whole one}}
  %0 = dist.constraint %x <[{}, {}], sum {"dp"}> : tensor<4x4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2]
func.func @manual_count(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{has 1 inputs and 0 shardings for them, expected one for each}}
  dist.manual %x in [] out [] {
  ^bb0(%part: tensor<4x8xf32>):
    dist.yield
  } : (tensor<4x8xf32>) -> ()
  return
}

// -----

dist.mesh @mesh ["tp" = 2]
func.func @manual_part(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{has a body whose argument 0 is 'tensor<4x8xf32>', expected a device's part of 'tensor<4x8xf32>', 'tensor<4x4xf32>'}}
  dist.manual %x in [#dist.sharding<[{}, {"tp"}]>] out [] {
  ^bb0(%part: tensor<4x8xf32>):
    dist.yield
  } : (tensor<4x8xf32>) -> ()
  return
}

// -----

// expected-error@+1 {{dist.annotations must be an array of strings, each an annotation}}
module attributes {dist.annotations = ["the user's batch", 1]} {}

// -----

// expected-error@+1 {{dist.annotations must be an array of strings, each an annotation}}
module attributes {dist.annotations = "the user's batch"} {}

// -----

func.func @conflicts(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{dist.conflicts must be an array of conflicts, each a dictionary of `candidates` (dictionaries of `what`, a string, and `seconds`, a float or absent), `choice` (the i64 number of one of them) and `by` (a string)}}
  %y = nn.neg %x {dist.conflicts = 1 : i64} : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @conflict_no_dictionary(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{dist.conflicts must be an array of conflicts}}
  %y = nn.neg %x {dist.conflicts = ["x"]} : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @conflict_lacks(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{dist.conflicts must be an array of conflicts}}
  %y = nn.neg %x {dist.conflicts = [{by = "cost", choice = 0 : i64}]} : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @conflict_candidate(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{dist.conflicts must be an array of conflicts}}
  %y = nn.neg %x {dist.conflicts = [{by = "cost", candidates = [{seconds = 1.0}], choice = 0 : i64}]} : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

func.func @conflict_choice(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{dist.conflicts must be an array of conflicts}}
  %y = nn.neg %x {dist.conflicts = [{by = "cost", candidates = [{what = "a"}], choice = 1 : i64}]} : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

dist.mesh @mesh ["tp" = 2]
func.func @manual_partial(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{has a body whose yielded value 0 is 'tensor<4xf32, #dist.partial<["tp"], sum>>', expected a device's part of 'tensor<4xf32>', 'tensor<4xf32>'; reduce it first, for instance by dist.all_reduce}}
  %y = dist.manual %x in [#dist.sharding<[{}, {"tp"}]>] out [#dist.sharding<[{}]>] {
  ^bb0(%part: tensor<4x4xf32>):
    %0 = nn.reduce sum %part dims [1] : (tensor<4x4xf32>) -> tensor<4xf32, #dist.partial<["tp"], sum>>
    dist.yield %0 : tensor<4xf32, #dist.partial<["tp"], sum>>
  } : (tensor<4x8xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

dist.mesh @mesh ["tp" = 2]
func.func @manual_axis(%x: tensor<8xf32>) {
  // expected-error@+1 {{input 0 uses axis "dp", which the mesh does not have; it has "tp"}}
  dist.manual %x in [#dist.sharding<[{"dp"}]>] out [] {
  ^bb0(%part: tensor<4xf32>):
    dist.yield
  } : (tensor<8xf32>) -> ()
  return
}

// -----

// What a sharding is written for is whole or in shards: a parameter, first of all.
dist.mesh @mesh ["dp" = 2, "tp" = 2]
// expected-error@+1 {{argument 0 has a sharding that is partial (sum over "tp"), expected one that is not: a parameter, and any other value that a sharding is written for, is whole or in shards; leave out 'sum {...}', partitioning chooses where sums stay open}}
func.func @f(%w: tensor<4x8xf32> {nn.param = #nn.param<"w", axes = [embed, mlp], init = constant(0)>, dist.sharding = #dist.sharding<[{"dp"}, {}], sum {"tp"}>}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]
// expected-error@+1 {{result 0 has a sharding that is partial (max over "tp")}}
func.func @f(%x: tensor<4x8xf32>) -> (tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {}], max {"tp"}>}) {
  return %x : tensor<4x8xf32>
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{result 0 has a sharding that is partial (min over "dp", "tp")}}
  %y = nn.exp %x {dist.shardings = [#dist.sharding<[{}, {}], min {"dp", "tp"}>]} : tensor<4x8xf32>
  return
}

// -----

// An axis that is not there comes first, with the nearest one.
dist.mesh @mesh ["data" = 2, "tp" = 2]
// expected-error@+1 {{argument 0 uses axis "date", which the mesh does not have; it has "data", "tp"; did you mean "data"?}}
func.func @f(%w: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {}], sum {"date"}>}) {
  return
}

// -----

dist.mesh @mesh ["tp" = 2]
func.func private @f(%x: tensor<4x8xf32, #dist.partial<["tp"], sum>>) {
  // expected-error@+1 {{moves parts along "tp", over which 'tensor<4x8xf32, #dist.partial<["tp"], sum>>' is partial; reduce it first, for instance by dist.all_reduce}}
  %0 = dist.all_gather %x dim 0 axes ["tp"] : (tensor<4x8xf32, #dist.partial<["tp"], sum>>) -> tensor<8x8xf32, #dist.partial<["tp"], sum>>
  return
}

// -----

// Half of the axis is enough.
dist.mesh @mesh ["tp" = 4]
func.func private @f(%x: tensor<4x8xf32, #dist.partial<["tp"], sum>>) {
  // expected-error@+1 {{moves parts along "tp":(2)2, over which}}
  %0 = dist.slice %x dim 0 axes ["tp":(2)2] : (tensor<4x8xf32, #dist.partial<["tp"], sum>>) -> tensor<2x8xf32, #dist.partial<["tp"], sum>>
  return
}

// -----

dist.mesh @mesh ["x" = 2, "y" = 2, "z" = 2]
func.func private @f(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{has a sharding that is partial, expected one that is not; that a value is partial stands in its type}}
  %0 = dist.permute %x from <[{"x"}, {"y"}], sum {"z"}> to <[{"y"}, {"x"}], sum {"z"}> : tensor<4x8xf32>
  return
}

// -----

// The body of dist.manual has the parts of one device: nothing on whole tensors.
dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-note@+1 {{the body is here}}
  %m = dist.manual %x in [#dist.sharding<[{"dp"}, {}]>] out [#dist.sharding<[{"dp"}, {}]>] {
  ^bb0(%p: tensor<2x8xf32>):
    // expected-error@+1 {{is on whole tensors and stands in the body of dist.manual, whose values are the parts of one device; expected a collective on them there, such as dist.all_gather or dist.slice, or the op outside of it}}
    %c = dist.constraint %p <[{"tp"}, {}]> : tensor<2x8xf32>
    dist.yield %c : tensor<2x8xf32>
  } : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %m : tensor<4x8xf32>
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-note@+1 {{the body is here}}
  %m = dist.manual %x in [#dist.sharding<[{"dp"}, {}]>] out [#dist.sharding<[{"dp"}, {}]>] {
  ^bb0(%p: tensor<2x8xf32>):
    // expected-error@+1 {{'dist.manual' op is on whole tensors and stands in the body of dist.manual}}
    %q = dist.manual %p in [#dist.sharding<[{"tp"}, {}]>] out [#dist.sharding<[{"tp"}, {}]>] {
    ^bb0(%z: tensor<1x8xf32>):
      dist.yield %z : tensor<1x8xf32>
    } : (tensor<2x8xf32>) -> tensor<2x8xf32>
    dist.yield %q : tensor<2x8xf32>
  } : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %m : tensor<4x8xf32>
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @f(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-note@+1 {{the body is here}}
  %m = dist.manual %x in [#dist.sharding<[{"dp"}, {}]>] out [#dist.sharding<[{"dp"}, {}]>] {
  ^bb0(%p: tensor<2x8xf32>):
    // expected-error@+1 {{has dist.shardings and stands in the body of dist.manual}}
    %q = nn.exp %p {dist.shardings = [#dist.sharding<[{"tp"}, {}]>]} : tensor<2x8xf32>
    dist.yield %q : tensor<2x8xf32>
  } : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %m : tensor<4x8xf32>
}

// -----

// The axes of a partial value are those of the mesh, in what a collective takes and gives.
dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @f(%x: tensor<4xf32, #dist.partial<["rows"], sum>>) {
  // expected-error@+1 {{has a value of type 'tensor<4xf32, #dist.partial<["rows"], sum>>', which uses axis "rows", which the mesh does not have; it has "dp", "tp"}}
  %0 = dist.all_reduce sum %x axes ["tp"] : (tensor<4xf32, #dist.partial<["rows"], sum>>) -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @f(%x: tensor<4xf32, #dist.partial<["tp"], sum>>) {
  // expected-error@+1 {{which uses sub-axis "dp":(1)4 of an axis of size 2, which 1 times 4 does not divide}}
  %0 = dist.reduce_scatter sum %x dim 0 axes ["tp"] : (tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<2xf32, #dist.partial<["dp":(1)4], sum>>
  return
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{uses axis "tp" twice}}
  %0 = dist.make_partial sum %x axes ["tp"] : (tensor<4xf32>) -> tensor<4xf32, #dist.partial<["tp", "tp"], sum>>
  return
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @f(%x: tensor<4xf32, #dist.partial<["dp"], sum>>) {
  // expected-error@+1 {{is a max, but 'tensor<4xf32, #dist.partial<["dp"], sum>>' is partial by sum, expected one kind; reduce by that kind first}}
  %0 = dist.make_partial max %x axes ["tp"] : (tensor<4xf32, #dist.partial<["dp"], sum>>) -> tensor<4xf32, #dist.partial<["dp", "tp"], max>>
  return
}

// -----

// Whole shards change hands: those of other blocks are others.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{has dimension 0 in 2 blocks before and 1 after, expected as many: whole shards change hands, none is cut anew; gather the dimension, and cut it by dist.slice}}
  %0 = dist.permute %x from <[{"dp"} blocks 2]> to <[{"dp"}]> : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{comes from device 2 of a group of 2, expected 0 to 1}}
  %0 = dist.broadcast %x from 2 axes ["dp"] : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{shifts by 2 around a ring of 2, expected 1 to 1}}
  %0 = dist.shift %x by 2 axes ["dp"] : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 1]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{shifts by 1 around a ring of 1, which moves nothing; leave it out}}
  %0 = dist.shift %x by 1 axes ["dp"] : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["cp" = 2]
// expected-error@+1 {{expected an even number of chunks, two for each device}}
func.func private @f(%x: tensor<8xf32> {dist.sharding = #dist.sharding<[{"cp"} zigzag 3]>})

// -----

// An entry's buffers lie in their own order.
dist.mesh @mesh ["cp" = 2]
// expected-error@+1 {{argument 0 has dimension 0 in zig-zag order, in which no buffer of an entry lies; expected the order on a dist.constraint of it}}
func.func @f(%x: tensor<8xf32> {dist.sharding = #dist.sharding<[{"cp"} zigzag 4]>}) {
  return
}

// -----

// What is written in the wrong place, or misspelt, is not passed over.
dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{unknown attribute "dist.sharding", expected dist.shardings, dist.argument_shardings; did you mean dist.shardings?}}
  %0 = nn.exp %x {dist.sharding = #dist.sharding<[{"dp"}]>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{unknown attribute "dist.shardigns", expected dist.shardings, dist.argument_shardings; did you mean dist.shardings?}}
  %0 = nn.exp %x {dist.shardigns = [#dist.sharding<[{"dp"}]>]} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error@+1 {{unknown attribute "dist.shardings", expected dist.sharding; did you mean dist.sharding?}}
func.func @f(%x: tensor<4xf32> {dist.shardings = [#dist.sharding<[{"dp"}]>]}) {
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
// expected-error@+1 {{has dist.argument_shardings, expected dist.sharding on its arguments and results}}
func.func @f(%x: tensor<4xf32>) attributes {dist.argument_shardings = [#dist.sharding<[{"dp"}]>]} {
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @rows_rank(%x: tensor<4x6x8xf32>, %s: tensor<4xi32>) {
  // expected-error@+1 {{moves 'tensor<4x6x8xf32>' to 'tensor<2x6x8xf32>', expected parts and samples of rows, four dimensions or more}}
  %y = dist.exchange_rows %x counts %s, %s split 0 concat 1 axes ["dp"] : (tensor<4x6x8xf32>, tensor<4xi32>, tensor<4xi32>) -> tensor<2x6x8xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @rows_dims(%x: tensor<2x4x6x8xf32>, %s: tensor<2x4xi32>, %c: tensor<1x8xi32>) {
  // expected-error@+1 {{splits dimension 0 and concatenates 2, expected two of those in front of the rows, 0 to 1}}
  %y = dist.exchange_rows %x counts %s, %c split 0 concat 2 axes ["dp"] : (tensor<2x4x6x8xf32>, tensor<2x4xi32>, tensor<1x8xi32>) -> tensor<1x4x12x8xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @rows_padded(%x: tensor<2x4x6x8xf32>, %s: tensor<2x4xi32>, %c: tensor<1x8xi32>) {
  // expected-error@+1 {{in a group of 2, expected blocks that divide}}
  %y = dist.exchange_rows %x counts %s, %c split 0 concat 1 axes ["dp"] : (tensor<2x4x6x8xf32>, tensor<2x4xi32>, tensor<1x8xi32>) -> tensor<1x7x6x8xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2]
func.func @rows_counts(%x: tensor<2x4x6x8xf32>, %s: tensor<2x4xi32>, %c: tensor<1x8xi32>) {
  // expected-error@+1 {{counts the rows of 'tensor<1x8x6x8xf32>' by 'tensor<2x4xi32>', expected 'tensor<1x8xi32>'}}
  %y = dist.exchange_rows %x counts %s, %s split 0 concat 1 axes ["dp"] : (tensor<2x4x6x8xf32>, tensor<2x4xi32>, tensor<2x4xi32>) -> tensor<1x8x6x8xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{makes 'tensor<4xf32>' of 'tensor<4xf32>', expected that one of them is partial, and the other is not}}
  %0 = dist.local %x : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{makes 'tensor<2xf32, #dist.partial<["dp"], sum>>' of 'tensor<4xf32>', expected the same shape and elements}}
  %0 = dist.local %x : (tensor<4xf32>) -> tensor<2xf32, #dist.partial<["dp"], sum>>
  return
}

// -----

dist.mesh @mesh ["dp" = 2, "tp" = 2]
func.func @f(%x: tensor<4xf32, #dist.partial<["dp"], max>>) {
  // expected-error@+1 {{has a value that is partial by max, expected sum}}
  %0 = dist.local %x : (tensor<4xf32, #dist.partial<["dp"], max>>) -> tensor<4xf32>
  return
}

// -----

dist.mesh @mesh ["tp" = 2]
func.func @f(%x: tensor<4xf32>) {
  // expected-error@+1 {{'dist.local' op }}
  %0 = dist.local %x : (tensor<4xf32>) -> tensor<4xf32, #dist.partial<["dp"], sum>>
  return
}

// -----

dist.mesh @mesh ["dp" = 1]
func.func @too_large(%x: tensor<9223372036854775807xf32>) {
  // expected-error@+1 {{at most 2^59 elements}}
  %y = dist.all_gather %x dim 0 axes ["dp"] : (tensor<9223372036854775807xf32>) -> tensor<9223372036854775807xf32>
  return
}
