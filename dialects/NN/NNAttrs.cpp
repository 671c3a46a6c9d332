//===- NNAttrs.cpp - Text form of the attributes of nn --------------------===//

#include "dialects/NN/NN.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sheaf::nn;

#define GET_ATTRDEF_CLASSES
#include "dialects/NN/NNAttrs.cpp.inc"

void NNDialect::registerNNAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/NN/NNAttrs.cpp.inc"
      >();
}

static ParseResult parseNumber(AsmParser &parser, double &value) {
  if (succeeded(parser.parseOptionalKeyword("inf")))
    return parser.emitError(parser.getCurrentLocation(),
                            "expected a finite number");
  bool negative = succeeded(parser.parseOptionalMinus());
  int64_t integer;
  OptionalParseResult isInteger = parser.parseOptionalInteger(integer);
  if (isInteger.has_value()) {
    if (failed(*isInteger))
      return failure();
    value = static_cast<double>(integer);
  } else if (failed(parser.parseFloat(value))) {
    return failure();
  }
  if (negative)
    value = -value;
  return success();
}

/// The shortest text that reads back as the same number: `0.02`, `1`, `1.0e-5`.
static void printNumber(raw_ostream &os, const llvm::APFloat &value) {
  SmallString<24> text;
  for (unsigned digits = 1; digits <= 17; ++digits) {
    text.clear();
    value.toString(text, digits, /*FormatMaxPadding=*/4,
                   /*TruncateZero=*/true);
    // The parser takes an exponent after a fraction only.
    if (size_t e = text.find_first_of("eE");
        e != StringRef::npos && !StringRef(text).contains('.'))
      text.insert(text.begin() + e, {'.', '0'});
    if (llvm::APFloat(value.getSemantics(), text).bitwiseIsEqual(value))
      break;
  }
  os << text;
}

Attribute ParamAttr::parse(AsmParser &parser, Type) {
  std::string name;
  SmallVector<StringAttr> axes;
  if (parser.parseLess() || parser.parseString(&name) || parser.parseComma() ||
      parser.parseKeyword("axes") || parser.parseEqual() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        StringRef axis;
        if (parser.parseKeyword(&axis))
          return failure();
        axes.push_back(parser.getBuilder().getStringAttr(axis));
        return success();
      }))
    return {};
  Init init = Init::Constant;
  double value = 0;
  if (parser.parseComma() || parser.parseKeyword("init") || parser.parseEqual())
    return {};
  StringRef kind;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&kind))
    return {};
  std::optional<Init> symbol = symbolizeInit(kind);
  if (!symbol) {
    parser.emitError(loc, "unknown initialiser '")
        << kind << "', expected 'constant' or 'normal'";
    return {};
  }
  init = *symbol;
  if (parser.parseLParen() || parseNumber(parser, value) ||
      parser.parseRParen())
    return {};
  bool frozen = false, decay = true;
  double balance = 0;
  while (succeeded(parser.parseOptionalComma())) {
    StringRef flag;
    loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&flag))
      return {};
    if (flag == "frozen")
      frozen = true;
    else if (flag == "no_decay")
      decay = false;
    else if (flag == "balance") {
      if (parser.parseLParen() || parseNumber(parser, balance) ||
          parser.parseRParen())
        return {};
      if (!(balance > 0)) {
        parser.emitError(loc, "balance is ")
            << balance << ", expected a positive number";
        return {};
      }
    } else {
      parser.emitError(loc, "unknown flag '")
          << flag << "', expected 'frozen', 'no_decay' or 'balance'";
      return {};
    }
  }
  if (parser.parseGreater())
    return {};
  return ParamAttr::get(
      parser.getContext(), parser.getBuilder().getStringAttr(name), axes, init,
      llvm::APFloat(value), frozen, decay, llvm::APFloat(balance));
}

void ParamAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printString(getName());
  printer << ", axes = [";
  llvm::interleaveComma(getAxes(), printer,
                        [&](StringAttr axis) { printer << axis.getValue(); });
  printer << "], init = " << stringifyInit(getInit()) << "(";
  printNumber(printer.getStream(), getInitValue());
  printer << ")";
  if (getFrozen())
    printer << ", frozen";
  if (!getDecay())
    printer << ", no_decay";
  if (!getBalance().isZero()) {
    printer << ", balance(";
    printNumber(printer.getStream(), getBalance());
    printer << ")";
  }
  printer << ">";
}

Attribute RopeScalingAttr::parse(AsmParser &parser, Type) {
  StringRef kind;
  double factor, low, high;
  int64_t original;
  SMLoc loc = parser.getCurrentLocation();
  auto field = [&](StringRef name) -> ParseResult {
    return failure(parser.parseComma() || parser.parseKeyword(name) ||
                   parser.parseEqual());
  };
  if (parser.parseLess() || parser.parseKeyword(&kind) || field("factor") ||
      parseNumber(parser, factor) || field("low") || parseNumber(parser, low) ||
      field("high") || parseNumber(parser, high) || field("original") ||
      parser.parseInteger(original) || parser.parseGreater())
    return {};
  return RopeScalingAttr::getChecked(
      [&] { return parser.emitError(loc); }, parser.getContext(), kind,
      llvm::APFloat(factor), llvm::APFloat(low), llvm::APFloat(high), original);
}

void RopeScalingAttr::print(AsmPrinter &printer) const {
  raw_ostream &os = printer.getStream();
  os << "<" << getKind() << ", factor = ";
  printNumber(os, getFactor());
  os << ", low = ";
  printNumber(os, getLow());
  os << ", high = ";
  printNumber(os, getHigh());
  os << ", original = " << getOriginal() << ">";
}

LogicalResult
RopeScalingAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                        StringRef kind, llvm::APFloat factor, llvm::APFloat low,
                        llvm::APFloat high, int64_t original) {
  if (!llvm::is_contained({"linear", "llama3", "yarn"}, kind))
    return emitError() << "unknown rotary scaling '" << kind
                       << "', expected 'linear', 'llama3' or 'yarn'";
  if (!(factor.convertToDouble() > 0))
    return emitError() << "rotary scaling factor must be positive";
  if (kind != "linear" && (!(high.convertToDouble() > low.convertToDouble()) ||
                           !(low.convertToDouble() > 0) || original < 1))
    return emitError() << kind
                       << " rotary scaling expects 0 < low < high and "
                          "original >= 1";
  return success();
}
