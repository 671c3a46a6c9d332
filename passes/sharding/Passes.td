//===- Passes.td - From a user's intent to collectives -----*- tablegen -*-===//

#ifndef SHEAF_PASSES_SHARDING_PASSES_TD
#define SHEAF_PASSES_SHARDING_PASSES_TD

include "mlir/Pass/PassBase.td"

def DistExchangeHeads : Pass<"dist-exchange-heads", "::mlir::ModuleOp"> {
  let summary = "Give attention whole sequences of a part of the heads";
  let description = [{
    Ulysses (Jacobs et al. 2023): where the sequence is sharded over `cp`, attention gets
    whole sequences of a part of the heads, and gives back all heads of a part of the
    sequence. Two constraints on each of its query, key, value and result say so, for both
    sides of the exchange, so that its gradient is one, too. Runs on a model, before it is differentiated, so that the backward keeps
    what was exchanged. Key heads that are fewer than the devices are on several of them.
    Declares the mesh, if the module has none. Requires that the devices of `tp` and `cp`
    together divide the query heads.

    Before:

    ```mlir
    func.func @f(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>) -> tensor<2x8x4x16xf32> {
      %y = nn.attention %q, %k, %k causal : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> tensor<2x8x4x16xf32>
      return %y : tensor<2x8x4x16xf32>
    }
    ```

    after `--dist-exchange-heads=mesh=cp=2`:

    ```mlir
    dist.mesh @mesh ["cp" = 2 memory]
    func.func @f(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>) -> tensor<2x8x4x16xf32> {
      %a = dist.constraint %q <[{}, {"cp"}, {}, {} ]> : tensor<2x8x4x16xf32>
      %b = dist.constraint %a <[{}, {}, {"cp"}, {} ]> : tensor<2x8x4x16xf32>
      %c = dist.constraint %k <[{}, {"cp"}, {}, {} ]> : tensor<2x8x2x16xf32>
      %d = dist.constraint %c <[{}, {}, {"cp"}, {} ]> : tensor<2x8x2x16xf32>
      %y = nn.attention %b, %d, %d causal : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> tensor<2x8x4x16xf32>
      %z = dist.constraint %y <[{}, {}, {"cp"}, {} ]> : tensor<2x8x4x16xf32>
      %r = dist.constraint %z <[{}, {"cp"}, {}, {} ]> : tensor<2x8x4x16xf32>
      return %r : tensor<2x8x4x16xf32>
    }
    ```
  }];
  let options = [
    ListOption<"mesh", "mesh", "std::string",
      "The axes and their sizes, outermost first: dp=4,cp=2">,
  ];
  let dependentDialects = ["::sheaf::dist::DistDialect"];
}

def DistApplyStrategy : Pass<"dist-apply-strategy", "::mlir::ModuleOp"> {
  let summary = "Shard parameters, state and batch by a table of axis names";
  let description = [{
    Declares the mesh, if the module has none, and writes shardings on the arguments
    and results of the entries of a training step: a table gives the mesh axis of
    each logical axis of a parameter (`heads`, `kv_heads`, `mlp` and `vocab` go to
    `tp`) and of the batch (samples go to `dp`, the sequence to `cp`). An axis that the
    mesh does not have shards nothing.

    - `zero=1` shards optimizer state over `dp` and `cp`, `zero=2` gradients too, `zero=3`
      parameters too, each along the largest dimension that divides. Where a
      gradient is ready, and where a sharded parameter is used, a `dist.constraint`
      says so. `zero-group=G` shards over the innermost G devices of `dp` x `cp` only
      (hybrid sharding). Parameters of fewer than `zero-min-bytes` stay whole. With
      `zero3-gathers=keep` weights are gathered at the beginning of a step and kept over
      all microbatches, with `accumulate=whole` gradients are reduced once, behind them.
    - `expert-parallel=E` shards experts over the innermost E devices of `dp` x `cp`, and
      with them what `nn-bucket-experts` has cut into E parts.
    - `sequence-parallel` asks, with priority 1, that values with axes `seq` and
      `embed` have the former over `tp`, inside of `cp`.
    - `zigzag` puts the sequence of the batch into zig-zag order where it is read, so
      that each device of `cp` has as much causal attention to do as any other.

    A strategy is a table; `strategy=FILE` reads one that a user wrote, in place of
    what the other options say, one row a line, comments behind `#`:

        parameter mlp -> tp
        parameter kv_heads -> tp shared   # over the part of tp that divides
        batch batch -> dp
        batch seq -> cp                   # or: cp zigzag
        value seq of batch, embed -> tp priority 1
        state largest -> dp               # ZeRO-1
        gradient largest -> dp            # ZeRO-2
        weight largest -> dp              # ZeRO-3

    In `dist.because` each sharding says which row asked for it.

    Looks at no op by its kind.

    Before:

    ```mlir
    func.func @step(%w: tensor<32x16xf32> {nn.param = #nn.param<"w", axes = [vocab, embed], init = constant(0)>}) {
      return
    }
    ```

    after `--dist-apply-strategy=mesh=tp=2`:

    ```mlir
    dist.mesh @mesh ["tp" = 2 memory]
    func.func @step(%w: tensor<32x16xf32> {dist.because = {tp = "strategy: parameter vocab -> tp"},
                        dist.sharding = #dist.sharding<[{"tp"}, {} ]>, nn.param = #nn.param<"w", axes = [vocab, embed], init = constant(0)>}) {
      return
    }
    ```
  }];
  let options = [
    ListOption<"mesh", "mesh", "std::string",
      "The axes and their sizes, outermost first: dp=4,tp=2">,
    Option<"zero", "zero", "int", /*default=*/"0",
      "What is sharded over dp x cp: 0 nothing, 1 optimizer state, 2 and gradients, 3 and parameters">,
    Option<"zeroGroup", "zero-group", "int64_t", /*default=*/"0",
      "Shard over the innermost devices of dp x cp only, so many; 0 for all">,
    Option<"zeroMinBytes", "zero-min-bytes", "int64_t", /*default=*/"0",
      "Parameters of fewer bytes stay whole">,
    Option<"zero3Gathers", "zero3-gathers", "std::string", /*default=*/"\"again\"",
      "Weights of zero=3: gathered again for each use, or once a step (keep)">,
    Option<"accumulate", "accumulate", "std::string", /*default=*/"\"sharded\"",
      "Gradients of zero=2 and 3 between microbatches: sharded, or whole">,
    Option<"sequenceParallel", "sequence-parallel", "bool", /*default=*/"false",
      "Shard activations between blocks along the sequence">,
    Option<"expertParallel", "expert-parallel", "int64_t", /*default=*/"1",
      "Shard experts over the innermost devices of dp x cp, so many">,
    Option<"zigzag", "zigzag", "bool", /*default=*/"false",
      "The sequence over cp in zig-zag order: of 2c chunks device i has those of number i and 2c - 1 - i">,
    Option<"strategy", "strategy", "std::string", /*default=*/"\"\"",
      "A file with the table, instead of zero, zero-group and sequence-parallel">,
  ];
  let dependentDialects = ["::sheaf::dist::DistDialect"];
}

def DistPropagate : Pass<"dist-propagate", "::mlir::ModuleOp"> {
  let summary = "Give every value a sharding";
  let description = [{
    Lets shardings flow along the rules of ops, through calls and loops, forwards
    and backwards, until nothing changes. Axes are only added. What a user wrote
    stays; where two wishes meet at one value, the stronger priority wins, then the
    one that had the shorter way, then the larger tensor. The order of ops in the
    file has no say.

    A private function whose calls differ in the shardings of what they give and take
    gets a copy for each that does not fit; calls with equal ones share a copy.

    Afterwards every op has `dist.shardings` and every argument `dist.sharding`.

    Before:

    ```mlir
    dist.mesh @mesh ["dp" = 2]
    func.func @f(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {} ]>}) -> tensor<4x8xf32> {
      %y = nn.exp %x : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    after:

    ```mlir
    dist.mesh @mesh ["dp" = 2]
    func.func @f(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"dp"}, {} ]>}) -> tensor<4x8xf32> {
      %y = nn.exp %x {dist.shardings = [#dist.sharding<[{"dp"}, {} ]>]} : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```
  }];
  let options = [
    Option<"keepOrigins", "origins", "bool", /*default=*/"false",
      "Note where each axis of each value came from (dist.origins), for dist-partition to tell">,
    Option<"why", "why", "std::string", /*default=*/"\"\"",
      "Write to standard output where the axes of a value came from: %name or @function:%name "
      "as in the file, a parameter, the role of a batch argument, LINE or FILE:LINE[:COLUMN]">,
  ];
  let dependentDialects = ["::sheaf::dist::DistDialect"];
}

def DistPartition : Pass<"dist-partition", "::mlir::ModuleOp"> {
  let summary = "Write what one device does";
  let description = [{
    Takes a module in which every value has a sharding to one on local shapes, with
    collectives where an op needs, or gives, another sharding than the value has.
    The planner chooses them. A sum over a sharded dimension is partial; it is
    reduced where it is computed, or, where that is cheaper, after the ops that are
    linear in it: in particular gradients are reduced after the loop over
    microbatches. Every collective says in `dist.reason` who asked for it.

    Before:

    ```mlir
    dist.mesh @mesh ["tp" = 2]
    func.func @f(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"} ]>}) -> tensor<4xf32> {
      %y = nn.reduce sum %x dims [1] {dist.shardings = [#dist.sharding<[{} ]>]} : (tensor<4x8xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```

    after:

    ```mlir
    dist.mesh @mesh ["tp" = 2]
    func.func @f(%x: tensor<4x4xf32> {dist.sharding = #dist.sharding<[{}, {"tp"} ]>})
        -> (tensor<4xf32> {dist.sharding = #dist.sharding<[{} ]>}) {
      %p = nn.reduce sum %x dims [1] : (tensor<4x4xf32>) -> tensor<4xf32, #dist.partial<["tp"], sum>>
      %y = dist.all_reduce sum %p axes ["tp"] : (tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let options = [
    Option<"reduce", "reduce", "std::string", /*default=*/"\"cheapest\"",
      "Where partial values are reduced: cheapest, early (where they are computed), late (behind all that is linear)">,
    Option<"context", "context", "std::string", /*default=*/"\"gather\"",
      "How attention gets keys and values of a sequence in shards: gather (all at once), or ring (block by block, "
      "from neighbour to neighbour)">,
    Option<"strict", "strict", "int64_t", /*default=*/"-1",
      "Refuse to move a value that nobody asked to move where a device sends more bytes; -1: never">,
  ];
  let dependentDialects = ["::sheaf::dist::DistDialect", "::sheaf::nn::NNDialect"];
}

def DistOptimize : Pass<"dist-optimize", "::mlir::ModuleOp"> {
  let summary = "Send less, and less often";
  let description = [{
    On the program of one device:

    - what only moves elements stands behind a narrowing cast and before a widening
      one: fewer bytes are sent;
    - a gather of a shard and a slice of the same shard cancel out, padded ones where the
      slice has `dist.any_padding` (else it has zeros behind the end of the tensor, where a
      shard may have anything), and where only slices of a gathered value are used, only those are
      gathered, or, where each lies in the shard of one device, sent by that one, if that
      takes less time by the planner's account than the gather;
    - of equal collectives of one phase (forward, backward, optimizer) one is left, so
      that tied weights are gathered once. Its reason has the annotations of all. A backward gathers again what the forward
      had: nothing is kept for it;
    - with `bucket-bytes=N` reductions of gradients that follow one another, of one
      kind, over the same axes and of one element type, become one on a flat tensor of
      at most N bytes, whose reason has the annotations of all and, in `params`, the
      parameters, where they can be told. Every element is added in the order in which it was.
      `bucket-bytes=auto` takes what the axis's link sends in 32 times its latency.

    Before:

    ```mlir
    dist.mesh @mesh ["dp" = 2]
    func.func @f(%x: tensor<4x8xf32>) -> tensor<8x8xbf16> {
      %g = dist.all_gather %x dim 0 axes ["dp"] : (tensor<4x8xf32>) -> tensor<8x8xf32>
      %y = nn.cast %g : tensor<8x8xf32> -> tensor<8x8xbf16>
      return %y : tensor<8x8xbf16>
    }
    ```

    after:

    ```mlir
    dist.mesh @mesh ["dp" = 2]
    func.func @f(%x: tensor<4x8xf32>) -> tensor<8x8xbf16> {
      %c = nn.cast %x : tensor<4x8xf32> -> tensor<4x8xbf16>
      %y = dist.all_gather %c dim 0 axes ["dp"] : (tensor<4x8xbf16>) -> tensor<8x8xbf16>
      return %y : tensor<8x8xbf16>
    }
    ```
  }];
  let options = [
    Option<"bucketBytes", "bucket-bytes", "std::string", /*default=*/"\"0\"",
      "Reduce gradients together, up to so many bytes; 0: each alone; auto: by the link">,
  ];
  let dependentDialects = ["::sheaf::dist::DistDialect", "::sheaf::nn::NNDialect"];
}

def DistCompress : Pass<"dist-compress", "::mlir::ModuleOp"> {
  let summary = "Send gradients and weights in fewer bytes";
  let description = [{
    On the program of one device, behind `dist-optimize`. With `gradients=FORMAT` a sum of
    gradients over devices that share the batch sends their parts rounded to the format,
    all to all; the device that owns a part adds what comes in f32, in the order of the
    devices. Where all want the sum, that is rounded, too, and gathered, so that all have
    the same bits. With `weights=FORMAT` gathers of sharded parameters send the shards
    rounded; what the optimizer works on stays as it is. Where the optimizer's results
    are gathered, that is, where weights are whole (ZeRO-1 and 2), the change of the
    weights is sent instead, since they would lose what is smaller than their rounding.

    `bf16` rounds each number. `int8` and `fp8` (E4M3) cut what one device sends to
    another in equal blocks of at most 128 numbers; each is divided by a factor, so that
    its largest is 127, or 448, rounded to the nearest, ties to even, and sent with the
    factor in f32. A block of zeros has the factor 1. A NaN or an infinity makes its
    block NaN, for all.

    With `node=N` device r is on node r / N. Where a group has several devices on each of
    several nodes, parts are summed within each node first, and what goes between nodes are
    those sums, rounded again: N times fewer bytes on the slower links.

    What would not be fewer bytes stays as it is, and so do scalars. Roles, reasons and
    parameters stay with what is sent.

    `error` adds a result `wire_error` to @step: what rounding changed of the gradients that
    were sent, as a share of them, each as the root of the sum of squares over all
    devices.

    Before:

    ```mlir
    dist.mesh @mesh ["dp" = 2]
    func.func @f(%g: tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<4xf32> {
      %y = dist.reduce_scatter sum %g dim 0 axes ["dp"] {nn.role = "weight_gradient"}
        : (tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```

    after `--dist-compress=gradients=bf16`:

    ```mlir
    dist.mesh @mesh ["dp" = 2]
    func.func @f(%g: tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<4xf32> {
      %own = dist.local %g : (tensor<8xf32, #dist.partial<["dp"], sum>>) -> tensor<8xf32>
      %parts = nn.reshape %own : tensor<8xf32> -> tensor<2x4xf32>
      %low = nn.cast %parts : tensor<2x4xf32> -> tensor<2x4xbf16>
      %blocks = nn.reshape %low : tensor<2x4xbf16> -> tensor<2x1x4xbf16>
      %out = nn.reshape %blocks : tensor<2x1x4xbf16> -> tensor<1x1x2x1x4xbf16>
      %in = dist.all_to_all %out split 2 concat 0 axes ["dp"] : (tensor<1x1x2x1x4xbf16>) -> tensor<2x1x1x1x4xbf16>
      %all = nn.reshape %in : tensor<2x1x1x1x4xbf16> -> tensor<2x1x4xbf16>
      %high = nn.cast %all : tensor<2x1x4xbf16> -> tensor<2x1x4xf32>
      %rows = nn.reshape %high : tensor<2x1x4xf32> -> tensor<2x4xf32>
      %y = nn.reduce sum %rows dims [0] : (tensor<2x4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let options = [
    Option<"gradients", "gradients", "std::string", /*default=*/"\"f32\"",
      "How gradients are sent: f32 (as they are), bf16, int8 or fp8">,
    Option<"weights", "weights", "std::string", /*default=*/"\"f32\"",
      "How sharded weights are gathered: f32 (as they are), bf16, int8 or fp8">,
    Option<"node", "node", "int64_t", /*default=*/"0",
      "Devices of a node; 0: all are equally near">,
    Option<"error", "error", "bool", /*default=*/"false",
      "Let @step return what rounding changed of the gradients, as a share of them">,
  ];
  let dependentDialects = ["::sheaf::dist::DistDialect", "::sheaf::nn::NNDialect"];
}

def DistExchangeRows : Pass<"dist-exchange-rows", "::mlir::ModuleOp"> {
  let summary = "Send the rows of experts by count";
  let description = [{
    On the program of one device: an all-to-all of the rows that `nn.bucket` gives, or
    that `nn.unbucket` takes, becomes `dist.exchange_rows`, which sends the rows that
    are there and not the room for them. How many there are follows from the offsets
    of the experts; what the other side needs to know of that is exchanged first, a
    number for each part and sample. Other ops that only move parts and samples may stand
    between. An all-to-all whose parts are padded is an error.

    Before:

    ```mlir
    dist.mesh @mesh ["dp" = 2]
    func.func @f(%rows: tensor<2x6x8xf32>, %offsets: tensor<2x5xi32>) -> tensor<1x4x6x8xf32> {
      %b = nn.bucket %rows, %offsets : (tensor<2x6x8xf32>, tensor<2x5xi32>) -> tensor<2x2x6x8xf32>
      %y = dist.all_to_all %b split 0 concat 1 axes ["dp"] : (tensor<2x2x6x8xf32>) -> tensor<1x4x6x8xf32>
      return %y : tensor<1x4x6x8xf32>
    }
    ```

    after, where `%counts` are computed of `%offsets`:

    ```mlir
    dist.mesh @mesh ["dp" = 2]
    func.func @f(%rows: tensor<2x6x8xf32>, %offsets: tensor<2x5xi32>, %counts: tensor<2x2xi32>) -> tensor<1x4x6x8xf32> {
      %b = nn.bucket %rows, %offsets : (tensor<2x6x8xf32>, tensor<2x5xi32>) -> tensor<2x2x6x8xf32>
      %come = dist.all_to_all %counts split 0 concat 1 axes ["dp"] : (tensor<2x2xi32>) -> tensor<1x4xi32>
      %y = dist.exchange_rows %b counts %counts, %come split 0 concat 1 axes ["dp"]
        : (tensor<2x2x6x8xf32>, tensor<2x2xi32>, tensor<1x4xi32>) -> tensor<1x4x6x8xf32>
      return %y : tensor<1x4x6x8xf32>
    }
    ```
  }];
  let dependentDialects = ["::sheaf::dist::DistDialect", "::sheaf::nn::NNDialect"];
}

def DistVerify : Pass<"dist-verify"> {
  let summary = "Check that partial values are only where they may be";
  let description = [{
    On the program of one device: an op of nn takes a value that is still to be summed
    only where its rule says that it is linear in it (monotone, for a maximum or
    minimum), together with others of the same kind where it adds them, alone where it
    multiplies; its result is then partial, too. An entry neither takes nor gives one.
    Changes nothing.

    ```mlir
    dist.mesh @mesh ["tp" = 2]
    func.func private @f(%x: tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32, #dist.partial<["tp"], sum>> {
      %y = nn.neg %x : tensor<4xf32, #dist.partial<["tp"], sum>>
      return %y : tensor<4xf32, #dist.partial<["tp"], sum>>
    }
    ```
  }];
}

def DistExplain : Pass<"dist-explain", "::mlir::ModuleOp"> {
  let summary = "List the collectives of an entry";
  let description = [{
    Writes to standard output a JSON array of the collectives that one call of the
    entry makes: kind, axes, group, dtype, elements, wire_bytes, count with layers
    and microbatches multiplied in, phase, op, reason. Changes nothing.

    ```mlir
    dist.mesh @mesh ["tp" = 2]
    func.func @step(%x: tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32> {
      %y = dist.all_reduce sum %x axes ["tp"] : (tensor<4xf32, #dist.partial<["tp"], sum>>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let options = [
    Option<"function", "function", "std::string", /*default=*/"\"step\"", "The entry">,
  ];
}

#endif // SHEAF_PASSES_SHARDING_PASSES_TD
