//===- NNOps.td - The ops of nn ----------------------------*- tablegen -*-===//

#ifndef SHEAF_NN_OPS_TD
#define SHEAF_NN_OPS_TD

include "NNDialect.td"
include "NNAttrs.td"
include "NNInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

class NN_Tensor<string elementPredicate, string elements> : Type<
    And<[CPred<"::sheaf::nn::isStaticTensor($_self)">, CPred<elementPredicate>]>,
    "tensor with static dimensions of at least 1 and at most 2^59 elements of type "
      # elements,
    "::mlir::RankedTensorType">;

def NN_AnyTensor : NN_Tensor<"::sheaf::nn::isAnyElement($_self)",
  "f64, f32, bf16, f16, an 8-bit or 4-bit float, i32, i8 or i1">;
def NN_FloatTensor : NN_Tensor<"::sheaf::nn::isFloatElement($_self)",
  "f64, f32, bf16 or f16">;
def NN_NumberTensor : NN_Tensor<"::sheaf::nn::isNumberElement($_self)",
  "f64, f32, bf16, f16 or i32">;
def NN_IntTensor : NN_Tensor<"::sheaf::nn::isIntElement($_self)", "i32">;
def NN_RandomTensor : NN_Tensor<
  "::sheaf::nn::isFloatElement($_self) || ::sheaf::nn::isIntElement($_self)",
  "f64, f32, bf16, f16, or i32 for bits">;
def NN_NarrowTensor : NN_Tensor<"::sheaf::nn::isNarrowElement($_self)", "f32, bf16 or f16">;
def NN_PayloadTensor : NN_Tensor<"::sheaf::nn::isPayloadElement($_self)",
  "f8E4M3FN, f8E5M2, f4E2M1FN or f16">;
def NN_FactorTensor : NN_Tensor<"::sheaf::nn::isFactorElement($_self)",
  "f32 or f8E8M0FNU">;
def NN_BoolTensor : NN_Tensor<"::sheaf::nn::isBoolElement($_self)", "i1">;
def NN_WeightTensor : NN_Tensor<
  "::sheaf::nn::isFloatElement($_self) || ::sheaf::nn::isBoolElement($_self)",
  "f64, f32, bf16, f16 or i1">;
def NN_Scalar : Type<CPred<"::sheaf::nn::isScalarOperand($_self)">,
    "tensor of rank 0 with element type f64 or f32", "::mlir::RankedTensorType">;

/// A number, signed in C++.
def NN_I64 : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer">;

//===----------------------------------------------------------------------===//
// Base classes
//===----------------------------------------------------------------------===//

/// An op on values. Its result types follow from operands and attributes
/// (`inferReturnTypes`, where the shapes are checked, too), but for the encoding,
/// which is another dialect's business.
class NN_Op<string mnemonic, list<Trait> traits = []>
    : Op<NN_Dialect, mnemonic, !listconcat([Pure], traits)>;

defvar ByInference = InferTypeOpAdaptorWithIsCompatible;
defvar ByRule = DeclareOpInterfaceMethods<NN_RuleOpInterface>;
defvar ByGradient = DeclareOpInterfaceMethods<NN_GradientOpInterface>;
defvar ByDecomposition = DeclareOpInterfaceMethods<NN_DecomposableOpInterface>;

/// Marks an op that computes each result element from the operand elements at
/// the same (broadcast) place.
def NN_Elementwise : NativeOpTrait<"ElementwiseTrait"> {
  let cppNamespace = "::sheaf::nn";
}

class NN_ElementwiseOp<string mnemonic, list<Trait> traits = []>
    : NN_Op<mnemonic, !listconcat([NN_Elementwise, NN_RuleOpInterface], traits)> {
  code elementwiseRule = [{
    ::sheaf::nn::ShardingRule getShardingRule() {
      return ::sheaf::nn::getElementwiseRule(getOperation());
    }
  }];
  let extraClassDeclaration = elementwiseRule;
}

class NN_UnaryOp<string mnemonic, string text, string formula,
                 Type tensor = NN_FloatTensor, list<Trait> traits = [ByGradient]>
    : NN_ElementwiseOp<mnemonic,
        !listconcat([SameOperandsAndResultType], traits)> {
  defvar element = !if(!eq(tensor, NN_BoolTensor), "i1", "f32");
  let summary = text;
  let description = formula # [{, element by element.

    Example:

    ```mlir
    %y = nn.}] # mnemonic # " %x : tensor<4x8x" # element # [{>
    ```
  }];
  let arguments = (ins tensor:$input);
  let results = (outs tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasFolder = 1;
}

class NN_BinaryOp<string mnemonic, string text, string formula,
                  Type tensor = NN_NumberTensor, list<Trait> traits = [ByGradient]>
    : NN_ElementwiseOp<mnemonic, !listconcat([ByInference], traits)> {
  defvar element = !if(!eq(tensor, NN_BoolTensor), "i1", "f32");
  let summary = text;
  let description = formula # [{. Shapes broadcast as in NumPy: aligned at the
    last dimension, a size of 1 stretches. Where all types are the same, one is
    written.

    Example:

    ```mlir
    %y = nn.}] # mnemonic # " %a, %b : tensor<4x8x" # element # [{>
    %z = nn.}] # mnemonic # " %a, %c : (tensor<4x8x" # element # ">, tensor<8x" # element
      # ">) -> tensor<4x8x" # element # [{>
    ```
  }];
  let arguments = (ins tensor:$lhs, tensor:$rhs);
  let results = (outs tensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` custom<BroadcastTypes>(type($lhs), type($rhs), type($result))
  }];
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

def NN_NegOp : NN_UnaryOp<"neg", "minus x", "-x", NN_NumberTensor>;
def NN_AbsOp : NN_UnaryOp<"abs", "absolute value", "|x|", NN_NumberTensor>;
def NN_ExpOp : NN_UnaryOp<"exp", "exponential", "e^x">;
def NN_LogOp : NN_UnaryOp<"log", "natural logarithm", "log x">;
def NN_TanhOp : NN_UnaryOp<"tanh", "hyperbolic tangent", "tanh x">;
def NN_ErfOp : NN_UnaryOp<"erf", "error function", "2/sqrt(pi) times the integral of e^(-t^2) from 0 to x">;
def NN_SqrtOp : NN_UnaryOp<"sqrt", "square root", "sqrt(x)">;
def NN_RsqrtOp : NN_UnaryOp<"rsqrt", "reciprocal square root", "1/sqrt(x)">;
def NN_SigmoidOp : NN_UnaryOp<"sigmoid", "logistic function", "1/(1+e^-x)">;
def NN_SinOp : NN_UnaryOp<"sin", "sine", "sin x">;
def NN_CosOp : NN_UnaryOp<"cos", "cosine", "cos x">;
def NN_NotOp : NN_UnaryOp<"not", "logical not", "true where x is false", NN_BoolTensor, []>;

def NN_ReluOp : NN_UnaryOp<"relu", "rectified linear unit",
  "max(x, 0), with gradient 0 at 0", NN_FloatTensor, [ByGradient, ByDecomposition]>;
def NN_SiluOp : NN_UnaryOp<"silu", "sigmoid linear unit (swish)",
  "x * sigmoid(x) (Elfwing et al. 2017)", NN_FloatTensor, [ByGradient, ByDecomposition]>;
def NN_GeluOp : NN_UnaryOp<"gelu", "Gaussian error linear unit",
  "x * (1 + erf(x / sqrt(2))) / 2 (Hendrycks and Gimpel 2016)", NN_FloatTensor,
  [ByGradient, ByDecomposition]>;
def NN_GeluTanhOp : NN_UnaryOp<"gelu_tanh", "Gaussian error linear unit, tanh form",
  "x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) / 2, the `gelu_new` of GPT-2",
  NN_FloatTensor, [ByGradient, ByDecomposition]>;

def NN_AddOp : NN_BinaryOp<"add", "sum", "a + b", NN_NumberTensor, [ByGradient, Commutative]> {
  let hasCanonicalizer = 1;
}
def NN_SubOp : NN_BinaryOp<"sub", "difference", "a - b"> {
  let hasCanonicalizer = 1;
}
def NN_MulOp : NN_BinaryOp<"mul", "product", "a * b", NN_NumberTensor, [ByGradient, Commutative]>;
def NN_DivOp : NN_BinaryOp<"div", "quotient",
  "a / b; for integers rounded toward zero, and 0 where b is 0">;
def NN_MaxOp : NN_BinaryOp<"max", "larger of two",
  "max(a, b), NaN if either is; where both are equal each gets half of the gradient",
  NN_NumberTensor, [ByGradient, Commutative]>;
def NN_MinOp : NN_BinaryOp<"min", "smaller of two",
  "min(a, b), NaN if either is; where both are equal each gets half of the gradient",
  NN_NumberTensor, [ByGradient, Commutative]>;
def NN_PowOp : NN_BinaryOp<"pow", "power", "a to the b; its gradient is taken for a > 0",
  NN_FloatTensor>;
def NN_AndOp : NN_BinaryOp<"and", "logical and", "a and b", NN_BoolTensor, [Commutative]>;
def NN_OrOp : NN_BinaryOp<"or", "logical or", "a or b", NN_BoolTensor, [Commutative]>;

def NN_CompareOp : NN_ElementwiseOp<"compare", [ByInference]> {
  let summary = "comparison";
  let description = [{
    True where the predicate holds: `eq`, `ne`, `lt`, `le`, `gt`, `ge`. A
    comparison with NaN is false, but for `ne`. Broadcasts.

    Example:

    ```mlir
    %m = nn.compare ge %targets, %zero : (tensor<4x8xi32>, tensor<i32>) -> tensor<4x8xi1>
    ```
  }];
  let arguments = (ins NN_PredicateAttr:$predicate, NN_NumberTensor:$lhs, NN_NumberTensor:$rhs);
  let results = (outs NN_BoolTensor:$result);
  let assemblyFormat = [{
    custom<Word>($predicate) $lhs `,` $rhs attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
}

def NN_SelectOp : NN_ElementwiseOp<"select", [ByInference, ByGradient]> {
  let summary = "choice between two values";
  let description = [{
    `on_true` where the condition holds, else `on_false`; what is not chosen may
    be NaN. Broadcasts.

    Example:

    ```mlir
    %y = nn.select %m, %a, %zero : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins NN_BoolTensor:$condition, NN_AnyTensor:$on_true, NN_AnyTensor:$on_false);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = [{
    $condition `,` $on_true `,` $on_false attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
}

def NN_CastOp : NN_ElementwiseOp<"cast", [ByGradient]> {
  let summary = "change of element type";
  let description = [{
    Floats round to nearest even; float to integer rounds toward zero; i1 gives 0
    or 1, and a number gives true where it is not 0. Gradients pass between
    floats, whatever the rounding; none goes to the bits.

    `saturate`, to bf16, f16 or an 8-bit float: what is larger than the largest
    finite number, infinity included, becomes that; NaN stays. A cast to an 8-bit
    float does so without the word, too. To f8E8M0FNU, which has powers of two only,
    a cast takes the magnitude and rounds up. To f4E2M1FN it saturates, and NaN becomes 6.

    `stochastic`, from f32 to bf16, f16, f8E4M3FN or f8E5M2: away from zero with the
    probability of what is cut off, by 32 random bits an element, those of `nn.random
    bits`; what is exact stays. `sheaf/Casts.h` has the code, docs/design/precision.md
    the table.

    Example:

    ```mlir
    %y = nn.cast %x : tensor<4x8xi32> -> tensor<4x8xf32>
    %z = nn.cast %y saturate : tensor<4x8xf32> -> tensor<4x8xf16>
    %w = nn.cast %y stochastic %bits saturate : tensor<4x8xf32>, tensor<4x8xi32> -> tensor<4x8xbf16>
    ```
  }];
  let arguments = (ins NN_AnyTensor:$input, Optional<NN_IntTensor>:$random, UnitAttr:$saturate);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = [{
    $input (`stochastic` $random^)? (`saturate` $saturate^)? attr-dict
    `:` type($input) (`,` type($random)^)? `->` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$input), [{
    build($_builder, $_state, type, input, ::mlir::Value(), /*saturate=*/false);
  }]>];
  let extraClassDeclaration = elementwiseRule # [{
    /// Whether it rounds to nearest and says nothing of what is too large.
    bool isPlain() { return !getRandom() && !getSaturate(); }
    /// Whether what is too large becomes the largest number, by the word or by the
    /// type of the result.
    bool saturates() {
      auto type = ::llvm::dyn_cast<::mlir::FloatType>(getType().getElementType());
      return getSaturate() || (type && type.getWidth() == 8);
    }
  }];
  let hasFolder = 1;
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Products and reductions
//===----------------------------------------------------------------------===//

def NN_EinsumOp : NN_Op<"einsum", [ByRule, ByGradient]> {
  let summary = "sum of products over named dimensions";
  let description = [{
    One letter a dimension; a letter that the result lacks is summed over. One or
    two operands; no letter twice in one operand or in the result; every letter
    of the result occurs in an operand. The letters are the factors along which
    the op can be sharded. Accumulates in the wider of f32 and the result's
    element type.

    Example:

    ```mlir
    %y = nn.einsum "bsd,df->bsf"(%x, %w) : (tensor<8x64x32xf32>, tensor<32x96xf32>) -> tensor<8x64x96xf32>
    ```
  }];
  let arguments = (ins StrAttr:$equation, Variadic<NN_FloatTensor>:$inputs);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $equation `` `(` $inputs `)` attr-dict `:` functional-type($inputs, $result)
  }];
  let builders = [
    // The result has the element type of the first operand.
    OpBuilder<(ins "::llvm::StringRef":$equation, "::mlir::ValueRange":$inputs)>];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def NN_ReduceOp : NN_Op<"reduce", [ByInference, ByRule, ByGradient]> {
  let summary = "reduction over dimensions";
  let description = [{
    `sum`, `max`, `min`, `mean` or `sum_of_squares` over the listed dimensions
    (ascending), which go away, or stay with size 1 under `keep`. Sums are kept
    in the wider of f32 and the element type. The gradient of `max` and `min` is
    shared equally by the elements that attain them.

    Example:

    ```mlir
    %a = nn.reduce sum %x dims [0, 2] : (tensor<4x8x16xf32>) -> tensor<8xf32>
    %b = nn.reduce max %x dims [2] keep : (tensor<4x8x16xf32>) -> tensor<4x8x1xf32>
    ```
  }];
  let arguments = (ins NN_ReduceKindAttr:$kind, NN_NumberTensor:$input,
                       DenseI64ArrayAttr:$dims, UnitAttr:$keep);
  let results = (outs NN_NumberTensor:$result);
  let assemblyFormat = [{
    custom<Word>($kind) $input `dims` $dims (`keep` $keep^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

def NN_ReshapeOp : NN_Op<"reshape", [ByRule, ByGradient]> {
  let summary = "the same elements in another shape";
  let description = [{
    Elements keep their row-major order.

    Example:

    ```mlir
    %y = nn.reshape %x : tensor<8x64x768xf32> -> tensor<8x64x12x64xf32>
    ```
  }];
  let arguments = (ins NN_AnyTensor:$input);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def NN_TransposeOp : NN_Op<"transpose", [ByInference, ByRule, ByGradient]> {
  let summary = "dimensions in another order";
  let description = [{
    Dimension i of the result is dimension `permutation[i]` of the input.

    Example:

    ```mlir
    %y = nn.transpose %x [0, 2, 1] : (tensor<4x8x16xf32>) -> tensor<4x16x8xf32>
    ```
  }];
  let arguments = (ins NN_AnyTensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "$input $permutation attr-dict `:` functional-type(operands, results)";
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def NN_BroadcastOp : NN_Op<"broadcast", [ByRule, ByGradient]> {
  let summary = "repetition along new or unit dimensions";
  let description = [{
    Dimension i of the input becomes dimension `dims[i]` of the result (ascending)
    and has its size, or size 1.

    Example:

    ```mlir
    %y = nn.broadcast %x dims [0, 2] : tensor<4x16xf32> -> tensor<4x8x16xf32>
    ```
  }];
  let arguments = (ins NN_AnyTensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "$input `dims` $dims attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def NN_SliceOp : NN_Op<"slice", [ByInference, ByRule, ByGradient]> {
  let summary = "a rectangular part";
  let description = [{
    Element i of the result along a dimension is element `offset + i * stride`.
    Strides are 1 where none are written.

    Example:

    ```mlir
    %y = nn.slice %x offsets [0, 8] sizes [4, 4] : (tensor<4x16xf32>) -> tensor<4x4xf32>
    %z = nn.slice %x offsets [0, 1] sizes [4, 8] strides [1, 2] : (tensor<4x16xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins NN_AnyTensor:$input, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$sizes,
                       OptionalAttr<DenseI64ArrayAttr>:$strides);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = [{
    $input `offsets` $offsets `sizes` $sizes (`strides` $strides^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// The stride of each dimension, written or not.
    ::llvm::SmallVector<int64_t> getAllStrides();
  }];
  let hasFolder = 1;
}

def NN_PadOp : NN_Op<"pad", [ByInference, ByRule, ByGradient]> {
  let summary = "a tensor with a border";
  let description = [{
    Adds `low` elements before, `high` after and `interior` between neighbours of
    each dimension, all equal to `value` (a number; 0 where it is not written).

    Example:

    ```mlir
    %y = nn.pad %x low [0, 1] high [0, 2] : (tensor<4x16xf32>) -> tensor<4x19xf32>
    %z = nn.pad %x low [0, 0] high [0, 0] interior [0, 1] value -1.0 : (tensor<4x16xf32>) -> tensor<4x31xf32>
    ```
  }];
  let arguments = (ins NN_AnyTensor:$input, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
                       OptionalAttr<DenseI64ArrayAttr>:$interior,
                       DefaultValuedAttr<F64Attr, "0.0">:$value);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = [{
    $input `low` $low `high` $high (`interior` $interior^)? (`value` $value^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// The elements between neighbours of each dimension, written or not.
    ::llvm::SmallVector<int64_t> getAllInterior();
  }];
  let hasFolder = 1;
}

def NN_ConcatenateOp : NN_Op<"concatenate", [ByInference, ByRule, ByGradient]> {
  let summary = "tensors one after another along a dimension";
  let description = [{
    Example:

    ```mlir
    %y = nn.concatenate %a, %b dim 1 : (tensor<4x8xf32>, tensor<4x3xf32>) -> tensor<4x11xf32>
    ```
  }];
  let arguments = (ins Variadic<NN_AnyTensor>:$inputs, NN_I64:$dim);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "$inputs `dim` $dim attr-dict `:` functional-type(operands, results)";
  let hasFolder = 1;
}

def NN_IotaOp : NN_Op<"iota", [ByRule]> {
  let summary = "the index along a dimension";
  let description = [{
    Example:

    ```mlir
    %y = nn.iota dim 1 : tensor<4x8xi32>
    ```
  }];
  let arguments = (ins NN_I64:$dim);
  let results = (outs NN_NumberTensor:$result);
  let assemblyFormat = "`dim` $dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def NN_ConstantOp : NN_Op<"constant", [ConstantLike, ByRule, AllTypesMatch<["value", "result"]>]> {
  let summary = "a constant tensor";
  let description = [{
    Example:

    ```mlir
    %y = nn.constant dense<0.0> : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = "$value attr-dict";
  let builders = [
    // A tensor of `type` with every element equal to `value`.
    OpBuilder<(ins "::mlir::RankedTensorType":$type, "double":$value)>];
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Indexed access
//===----------------------------------------------------------------------===//

def NN_GatherOp : NN_Op<"gather", [ByInference, ByRule, ByGradient]> {
  let summary = "slices of a table chosen by indices";
  let description = [{
    The first `batch` dimensions of table and indices belong together; dimension
    `axis` of the table is replaced by the other dimensions of the indices:
    `result[b..., p..., i..., s...] = table[b..., p..., indices[b..., i...], s...]`
    with p the dimensions between `batch` and `axis`. An index outside the table
    reads zeros. `batch` is 0 where it is not written.

    Example:

    ```mlir
    %y = nn.gather %table[%ids] axis 0 : (tensor<256x64xf32>, tensor<4x8xi32>) -> tensor<4x8x64xf32>
    %z = nn.gather %x[%top] axis 1 batch 1 : (tensor<4x16xf32>, tensor<4x2xi32>) -> tensor<4x2xf32>
    ```
  }];
  let arguments = (ins NN_AnyTensor:$table, NN_IntTensor:$indices, NN_I64:$axis,
                       DefaultValuedAttr<NN_I64, "0">:$batch);
  let results = (outs NN_AnyTensor:$result);
  let assemblyFormat = [{
    $table `[` $indices `]` `axis` $axis (`batch` $batch^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_GatherGradOp : NN_Op<"gather_grad", [ByRule, ByGradient]> {
  let summary = "the gradient of a gather by its table";
  let description = [{
    Adds each slice of `grad` to the slice of a zero table that `nn.gather` with
    the same attributes would have read, in the order of the indices. Indices
    outside the table are dropped.

    Example:

    ```mlir
    %g = nn.gather_grad %dy[%ids] axis 0 : (tensor<4x8x64xf32>, tensor<4x8xi32>) -> tensor<256x64xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$grad, NN_IntTensor:$indices, NN_I64:$axis,
                       DefaultValuedAttr<NN_I64, "0">:$batch);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $grad `[` $indices `]` `axis` $axis (`batch` $batch^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_EmbeddingOp : NN_Op<"embedding", [ByInference, ByRule, ByGradient, ByDecomposition]> {
  let summary = "rows of an embedding table";
  let description = [{
    `result[i...] = table[ids[i...]]`; an id outside the table gives zeros.

    Example:

    ```mlir
    %x = nn.embedding %table[%ids] : (tensor<256x64xf32>, tensor<4x8xi32>) -> tensor<4x8x64xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$table, NN_IntTensor:$ids);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$table `[` $ids `]` attr-dict `:` functional-type(operands, results)";
}

def NN_TopKOp : NN_Op<"top_k", [ByInference, ByRule, ByGradient]> {
  let summary = "the k largest along the last dimension";
  let description = [{
    Values in falling order and their indices; of equal values the lower index
    comes first. NaN counts as larger than any number.

    Example:

    ```mlir
    %values, %indices = nn.top_k %x k 2 : (tensor<4x16xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
    ```
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_I64:$k);
  let results = (outs NN_FloatTensor:$values, NN_IntTensor:$indices);
  let assemblyFormat = "$input `k` $k attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Random numbers
//===----------------------------------------------------------------------===//

def NN_RandomOp : NN_Op<"random", [ByRule]> {
  let summary = "random numbers that do not depend on the mesh";
  let description = [{
    `uniform` on [0, 1), `normal` with mean 0 and deviation 1, or `bits`, 32 of them
    as an i32, by Philox 4x32-10 (Salmon et al. 2011). `key` holds the seed's low and high word, the step and
    the number of the first sample; `stream` tells one use from another. The
    counter of an element is (index within the sample, sample, stream, step),
    where with `sample_dim` the index along dimension 0 counts samples, and
    without it the sample is 0. Uniform: (word0 >> 8) * 2^-24. Normal:
    sqrt(-2 log u) * cos(2 pi v) with u = ((word0 >> 8) + 1) * 2^-24 and
    v = (word1 >> 8) * 2^-24. Bits: word0. With `at %offsets of [sizes]` the result is a part of
    a tensor of those sizes: element i along dimension d has the index
    offsets[d] + i there, and is the number that the whole tensor has.

    Example:

    ```mlir
    %u = nn.random uniform %key, %stream sample_dim : (tensor<4xi32>, tensor<i32>) -> tensor<8x64xf32>
    %n = nn.random normal %key, %stream : (tensor<4xi32>, tensor<i32>) -> tensor<256x64xf32>
    %b = nn.random bits %key, %stream : (tensor<4xi32>, tensor<i32>) -> tensor<256x64xi32>
    %p = nn.random normal %key, %stream at %offsets of [256, 64] : (tensor<4xi32>, tensor<i32>, tensor<2xi32>) -> tensor<64x64xf32>
    ```
  }];
  let arguments = (ins NN_DistributionAttr:$distribution, NN_IntTensor:$key, NN_IntTensor:$stream,
                       Optional<NN_IntTensor>:$offsets, UnitAttr:$sample_dim,
                       OptionalAttr<DenseI64ArrayAttr>:$whole);
  let results = (outs NN_RandomTensor:$result);
  let assemblyFormat = [{
    custom<Word>($distribution) $key `,` $stream (`at` $offsets^ `of` $whole)?
    (`sample_dim` $sample_dim^)? attr-dict `:` functional-type(operands, results)
  }];
  let builders = [OpBuilder<(ins "::mlir::RankedTensorType":$type, "Distribution":$distribution,
                                 "::mlir::Value":$key, "::mlir::Value":$stream, "bool":$sample_dim), [{
    build($_builder, $_state, type, distribution, key, stream, ::mlir::Value(), sample_dim,
          ::mlir::DenseI64ArrayAttr());
  }]>];
  let extraClassDeclaration = [{
    /// The shape of the tensor that the counters count in.
    ::llvm::ArrayRef<int64_t> getWholeShape() {
      return getWhole() ? *getWhole() : getType().getShape();
    }
  }];
  let hasVerifier = 1;
}

def NN_DropoutOp : NN_Op<"dropout", [ByInference, ByRule, ByGradient, ByDecomposition]> {
  let summary = "elements set to zero at random";
  let description = [{
    With probability `rate` an element becomes 0, else it is divided by
    1 - rate (Srivastava et al. 2014). An element is kept where the uniform
    number of `nn.random` with `sample_dim` is at least `rate`. Programs that do
    not train (`loss`, `logits`) have none.

    Example:

    ```mlir
    %y = nn.dropout %x, %key, %stream rate 0.1 : (tensor<8x64xf32>, tensor<4xi32>, tensor<i32>) -> tensor<8x64xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_IntTensor:$key, NN_IntTensor:$stream,
                       F64Attr:$rate);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $key `,` $stream `rate` $rate attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Scaled 8-bit payloads
//===----------------------------------------------------------------------===//

def NN_QuantizeOp : NN_Op<"quantize", [ByInference, ByRule, ByDecomposition]> {
  let summary = "narrow floats and the factors that bring them back";
  let description = [{
    Cuts the input into blocks, scales each so that its largest magnitude, amax, is
    near the largest number of the payload's format, L (448 of f8E4M3FN, 57344 of
    f8E5M2, 6 of f4E2M1FN, 65504 of f16), and casts. `blocks` has the length of a block along each dimension, 0
    for the whole of it: `[0, 0]` is one block a tensor, `[1, 0]` one a row, `[1, 128]`
    and `[128, 128]` those of DeepSeek-V3, `[1, 32]` those of MX. Behind the last whole
    block of a dimension stands a shorter one. The second result has for each block the
    factor that `nn.dequantize` multiplies by: ceil(size / block) along a dimension.

    `exact`: scale = L / amax, payload = cast(x * scale), factor = 1 / scale, f32.
    `power_of_two`: the same with the scale rounded down to a power of two, so that
    nothing is rounded but the payload. A scale too large for f32 is the largest
    finite number, or 2^127. `e8m0`: factor = amax / L rounded up to a power of two,
    f8E8M0FNU, payload = cast(x / factor) (OCP Microscaling Formats 1.0, with the
    factor rounded up). Where amax is 0, infinite or NaN, scale and factor are 1.
    Everything is computed in f32; the cast saturates and keeps NaN, so that a finite
    tensor gives no NaN, and NaN stays where it is (f4E2M1FN has none: it becomes 6).

    It has no gradient: it is put in after differentiation. A dimension that is one of
    several blocks is sharded by whole blocks, one that is a single block is needed
    whole; `nn-decompose` before `dist-partition` reduces amax over the devices instead.

    Example:

    ```mlir
    %q, %f = nn.quantize %x to f8E4M3FN blocks [1, 128] scale exact
      : (tensor<8x256xf32>) -> (tensor<8x256xf8E4M3FN>, tensor<8x2xf32>)
    %p, %g = nn.quantize %x to f8E5M2 blocks [1, 32] scale e8m0
      : (tensor<8x256xf32>) -> (tensor<8x256xf8E5M2>, tensor<8x8xf8E8M0FNU>)
    ```
  }];
  let arguments = (ins NN_NarrowTensor:$input, NN_PayloadAttr:$format, DenseI64ArrayAttr:$blocks,
                       NN_ScaleRuleAttr:$scale);
  let results = (outs NN_PayloadTensor:$payload, NN_FactorTensor:$factors);
  let assemblyFormat = [{
    $input `to` $format `blocks` $blocks `scale` custom<Word>($scale) attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_DequantizeOp : NN_Op<"dequantize", [ByRule, ByDecomposition]> {
  let summary = "numbers from narrow floats and factors";
  let description = [{
    Each element times the factor of its block, in f32, rounded once to the result's
    type. `blocks` as in `nn.quantize`. It has no gradient.

    Example:

    ```mlir
    %x = nn.dequantize %q, %f blocks [1, 128] : (tensor<8x256xf8E4M3FN>, tensor<8x2xf32>) -> tensor<8x256xbf16>
    ```
  }];
  let arguments = (ins NN_PayloadTensor:$payload, NN_FactorTensor:$factors,
                       DenseI64ArrayAttr:$blocks);
  let results = (outs NN_NarrowTensor:$result);
  let assemblyFormat = [{
    $payload `,` $factors `blocks` $blocks attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_ScaledEinsumOp : NN_Op<"scaled_einsum", [ByRule, ByDecomposition]> {
  let summary = "product of 8-bit floats with factors";
  let description = [{
    `nn.einsum` of two payloads, each times the factors of its blocks; accumulates in
    f32 and rounds the sum once. It has the limits that are of kind, not of size:
    f8E5M2 times f8E5M2 and blocks of two dimensions times such are refused; a letter
    that is summed is cut alike in both operands; both have factors of one type. Its
    meaning is `nn.dequantize` of both to f32, `nn.einsum`, and a cast. It has no
    gradient.

    Example:

    ```mlir
    %y = nn.scaled_einsum "bk,nk->bn"(%a, %b) scales(%s, %t) blocks [1, 128], [128, 128]
      : (tensor<8x256xf8E4M3FN>, tensor<384x256xf8E4M3FN>, tensor<8x2xf32>, tensor<3x2xf32>) -> tensor<8x384xbf16>
    ```
  }];
  let arguments = (ins StrAttr:$equation, NN_PayloadTensor:$lhs, NN_PayloadTensor:$rhs,
                       NN_FactorTensor:$lhs_factors, NN_FactorTensor:$rhs_factors,
                       DenseI64ArrayAttr:$lhs_blocks, DenseI64ArrayAttr:$rhs_blocks);
  let results = (outs NN_NarrowTensor:$result);
  let assemblyFormat = [{
    $equation `` `(` $lhs `,` $rhs `)` `scales` `(` $lhs_factors `,` $rhs_factors `)`
    `blocks` $lhs_blocks `,` $rhs_blocks attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Composites of a transformer
//===----------------------------------------------------------------------===//

def NN_SoftmaxOp : NN_Op<"softmax", [SameOperandsAndResultType, ByRule, ByGradient, ByDecomposition]> {
  let summary = "softmax along a dimension";
  let description = [{
    e^(x - max) over its sum. A slice of only -infinity gives zeros.

    Example:

    ```mlir
    %y = nn.softmax %x dim 1 : tensor<4x16xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_I64:$dim);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input `dim` $dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def NN_LayerNormOp : NN_Op<"layer_norm", [ByInference, ByRule, ByGradient, ByDecomposition]> {
  let summary = "layer normalisation over the last dimension";
  let description = [{
    (x - mean) / sqrt(variance + eps) * scale + bias, with the biased variance
    (Ba et al. 2016).

    Example:

    ```mlir
    %y = nn.layer_norm %x, %scale, %bias eps 1.0e-5 : (tensor<8x64x32xf32>, tensor<32xf32>, tensor<32xf32>) -> tensor<8x64x32xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$scale, NN_FloatTensor:$bias,
                       F64Attr:$eps);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $scale `,` $bias `eps` $eps attr-dict `:` functional-type(operands, results)
  }];
}

def NN_RMSNormOp : NN_Op<"rms_norm", [ByInference, ByRule, ByGradient, ByDecomposition]> {
  let summary = "root-mean-square normalisation over the last dimension";
  let description = [{
    x / sqrt(mean(x^2) + eps) * scale (Zhang and Sennrich 2019).

    Example:

    ```mlir
    %y = nn.rms_norm %x, %scale eps 1.0e-5 : (tensor<8x64x32xf32>, tensor<32xf32>) -> tensor<8x64x32xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$scale, F64Attr:$eps);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $scale `eps` $eps attr-dict `:` functional-type(operands, results)
  }];
}

def NN_RotaryOp : NN_Op<"rotary", [ByInference, ByRule, ByGradient, ByDecomposition]> {
  let summary = "rotary position embedding";
  let description = [{
    Turns the pair (x[i], x[i + d/2]) of each head of even width d by the angle
    position * theta^(-2i/d) (Su et al. 2021, in the half-split layout of Hugging
    Face's models), or against it with `inverse`, which is its transpose. Input
    [batch, sequence, heads, d], positions [batch, sequence] or [sequence].

    Example:

    ```mlir
    %y = nn.rotary %x, %positions theta 10000.0 : (tensor<8x64x4x16xf32>, tensor<64xi32>) -> tensor<8x64x4x16xf32>
    %z = nn.rotary %x, %positions theta 500000.0 scaling <llama3, factor = 8.0, low = 1.0, high = 4.0, original = 8192>
      : (tensor<8x64x4x16xf32>, tensor<64xi32>) -> tensor<8x64x4x16xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_IntTensor:$positions, F64Attr:$theta,
                       OptionalAttr<NN_RopeScalingAttr>:$scaling, UnitAttr:$inverse);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $positions `theta` $theta (`scaling` $scaling^)? (`inverse` $inverse^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// The d/2 angles per position, in radians.
    ::llvm::SmallVector<double> getFrequencies();
  }];
}

def NN_AttentionOp : NN_Op<"attention", [AttrSizedOperandSegments, ByRule, ByGradient, ByDecomposition]> {
  let summary = "scaled dot-product attention";
  let description = [{
    query [B, S, H, D], key [B, T, G, D], value [B, T, G, Dv], result [B, S, H, Dv];
    H is a multiple of G and query head h reads key head h / (H/G). Query i has
    position i + T - S, or i + P where `from` gives the position P of the first one,
    a scalar: so a part of the queries sees what it does in the whole. Key j is
    visible to it where, as far as given,
    `causal`: j is not after it; `window` W: they are less than W apart;
    `documents`: their document numbers ([B, S] and [B, T]) are equal. Scores are
    scale * q.k + bias (bias [1 or B, 1 or H, S, T]; `scale` is 1/sqrt(D) where
    it is not written). A query that sees nothing gives zeros. The optional second
    result is the logarithm of the sum of exponentials of the scores, [B, S, H],
    -infinity where nothing is visible; it is f32 where the query is bf16 or f16.
    Scores are never stored.

    Example:

    ```mlir
    %y = nn.attention %q, %k, %v causal : (tensor<8x64x4x16xf32>, tensor<8x64x2x16xf32>, tensor<8x64x2x16xf32>) -> tensor<8x64x4x16xf32>
    %z, %lse = nn.attention %q, %k, %v bias %b documents %d, %d causal window 32 scale 0.25
      : (tensor<8x64x4x16xf32>, tensor<8x64x2x16xf32>, tensor<8x64x2x16xf32>, tensor<1x4x64x64xf32>, tensor<8x64xi32>, tensor<8x64xi32>)
      -> (tensor<8x64x4x16xf32>, tensor<8x64x4xf32>)
    %part = nn.slice %q offsets [0, 16, 0, 0] sizes [8, 16, 4, 16] : (tensor<8x64x4x16xf32>) -> tensor<8x16x4x16xf32>
    %begin = nn.constant dense<16> : tensor<i32>
    %w = nn.attention %part, %k, %v from %begin causal
      : (tensor<8x16x4x16xf32>, tensor<8x64x2x16xf32>, tensor<8x64x2x16xf32>, tensor<i32>) -> tensor<8x16x4x16xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$query, NN_FloatTensor:$key, NN_FloatTensor:$value,
                       Optional<NN_FloatTensor>:$bias,
                       Optional<NN_IntTensor>:$query_documents, Optional<NN_IntTensor>:$key_documents,
                       Optional<NN_IntTensor>:$first_position,
                       UnitAttr:$causal, OptionalAttr<NN_I64>:$window, OptionalAttr<F64Attr>:$scale);
  let results = (outs NN_FloatTensor:$result, Optional<NN_FloatTensor>:$lse);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`bias` $bias^)?
    (`documents` $query_documents^ `,` $key_documents)? (`from` $first_position^)?
    (`causal` $causal^)? (`window` $window^)? (`scale` $scale^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// The factor of the scores, written or not.
    double getScaleValue();
  }];
  let hasVerifier = 1;
}

def NN_AttentionGradOp : NN_Op<"attention_grad", [AttrSizedOperandSegments, ByRule, ByDecomposition]> {
  let summary = "the gradients of attention by query, key, value and bias";
  let description = [{
    Takes operands and results of the forward `nn.attention`, the gradient of its
    result and, optionally, of its log-sum-exp, and gives those of query, key,
    value and, if there is one, bias. Scores are computed again, tile by tile
    (Dao et al. 2022).

    Example:

    ```mlir
    %dq, %dk, %dv = nn.attention_grad %q, %k, %v result %y, %lse grad %dy causal
      : (tensor<8x64x4x16xf32>, tensor<8x64x2x16xf32>, tensor<8x64x2x16xf32>, tensor<8x64x4x16xf32>, tensor<8x64x4xf32>, tensor<8x64x4x16xf32>)
      -> (tensor<8x64x4x16xf32>, tensor<8x64x2x16xf32>, tensor<8x64x2x16xf32>)
    ```
  }];
  let arguments = (ins NN_FloatTensor:$query, NN_FloatTensor:$key, NN_FloatTensor:$value,
                       NN_FloatTensor:$forward_result, NN_FloatTensor:$lse, NN_FloatTensor:$grad,
                       Optional<NN_FloatTensor>:$lse_grad,
                       Optional<NN_FloatTensor>:$bias,
                       Optional<NN_IntTensor>:$query_documents, Optional<NN_IntTensor>:$key_documents,
                       Optional<NN_IntTensor>:$first_position,
                       UnitAttr:$causal, OptionalAttr<NN_I64>:$window, OptionalAttr<F64Attr>:$scale);
  let results = (outs NN_FloatTensor:$query_grad, NN_FloatTensor:$key_grad,
                      NN_FloatTensor:$value_grad, Optional<NN_FloatTensor>:$bias_grad);
  let assemblyFormat = [{
    $query `,` $key `,` $value `result` $forward_result `,` $lse
    `grad` $grad (`,` $lse_grad^)? (`bias` $bias^)?
    (`documents` $query_documents^ `,` $key_documents)? (`from` $first_position^)?
    (`causal` $causal^)? (`window` $window^)? (`scale` $scale^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// The factor of the scores, written or not.
    double getScaleValue();
  }];
  let hasVerifier = 1;
}

def NN_CrossEntropyOp : NN_Op<"cross_entropy", [ByInference, ByRule, ByGradient, ByDecomposition]> {
  let summary = "the loss of each token";
  let description = [{
    For logits [..., V] and targets [...]: lse - logits[target], with lse the
    logarithm of the sum of exponentials over the vocabulary. With `smoothing` e it
    is lse - (1 - e) * logits[target] - e * mean(logits) (Szegedy et al. 2016). A
    target outside [0, V) is ignored: loss and gradient are 0. The second result
    is lse. Both are f32 where the logits are bf16 or f16.

    Example:

    ```mlir
    %loss, %lse = nn.cross_entropy %logits, %targets : (tensor<8x64x256xf32>, tensor<8x64xi32>) -> (tensor<8x64xf32>, tensor<8x64xf32>)
    %l2, %lse2 = nn.cross_entropy %logits, %targets smoothing 0.1 : (tensor<8x64x256xf32>, tensor<8x64xi32>) -> (tensor<8x64xf32>, tensor<8x64xf32>)
    ```
  }];
  let arguments = (ins NN_FloatTensor:$logits, NN_IntTensor:$targets,
                       DefaultValuedAttr<F64Attr, "0.0">:$smoothing);
  let results = (outs NN_FloatTensor:$loss, NN_FloatTensor:$lse);
  let assemblyFormat = [{
    $logits `,` $targets (`smoothing` $smoothing^)? attr-dict `:` functional-type(operands, results)
  }];
}

def NN_CrossEntropyGradOp : NN_Op<"cross_entropy_grad", [ByRule, ByDecomposition]> {
  let summary = "the gradient of cross entropy by the logits";
  let description = [{
    grad * (e^(logits - lse) - onehot), with onehot smoothed as in the forward,
    plus lse_grad * e^(logits - lse) where `lse_grad` is given; `grad` counts as
    0 for an ignored target. What is per token is f32 where the logits are bf16 or
    f16.

    Example:

    ```mlir
    %d = nn.cross_entropy_grad %logits, %targets, %lse grad %g
      : (tensor<8x64x256xf32>, tensor<8x64xi32>, tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64x256xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$logits, NN_IntTensor:$targets, NN_FloatTensor:$lse,
                       NN_FloatTensor:$grad, Optional<NN_FloatTensor>:$lse_grad,
                       DefaultValuedAttr<F64Attr, "0.0">:$smoothing);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $logits `,` $targets `,` $lse `grad` $grad (`,` $lse_grad^)? (`smoothing` $smoothing^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Mixture of experts
//===----------------------------------------------------------------------===//

def NN_RouteOp : NN_Op<"route", [ByInference, ByRule, ByGradient, ByDecomposition]> {
  let summary = "the experts of each token and their weights";
  let description = [{
    Logits [..., E] become scores, `softmax` over the experts or `sigmoid` of each.
    The k experts of a token are those with the largest score plus bias ([E], where
    there is one), the largest first, of equal ones the lowest. With
    `groups G keep M best N` the experts are G equal groups; a group counts as much
    as its N best experts (score plus bias) together, and only experts of the M best
    groups can be chosen (DeepSeek-AI 2024, section 2.1.2). The weights [..., k] are
    the scores of the chosen, without the bias; with `normalised` over their sum plus
    1e-20; times `scale`. They are f32 where the logits are bf16 or f16.

    The bias has no gradient: what stands in its place is how many tokens chose each
    expert, from which `balance` parameters are updated.

    Example:

    ```mlir
    %w, %e = nn.route softmax %x k 2 normalised : (tensor<4x16x8xf32>) -> (tensor<4x16x2xf32>, tensor<4x16x2xi32>)
    %v, %f = nn.route sigmoid %x bias %b k 2 groups 4 keep 2 best 2 normalised scale 2.5
      : (tensor<4x16x8xf32>, tensor<8xf32>) -> (tensor<4x16x2xf32>, tensor<4x16x2xi32>)
    ```
  }];
  let arguments = (ins NN_ScoresAttr:$scores, NN_FloatTensor:$logits,
                       Optional<NN_FloatTensor>:$bias, NN_I64:$k,
                       DefaultValuedAttr<NN_I64, "1">:$groups,
                       DefaultValuedAttr<NN_I64, "1">:$groups_kept,
                       DefaultValuedAttr<NN_I64, "1">:$group_best,
                       UnitAttr:$normalised, DefaultValuedAttr<F64Attr, "1.0">:$scale);
  let results = (outs NN_FloatTensor:$weights, NN_IntTensor:$experts);
  let assemblyFormat = [{
    custom<Word>($scores) $logits (`bias` $bias^)? `k` $k
    (`groups` $groups^ `keep` $groups_kept `best` $group_best)?
    (`normalised` $normalised^)? (`scale` $scale^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_ExpertSortOp : NN_Op<"expert_sort", [ByInference, ByRule, ByDecomposition]> {
  let summary = "assignments in the order of their experts";
  let description = [{
    The assignments of a group (dimension 0), token s and choice j as number s * k + j,
    sorted by expert and, for one expert, by number. `order` [B, R] has the number in
    each row, -1 past the last; `position` [B, S, k] the row of each assignment, -1
    where it is dropped; expert e has the rows from `offsets` [B, E + 1] e on, up to
    those of e + 1. With `capacity` C only the first C of an expert in each group stay,
    the others are dropped, as are experts outside [0, E). R is the most rows that a
    group can have: S * k, and no more than E * C.

    Example:

    ```mlir
    %order, %position, %offsets = nn.expert_sort %e of 8
      : (tensor<4x16x2xi32>) -> (tensor<4x32xi32>, tensor<4x16x2xi32>, tensor<4x9xi32>)
    %o, %p, %q = nn.expert_sort %e of 8 capacity 3
      : (tensor<4x16x2xi32>) -> (tensor<4x24xi32>, tensor<4x16x2xi32>, tensor<4x9xi32>)
    ```
  }];
  let arguments = (ins NN_IntTensor:$experts, NN_I64:$count, OptionalAttr<NN_I64>:$capacity);
  let results = (outs NN_IntTensor:$order, NN_IntTensor:$position, NN_IntTensor:$offsets);
  let assemblyFormat = [{
    $experts `of` $count (`capacity` $capacity^)? attr-dict `:` functional-type(operands, results)
  }];
}

def NN_DispatchOp : NN_Op<"dispatch", [ByInference, ByRule, ByGradient, ByDecomposition]> {
  let summary = "the tokens of each row, in the order of experts";
  let description = [{
    Row r of a group is its token order[r] / k, times weights[order[r]] where there are
    weights [B, S, k]; zeros where order[r] is negative. `order` and `position` are
    those of `nn.expert_sort`.

    Example:

    ```mlir
    %y = nn.dispatch %x, %order, %position
      : (tensor<4x16x32xf32>, tensor<4x32xi32>, tensor<4x16x2xi32>) -> tensor<4x32x32xf32>
    %z = nn.dispatch %x, %order, %position weights %w
      : (tensor<4x16x32xf32>, tensor<4x32xi32>, tensor<4x16x2xi32>, tensor<4x16x2xf32>) -> tensor<4x32x32xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_IntTensor:$order, NN_IntTensor:$position,
                       Optional<NN_FloatTensor>:$weights);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $order `,` $position (`weights` $weights^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_CombineOp : NN_Op<"combine", [ByInference, ByRule, ByGradient, ByDecomposition]> {
  let summary = "the rows of each token, added up";
  let description = [{
    Token s of a group is the sum over its choices j of row position[s, j], times
    weights[s, j] where there are weights [B, S, k]; a dropped assignment adds nothing.
    The transpose of `nn.dispatch`.

    Example:

    ```mlir
    %y = nn.combine %x, %order, %position
      : (tensor<4x32x32xf32>, tensor<4x32xi32>, tensor<4x16x2xi32>) -> tensor<4x16x32xf32>
    %z = nn.combine %x, %order, %position weights %w
      : (tensor<4x32x32xf32>, tensor<4x32xi32>, tensor<4x16x2xi32>, tensor<4x16x2xf32>) -> tensor<4x16x32xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$input, NN_IntTensor:$order, NN_IntTensor:$position,
                       Optional<NN_FloatTensor>:$weights);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $order `,` $position (`weights` $weights^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_GroupedMatmulOp : NN_Op<"grouped_matmul", [ByInference, ByRule, ByGradient, ByDecomposition]> {
  let summary = "each row times the matrix of its expert";
  let description = [{
    Rows [B, R, K], weights [E, K, N], or [E, N, K] where `transposed`, offsets
    [B, E + 1]: the rows offsets[e] to offsets[e + 1] of a group are multiplied by
    matrix e. Rows past offsets[E] are not read and give zeros. Accumulates in the
    wider of f32 and the element type. All three may have one more dimension in front,
    the parts of `nn.bucket`: each part has experts, and rows, of its own.

    Example:

    ```mlir
    %y = nn.grouped_matmul %x, %w, %offsets : (tensor<4x32x16xf32>, tensor<8x16x24xf32>, tensor<4x9xi32>) -> tensor<4x32x24xf32>
    %z = nn.grouped_matmul %x, %u, %offsets transposed : (tensor<4x32x16xf32>, tensor<8x24x16xf32>, tensor<4x9xi32>) -> tensor<4x32x24xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$rows, NN_FloatTensor:$matrices, NN_IntTensor:$offsets,
                       UnitAttr:$transposed);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    $rows `,` $matrices `,` $offsets (`transposed` $transposed^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_BucketOp : NN_Op<"bucket", [ByRule, ByGradient, ByDecomposition]> {
  let summary = "the rows of each part of the experts";
  let description = [{
    Rows [B, R, H] in the order of E experts, with their offsets [B, E + 1], become
    [P, B, M, H]: part p has experts p * E/P to (p + 1) * E/P, and its rows of a group
    are the first M of those, zeros where there are fewer. Sharded over the parts, the
    rows are where their experts are; what it takes to move them there follows from the
    sharding of the result.

    Example:

    ```mlir
    %y = nn.bucket %x, %offsets : (tensor<4x32x16xf32>, tensor<4x9xi32>) -> tensor<2x4x32x16xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$rows, NN_IntTensor:$offsets);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$rows `,` $offsets attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def NN_UnbucketOp : NN_Op<"unbucket", [ByRule, ByGradient, ByDecomposition]> {
  let summary = "the rows of all parts of the experts, one after another";
  let description = [{
    The transpose of `nn.bucket`: row r of a group is the row that `nn.bucket` took it
    to, zeros past the last of them and where it was left out.

    Example:

    ```mlir
    %y = nn.unbucket %x, %offsets : (tensor<2x4x32x16xf32>, tensor<4x9xi32>) -> tensor<4x32x16xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$rows, NN_IntTensor:$offsets);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$rows `,` $offsets attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def NN_GroupedOuterOp : NN_Op<"grouped_outer", [ByInference, ByRule, ByGradient, ByDecomposition]> {
  let summary = "for each expert, the sum of the outer products of its rows";
  let description = [{
    Rows [B, R, K] and [B, R, N], offsets [B, E + 1]: matrix e of the result
    [E, K, N] is the sum over all groups and over the rows offsets[e] to
    offsets[e + 1] of lhs[r]^T rhs[r]: the gradient of `nn.grouped_matmul` by its
    matrices. Zeros for an expert without rows. With a dimension of parts in front of
    all three the result has it, too.

    Example:

    ```mlir
    %g = nn.grouped_outer %x, %dy, %offsets : (tensor<4x32x16xf32>, tensor<4x32x24xf32>, tensor<4x9xi32>) -> tensor<8x16x24xf32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$lhs, NN_FloatTensor:$rhs, NN_IntTensor:$offsets);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs `,` $offsets attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// The training step
//===----------------------------------------------------------------------===//

def NN_StepMeanOp : NN_Op<"step_mean", [ByInference, ByRule, ByGradient, ByDecomposition]> {
  let summary = "mean over the whole step";
  let description = [{
    sum(values * weights) / max(sum(weights), 1), where the sum of the weights goes
    over the whole step: all samples of the global batch, all microbatches. The
    weights depend on batch arguments alone, so that their sum is known before the
    first microbatch; no gradient goes to them. This is how a model states its
    loss: the sum over valid tokens over their count. `values` where the weight is
    0 do not count, NaN included.

    Example:

    ```mlir
    %loss = nn.step_mean %losses weights %valid : (tensor<8x64xf32>, tensor<8x64xi1>) -> tensor<f32>
    ```
  }];
  let arguments = (ins NN_FloatTensor:$values, NN_WeightTensor:$weights);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$values `weights` $weights attr-dict `:` functional-type(operands, results)";
}

def NN_StepSumOp : NN_Op<"step_sum", [ByRule, ByDecomposition]> {
  let summary = "sum over the whole step";
  let description = [{
    sum(weights), where true counts as 1, over all samples of the global batch and
    all microbatches: what `nn.step_mean` divides by, if it is not less than 1. The
    gradient of `nn.step_mean` reads it. `nn-accumulate` computes it once, in front
    of the first microbatch.

    Example:

    ```mlir
    %n = nn.step_sum %valid : tensor<8x64xi1> -> tensor<f32>
    ```
  }];
  let arguments = (ins NN_WeightTensor:$weights);
  let results = (outs NN_Scalar:$result);
  let assemblyFormat = "$weights attr-dict `:` type($weights) `->` type($result)";
}

def NN_AdamWOp : NN_Op<"adamw", [ByInference, ByRule, ByDecomposition]> {
  let summary = "one AdamW update of a tensor";
  let description = [{
    With g = grad * grad_scale: m' = beta1 m + (1 - beta1) g,
    v' = beta2 v + (1 - beta2) g^2,
    p' = p - lr * (decay * p + (m' / correction1) / (sqrt(v' / correction2) + eps))
    (Loshchilov and Hutter 2019). The corrections are 1 - beta^(step + 1). All
    scalars are device data, so that a schedule changes nothing in the program.

    Example:

    ```mlir
    %p1, %m1, %v1 = nn.adamw %p, %g, %m, %v lr %lr beta1 %b1 beta2 %b2 eps %eps decay %wd
      corrections %c1, %c2 grad_scale %s
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<f32>, tensor<f32>,
         tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>)
    ```
  }];
  let arguments = (ins NN_FloatTensor:$parameter, NN_FloatTensor:$grad, NN_FloatTensor:$moment1,
                       NN_FloatTensor:$moment2, NN_Scalar:$lr, NN_Scalar:$beta1, NN_Scalar:$beta2,
                       NN_Scalar:$eps, NN_Scalar:$decay, NN_Scalar:$correction1,
                       NN_Scalar:$correction2, NN_Scalar:$grad_scale);
  let results = (outs NN_FloatTensor:$new_parameter, NN_FloatTensor:$new_moment1,
                      NN_FloatTensor:$new_moment2);
  let assemblyFormat = [{
    $parameter `,` $grad `,` $moment1 `,` $moment2 `lr` $lr `beta1` $beta1 `beta2` $beta2
    `eps` $eps `decay` $decay `corrections` $correction1 `,` $correction2 `grad_scale` $grad_scale
    attr-dict `:` functional-type(operands, results)
  }];
}

def NN_SGDOp : NN_Op<"sgd", [ByInference, ByRule, ByDecomposition]> {
  let summary = "one update of a tensor by stochastic gradient descent";
  let description = [{
    With g = grad * grad_scale: b' = momentum * b + g; p' = p - lr * (decay * p + b').

    Example:

    ```mlir
    %p1, %b1 = nn.sgd %p, %g, %b lr %lr momentum %mu decay %wd grad_scale %s
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>)
    ```
  }];
  let arguments = (ins NN_FloatTensor:$parameter, NN_FloatTensor:$grad, NN_FloatTensor:$buffer,
                       NN_Scalar:$lr, NN_Scalar:$momentum, NN_Scalar:$decay, NN_Scalar:$grad_scale);
  let results = (outs NN_FloatTensor:$new_parameter, NN_FloatTensor:$new_buffer);
  let assemblyFormat = [{
    $parameter `,` $grad `,` $buffer `lr` $lr `momentum` $momentum `decay` $decay
    `grad_scale` $grad_scale attr-dict `:` functional-type(operands, results)
  }];
}

def NN_MicrobatchesOp : NN_Op<"microbatches", [AttrSizedOperandSegments, RecursiveMemoryEffects,
    SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "the loop over the microbatches of a step";
  let description = [{
    Runs the body `count` times, in order. The body's arguments are the number of
    the microbatch (tensor<i32>), its part of each sliced operand (dimension 0
    divided by `count`), and the accumulators, which start as `inits` and go on as
    what the body yields; their last values are the results. Other values are
    captured.

    Example:

    ```mlir
    %sum = nn.microbatches 4 slices(%tokens : tensor<8x64xi32>) inits(%zero : tensor<f32>) -> tensor<f32> {
    ^bb0(%k: tensor<i32>, %part: tensor<2x64xi32>, %acc: tensor<f32>):
      %x = nn.cast %part : tensor<2x64xi32> -> tensor<2x64xf32>
      %s = nn.reduce sum %x dims [0, 1] : (tensor<2x64xf32>) -> tensor<f32>
      %next = nn.add %acc, %s : tensor<f32>
      nn.yield %next : tensor<f32>
    }
    ```
  }];
  let arguments = (ins NN_I64:$count, Variadic<NN_AnyTensor>:$sliced, Variadic<NN_AnyTensor>:$inits);
  let results = (outs Variadic<NN_AnyTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $count (`slices` `(` $sliced^ `:` type($sliced) `)`)? (`inits` `(` $inits^ `:` type($inits) `)`)?
    (`->` type($results)^)? attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def NN_FusedOp : NN_Op<"fused", [IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "ops that become one kernel";
  let description = [{
    Computes its results by the ops of its region, whose block has the inputs as
    arguments. What only the region uses is never stored. `in_place` has pairs
    (input, result), flat: the result may be computed in the memory of the input.
    Made by `nn-fuse` after everything that looks at ops one by one; it has no
    sharding rule and no gradient.

    Example:

    ```mlir
    %y = nn.fused(%x : tensor<4x8xf32>) -> tensor<4x8xf32> in_place [0, 0] {
    ^bb0(%a: tensor<4x8xf32>):
      %s = nn.sigmoid %a : tensor<4x8xf32>
      %m = nn.mul %a, %s : tensor<4x8xf32>
      nn.yield %m : tensor<4x8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<NN_AnyTensor>:$inputs,
                       OptionalAttr<DenseI64ArrayAttr>:$in_place);
  let results = (outs Variadic<NN_AnyTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`(` $inputs^ `:` type($inputs) `)`)? `->` type($results) (`in_place` $in_place^)?
    attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
}

def NN_YieldOp : NN_Op<"yield", [Terminator, ParentOneOf<["MicrobatchesOp", "FusedOp"]>]> {
  let summary = "the end of a microbatch or of fused ops";
  let description = [{
    Hands the accumulators to the next microbatch, or gives the results.

    Example:

    ```mlir
    nn.yield %next : tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<NN_AnyTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

#endif // SHEAF_NN_OPS_TD
