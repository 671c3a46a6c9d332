//===- DistAttrs.td - Axes and shardings -------------------*- tablegen -*-===//

#ifndef SHEAF_DIST_ATTRS_TD
#define SHEAF_DIST_ATTRS_TD

include "DistDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Dist_Reduction : I32EnumAttr<"Reduction", "how partial values are combined", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">,
    I32EnumAttrCase<"Min", 2, "min">]> {
  let cppNamespace = "::sheaf::dist";
  let genSpecializedAttr = 0;
}
def Dist_ReductionAttr : EnumAttr<Dist_Dialect, Dist_Reduction, "reduction"> {
  let assemblyFormat = "$value";
}

class Dist_Attr<string name, string mnemonicText> : AttrDef<Dist_Dialect, name> {
  let mnemonic = mnemonicText;
  let hasCustomAssemblyFormat = 1;
}

def Dist_MeshAxisAttr : Dist_Attr<"MeshAxis", "mesh_axis"> {
  let summary = "an axis of a mesh: its name, its size, its link";
  let description = [{
    The link is a class with a bandwidth and a latency of its own (`memory` between
    threads of one process, `nvlink`, `pcie`, `network`), or given in bytes a second
    and seconds.

    Example:

    ```mlir
    #dist.mesh_axis<"dp" = 4 network>
    #dist.mesh_axis<"tp" = 2 link(4.5e11, 1.0e-6)>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$size,
    StringRefParameter<"the class, or empty">:$link,
    OptionalParameter<"::mlir::FloatAttr">:$bandwidth,
    OptionalParameter<"::mlir::FloatAttr">:$latency);
}

def Dist_AxisAttr : Dist_Attr<"Axis", "axis"> {
  let summary = "an axis of the mesh, or a part of one";
  let description = [{
    `"dp":(2)4` is the sub-axis of size 4 that has 2 devices of the axis outside of
    it: device i of the axis is device (i / (size / (2 * 4))) mod 4 of the sub-axis.

    Example:

    ```mlir
    #dist.axis<"dp">
    #dist.axis<"dp":(1)2>
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$outer, "int64_t":$size);
  let builders = [
    AttrBuilder<(ins "::llvm::StringRef":$name), [{
      return $_get($_ctxt, ::mlir::StringAttr::get($_ctxt, name), 1, 0);
    }]>];
  let extraClassDeclaration = [{
    /// Whether it is the whole axis; then `size` is 0.
    bool isWhole() const { return getSize() == 0; }
    /// `dp`, or `dp:(2)4` of a part: as manifests and explanations name it.
    std::string getText() const;
    void printBare(::llvm::raw_ostream &os) const;
    static ::mlir::FailureOr<AxisAttr> parseBare(::mlir::AsmParser &parser);
  }];
}

def Dist_DimAttr : Dist_Attr<"Dim", "dim"> {
  let summary = "the sharding of one dimension";
  let description = [{
    Its axes, the outermost first; `?` where propagation may add to them; a
    priority (0, the strongest, where none is written); and `blocks b` where the
    dimension is b blocks of equal size, each of which is sharded: device i holds
    part i of every block.

    `zigzag n` (which `blocks` holds as -n): the dimension is in n chunks of
    ceil(size / n), which stand in the order 0, n - 1, 1, n - 2, ...; the result, as
    long as all chunks, is cut in parts by the axes. Over n/2 devices, device i has
    chunks i and n - 1 - i.

    Example:

    ```mlir
    #dist.dim<{"dp", "tp"}>
    #dist.dim<{"tp", ?} blocks 3 p1>
    #dist.dim<{"cp"} zigzag 8>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::sheaf::dist::AxisAttr">:$axes,
    "bool":$open, "int64_t":$priority, "int64_t":$blocks);
  let extraClassDeclaration = [{
    void printBare(::llvm::raw_ostream &os) const;
    static ::mlir::FailureOr<DimAttr> parseBare(::mlir::AsmParser &parser);
  }];
}

def Dist_ShardingAttr : Dist_Attr<"Sharding", "sharding"> {
  let summary = "where the elements of a value are";
  let description = [{
    One entry for each dimension; then, where the value is still to be reduced, how
    and over which axes.

    Example:

    ```mlir
    #dist.sharding<[{"dp"}, {}, {"tp", ?} ]>
    #dist.sharding<[{}, {"tp"} blocks 3], sum {"dp"}>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::sheaf::dist::DimAttr">:$dims,
    "::sheaf::dist::Reduction":$kind,
    OptionalArrayRefParameter<"::sheaf::dist::AxisAttr">:$partial);
  let extraClassDeclaration = [{
    /// Whether no axis is used.
    bool isReplicated() const;
    /// Every axis used, partial ones last.
    ::llvm::SmallVector<AxisAttr> getAllAxes() const;
  }];
}

def Dist_PartialAttr : Dist_Attr<"Partial", "partial"> {
  let summary = "encoding of a local tensor that is still to be reduced";
  let description = [{
    Example:

    ```mlir
    tensor<4x8xf32, #dist.partial<["tp"], sum>>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"::sheaf::dist::AxisAttr">:$axes,
    "::sheaf::dist::Reduction":$kind);
}

#endif // SHEAF_DIST_ATTRS_TD
