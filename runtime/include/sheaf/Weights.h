//===- Weights.h - parameters to and from safetensors files -----*- C++ -*-===//
//
// Loads and saves the parameters of a program under their names. Loading takes
// files as Hugging Face's libraries write them: with or without the prefix of
// the model's body, in half precision, with buffers that are no parameters.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_WEIGHTS_H
#define SHEAF_WEIGHTS_H

#include "sheaf/Program.h"
#include "sheaf/Safetensors.h"

namespace sheaf {

/// The tensors of a program's allocated buffers of one of `kinds`, under their
/// keys, see BufferInfo::key().
std::vector<NamedTensor> tensorsOf(const Program &program,
                                   const std::vector<BufferKind> &kinds);

void saveWeights(const Program &program, const std::string &path);

/// Reads every parameter, converting floating-point types. Throws one Error
/// that names what is missing, what the file has beside the parameters, and
/// where shapes differ. Nothing is changed then.
void loadWeights(Program &program, const std::string &path);

} // namespace sheaf

#endif // SHEAF_WEIGHTS_H
