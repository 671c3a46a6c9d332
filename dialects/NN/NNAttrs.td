//===- NNAttrs.td - Attributes of nn -----------------------*- tablegen -*-===//

#ifndef SHEAF_NN_ATTRS_TD
#define SHEAF_NN_ATTRS_TD

include "NNDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class NN_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::sheaf::nn";
  let genSpecializedAttr = 0;
}
class NN_EnumAttr<EnumAttrInfo info, string name>
    : EnumAttr<NN_Dialect, info, name> {
  let assemblyFormat = "$value";
}

def NN_ReduceKind : NN_Enum<"ReduceKind", "how a reduction combines elements", [
  I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">,
  I32EnumAttrCase<"Min", 2, "min">, I32EnumAttrCase<"Mean", 3, "mean">,
  I32EnumAttrCase<"SumOfSquares", 4, "sum_of_squares">]>;
def NN_ReduceKindAttr : NN_EnumAttr<NN_ReduceKind, "reduce_kind">;

def NN_Predicate : NN_Enum<"Predicate", "a comparison", [
  I32EnumAttrCase<"EQ", 0, "eq">, I32EnumAttrCase<"NE", 1, "ne">,
  I32EnumAttrCase<"LT", 2, "lt">, I32EnumAttrCase<"LE", 3, "le">,
  I32EnumAttrCase<"GT", 4, "gt">, I32EnumAttrCase<"GE", 5, "ge">]>;
def NN_PredicateAttr : NN_EnumAttr<NN_Predicate, "predicate">;

def NN_Distribution : NN_Enum<"Distribution", "a distribution of random numbers", [
  I32EnumAttrCase<"Uniform", 0, "uniform">, I32EnumAttrCase<"Normal", 1, "normal">,
  I32EnumAttrCase<"Bits", 2, "bits">]>;
def NN_DistributionAttr : NN_EnumAttr<NN_Distribution, "distribution">;

def NN_ScaleRule : NN_Enum<"ScaleRule",
  "how the factor of a block follows from its largest magnitude", [
  I32EnumAttrCase<"Exact", 0, "exact">, I32EnumAttrCase<"PowerOfTwo", 1, "power_of_two">,
  I32EnumAttrCase<"E8M0", 2, "e8m0">]>;
def NN_ScaleRuleAttr : NN_EnumAttr<NN_ScaleRule, "scale_rule">;

/// The element type of a payload.
def NN_PayloadAttr : TypeAttrBase<"::mlir::FloatType",
  "f8E4M3FN, f8E5M2, f4E2M1FN or f16",
  CPred<"::sheaf::nn::isPayload($_self)">>;

def NN_Scores : NN_Enum<"Scores", "how a router's logits become scores", [
  I32EnumAttrCase<"Softmax", 0, "softmax">, I32EnumAttrCase<"Sigmoid", 1, "sigmoid">]>;
def NN_ScoresAttr : NN_EnumAttr<NN_Scores, "scores">;

def NN_Init : NN_Enum<"Init", "how a parameter starts", [
  I32EnumAttrCase<"Constant", 0, "constant">, I32EnumAttrCase<"Normal", 1, "normal">]>;

class NN_Attr<string name, string mnemonicText> : AttrDef<NN_Dialect, name> {
  let mnemonic = mnemonicText;
}

def NN_ParamAttr : NN_Attr<"Param", "param"> {
  let summary = "what a function argument is as a parameter of the model";
  let description = [{
    The name under which the parameter is saved; the logical axis of each of its
    dimensions (`_` where a dimension has none); how it starts: `constant(c)`
    or `normal(s)` with mean 0 and standard deviation s; `frozen` if it is not
    trained; `no_decay` if weight decay leaves it alone. `balance(r)`: a bias of
    `nn.route` for each expert, which a step raises by r where fewer tokens than the
    mean chose the expert and lowers by r where more did (Wang et al. 2024), and which
    the optimizer leaves alone.

    Example:

    ```mlir
    func.func @loss(%w: tensor<256x64xf32>
        {nn.param = #nn.param<"wte.weight", axes = [vocab, embed], init = normal(0.02)>},
        %g: tensor<64xf32>
        {nn.param = #nn.param<"ln_f.weight", axes = [embed], init = constant(1), no_decay>},
        %b: tensor<8xf32>
        {nn.param = #nn.param<"gate.bias", axes = [expert], init = constant(0), no_decay, balance(0.001)>})
    ```
  }];
  let parameters = (ins
    "::mlir::StringAttr":$name,
    ArrayRefParameter<"::mlir::StringAttr">:$axes,
    EnumParameter<NN_Init>:$init,
    APFloatParameter<"a finite number">:$initValue,
    "bool":$frozen,
    "bool":$decay,
    APFloatParameter<"how far a step moves it, 0 where the optimizer trains it">:$balance);
  let hasCustomAssemblyFormat = 1;
}

def NN_RopeScalingAttr : NN_Attr<"RopeScaling", "rope_scaling"> {
  let summary = "how rotary frequencies are stretched for long contexts";
  let description = [{
    `linear` divides every frequency by `factor`. `llama3` leaves wavelengths
    below `original / high` alone, divides those above `original / low` by
    `factor`, and goes smoothly from one to the other between (the `rope_scaling`
    of Llama 3.1's configuration). `yarn` divides frequencies that turn less than
    `low` times within `original` tokens by `factor`, leaves those alone that turn more
    than `high` times, and goes in a straight line over the frequencies between (Peng
    et al. 2023; the factor of the logits is the model's business).

    Example:

    ```mlir
    #nn.rope_scaling<llama3, factor = 8.0, low = 1.0, high = 4.0, original = 8192>
    #nn.rope_scaling<linear, factor = 2.0, low = 1.0, high = 1.0, original = 0>
    #nn.rope_scaling<yarn, factor = 40.0, low = 1.0, high = 32.0, original = 4096>
    ```
  }];
  let parameters = (ins
    StringRefParameter<"`linear`, `llama3` or `yarn`">:$kind,
    APFloatParameter<"">:$factor, APFloatParameter<"">:$low,
    APFloatParameter<"">:$high, "int64_t":$original);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // SHEAF_NN_ATTRS_TD
