//===- DistAttrs.cpp - Text form of the attributes of dist ----------------===//

#include "dialects/Dist/Dist.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace sheaf::dist;

#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.cpp.inc"

void DistDialect::registerDistAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Dist/DistAttrs.cpp.inc"
      >();
}

/// A name in quotes, as the parser reads it back.
static void printName(raw_ostream &os, StringRef name) {
  os << '"';
  llvm::printEscapedString(name, os);
  os << '"';
}

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

FailureOr<AxisAttr> AxisAttr::parseBare(AsmParser &parser) {
  std::string name;
  if (parser.parseString(&name))
    return failure();
  int64_t outer = 1, size = 0;
  if (succeeded(parser.parseOptionalColon())) {
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseLParen() || parser.parseInteger(outer) ||
        parser.parseRParen() || parser.parseInteger(size))
      return failure();
    if (outer < 1 || size < 2) {
      parser.emitError(loc, "sub-axis of \"")
          << name << "\" has " << outer << " outside and size " << size
          << ", expected at least 1 and 2";
      return failure();
    }
  }
  return AxisAttr::get(parser.getContext(),
                       parser.getBuilder().getStringAttr(name), outer, size);
}

void AxisAttr::printBare(raw_ostream &os) const {
  printName(os, getName());
  if (!isWhole())
    os << ":(" << getOuter() << ")" << getSize();
}

std::string AxisAttr::getText() const {
  std::string text = getName().getValue().str();
  if (!isWhole())
    text += (":(" + Twine(getOuter()) + ")" + Twine(getSize())).str();
  return text;
}

Attribute AxisAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<AxisAttr> axis = parseBare(parser);
  if (failed(axis) || parser.parseGreater())
    return {};
  return *axis;
}

void AxisAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printBare(printer.getStream());
  printer << ">";
}

static ParseResult parseNumber(AsmParser &parser, FloatAttr &number) {
  double value = 0;
  if (parser.parseFloat(value))
    return failure();
  number = parser.getBuilder().getF64FloatAttr(value);
  return success();
}

static FailureOr<MeshAxisAttr> parseMeshAxis(AsmParser &parser) {
  std::string name;
  int64_t size = 0;
  if (parser.parseString(&name) || parser.parseEqual())
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseInteger(size))
    return failure();
  if (size < 1) {
    parser.emitError(loc, "axis \"")
        << name << "\" has size " << size << ", expected at least 1";
    return failure();
  }
  StringRef link;
  FloatAttr bandwidth, latency;
  loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword(&link))) {
    if (link == "link") {
      link = "";
      if (parser.parseLParen() || parseNumber(parser, bandwidth) ||
          parser.parseComma() || parseNumber(parser, latency) ||
          parser.parseRParen())
        return failure();
      if (!(bandwidth.getValueAsDouble() > 0) ||
          !(latency.getValueAsDouble() >= 0) ||
          !std::isfinite(bandwidth.getValueAsDouble()) ||
          !std::isfinite(latency.getValueAsDouble())) {
        parser.emitError(loc, "a link needs a positive bandwidth and a latency "
                              "of at least 0, both finite");
        return failure();
      }
    } else if (!lookupLinkClass(link)) {
      parser.emitError(loc, "unknown link '")
          << link
          << "', expected 'memory', 'nvlink', 'pcie', 'network' or "
             "'link(bandwidth, latency)'";
      return failure();
    }
  }
  return MeshAxisAttr::get(parser.getContext(),
                           parser.getBuilder().getStringAttr(name), size, link,
                           bandwidth, latency);
}

/// As `parseFloat` takes it: with a fraction.
static void printNumber(raw_ostream &os, FloatAttr number) {
  SmallString<24> text;
  for (unsigned digits = 1; digits <= 17; ++digits) {
    text.clear();
    number.getValue().toString(text, digits, /*FormatMaxPadding=*/4,
                               /*TruncateZero=*/true);
    if (llvm::APFloat(number.getValue().getSemantics(), text)
            .bitwiseIsEqual(number.getValue()))
      break;
  }
  if (!StringRef(text).contains('.')) {
    size_t e = StringRef(text).find_first_of("eE");
    text.insert(e == StringRef::npos ? text.end() : text.begin() + e,
                {'.', '0'});
  }
  os << StringRef(text).lower();
}

static void printMeshAxis(raw_ostream &os, MeshAxisAttr axis) {
  printName(os, axis.getName());
  os << " = " << axis.getSize();
  if (!axis.getLink().empty())
    os << " " << axis.getLink();
  if (axis.getBandwidth()) {
    os << " link(";
    printNumber(os, axis.getBandwidth());
    os << ", ";
    printNumber(os, axis.getLatency());
    os << ")";
  }
}

Attribute MeshAxisAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<MeshAxisAttr> axis = parseMeshAxis(parser);
  if (failed(axis) || parser.parseGreater())
    return {};
  return *axis;
}

void MeshAxisAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printMeshAxis(printer.getStream(), *this);
  printer << ">";
}

static ParseResult parseAxes(AsmParser &parser, SmallVectorImpl<AxisAttr> &axes,
                             AsmParser::Delimiter delimiter) {
  return parser.parseCommaSeparatedList(delimiter, [&]() -> ParseResult {
    FailureOr<AxisAttr> axis = AxisAttr::parseBare(parser);
    if (failed(axis))
      return failure();
    axes.push_back(*axis);
    return success();
  });
}

static void printAxes(raw_ostream &os, ArrayRef<AxisAttr> axes) {
  llvm::interleaveComma(axes, os, [&](AxisAttr axis) { axis.printBare(os); });
}

//===----------------------------------------------------------------------===//
// Shardings
//===----------------------------------------------------------------------===//

FailureOr<DimAttr> DimAttr::parseBare(AsmParser &parser) {
  SmallVector<AxisAttr> axes;
  bool open = false;
  if (parser.parseCommaSeparatedList(
          AsmParser::Delimiter::Braces, [&]() -> ParseResult {
            if (open)
              return parser.emitError(parser.getCurrentLocation(),
                                      "'?' stands behind the axes");
            if (succeeded(parser.parseOptionalQuestion())) {
              open = true;
              return success();
            }
            FailureOr<AxisAttr> axis = AxisAttr::parseBare(parser);
            if (failed(axis))
              return failure();
            axes.push_back(*axis);
            return success();
          }))
    return failure();
  int64_t blocks = 1, priority = 0;
  if (succeeded(parser.parseOptionalKeyword("blocks"))) {
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseInteger(blocks))
      return failure();
    if (blocks < 1) {
      parser.emitError(loc, "expected at least 1 block");
      return failure();
    }
  } else if (succeeded(parser.parseOptionalKeyword("zigzag"))) {
    SMLoc loc = parser.getCurrentLocation();
    int64_t chunks;
    if (parser.parseInteger(chunks))
      return failure();
    if (chunks < 2 || chunks % 2 != 0) {
      parser.emitError(loc, "expected an even number of chunks, two for each "
                            "device");
      return failure();
    }
    blocks = -chunks;
  }
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword(&word)) &&
      (!word.consume_front("p") || word.getAsInteger(10, priority))) {
    parser.emitError(loc, "expected a priority such as 'p1'");
    return failure();
  }
  return DimAttr::get(parser.getContext(), axes, open, priority, blocks);
}

void DimAttr::printBare(raw_ostream &os) const {
  os << "{";
  printAxes(os, getAxes());
  if (getOpen())
    os << (getAxes().empty() ? "?" : ", ?");
  os << "}";
  if (getBlocks() < 0)
    os << " zigzag " << -getBlocks();
  else if (getBlocks() != 1)
    os << " blocks " << getBlocks();
  if (getPriority() != 0)
    os << " p" << getPriority();
}

Attribute DimAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<DimAttr> dim = parseBare(parser);
  if (failed(dim) || parser.parseGreater())
    return {};
  return *dim;
}

void DimAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printBare(printer.getStream());
  printer << ">";
}

static ParseResult parseReduction(AsmParser &parser, Reduction &kind) {
  StringRef word;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Reduction> symbol = symbolizeReduction(word);
  if (!symbol)
    return parser.emitError(loc, "unknown reduction '")
           << word << "', expected 'sum', 'max' or 'min'";
  kind = *symbol;
  return success();
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  SmallVector<DimAttr> dims;
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(
          AsmParser::Delimiter::Square, [&]() -> ParseResult {
            FailureOr<DimAttr> dim = DimAttr::parseBare(parser);
            if (failed(dim))
              return failure();
            dims.push_back(*dim);
            return success();
          }))
    return {};
  Reduction kind = Reduction::Sum;
  SmallVector<AxisAttr> partial;
  if (succeeded(parser.parseOptionalComma()) &&
      (parseReduction(parser, kind) ||
       parseAxes(parser, partial, AsmParser::Delimiter::Braces)))
    return {};
  if (parser.parseGreater())
    return {};
  return ShardingAttr::get(parser.getContext(), dims, kind, partial);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  raw_ostream &os = printer.getStream();
  os << "<[";
  llvm::interleaveComma(getDims(), os, [&](DimAttr dim) { dim.printBare(os); });
  os << "]";
  if (!getPartial().empty()) {
    os << ", " << stringifyReduction(getKind()) << " {";
    printAxes(os, getPartial());
    os << "}";
  }
  os << ">";
}

bool ShardingAttr::isReplicated() const { return getAllAxes().empty(); }

SmallVector<AxisAttr> ShardingAttr::getAllAxes() const {
  SmallVector<AxisAttr> axes;
  for (DimAttr dim : getDims())
    llvm::append_range(axes, dim.getAxes());
  llvm::append_range(axes, getPartial());
  return axes;
}

Attribute PartialAttr::parse(AsmParser &parser, Type) {
  SmallVector<AxisAttr> axes;
  Reduction kind;
  if (parser.parseLess() ||
      parseAxes(parser, axes, AsmParser::Delimiter::Square) ||
      parser.parseComma() || parseReduction(parser, kind) ||
      parser.parseGreater())
    return {};
  return PartialAttr::get(parser.getContext(), axes, kind);
}

void PartialAttr::print(AsmPrinter &printer) const {
  raw_ostream &os = printer.getStream();
  os << "<[";
  printAxes(os, getAxes());
  os << "], " << stringifyReduction(getKind()) << ">";
}

//===----------------------------------------------------------------------===//
// Pieces of the assembly of ops
//===----------------------------------------------------------------------===//

namespace sheaf::dist {
ParseResult parseMeshAxesList(OpAsmParser &parser, ArrayAttr &axes) {
  SmallVector<Attribute> list;
  if (parser.parseCommaSeparatedList(
          AsmParser::Delimiter::Square, [&]() -> ParseResult {
            FailureOr<MeshAxisAttr> axis = parseMeshAxis(parser);
            if (failed(axis))
              return failure();
            list.push_back(*axis);
            return success();
          }))
    return failure();
  axes = parser.getBuilder().getArrayAttr(list);
  return success();
}

void printMeshAxesList(OpAsmPrinter &printer, ArrayAttr axes) {
  printer << "[";
  llvm::interleaveComma(
      axes.getAsRange<MeshAxisAttr>(), printer,
      [&](MeshAxisAttr axis) { printMeshAxis(printer.getStream(), axis); });
  printer << "]";
}

ParseResult parseAxesList(OpAsmParser &parser, ArrayAttr &axes) {
  SmallVector<AxisAttr> list;
  if (parseAxes(parser, list, AsmParser::Delimiter::Square))
    return failure();
  axes = parser.getBuilder().getArrayAttr(
      SmallVector<Attribute>(list.begin(), list.end()));
  return success();
}

void printAxesList(OpAsmPrinter &printer, ArrayAttr axes) {
  printer << "[";
  printAxes(printer.getStream(), llvm::to_vector(axes.getAsRange<AxisAttr>()));
  printer << "]";
}
} // namespace sheaf::dist
