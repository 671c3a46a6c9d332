//===- WordAssembly.h - Enumerations as bare words in assembly -*- C++ -*-===//
//
// `custom<Word>($attribute)` in the assembly format of an op: the value of an
// enum attribute as one word. For the sources that include an op definition
// file.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SUPPORT_WORDASSEMBLY_H
#define SHEAF_SUPPORT_WORDASSEMBLY_H

#include "mlir/IR/OpImplementation.h"

namespace sheaf {

template <typename EnumAttr>
mlir::ParseResult parseWord(mlir::OpAsmParser &parser, EnumAttr &attribute) {
  attribute =
      llvm::dyn_cast_or_null<EnumAttr>(EnumAttr::parse(parser, mlir::Type()));
  return mlir::failure(!attribute);
}

template <typename EnumAttr>
void printWord(mlir::OpAsmPrinter &printer, mlir::Operation *,
               EnumAttr attribute) {
  printer << attribute.getValue();
}

} // namespace sheaf

#endif // SHEAF_SUPPORT_WORDASSEMBLY_H
