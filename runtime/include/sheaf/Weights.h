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

/// Writes the whole tensors of a program's allocated buffers of one of `kinds`
/// under their keys, see BufferInfo::key(). All ranks call it; the root writes,
/// collecting one tensor at a time.
void saveTensors(const Program &program, const std::string &path,
                 const std::vector<BufferKind> &kinds,
                 const std::map<std::string, std::string> &metadata = {});

/// The whole tensor of a buffer, as writeTensors takes it.
NamedTensor wholeTensor(const Program &program, int index,
                        const std::string &name);

/// Writes tensors on the root, and takes part in it on the other ranks.
void writeTensors(const Program &program, const std::string &path,
                  const std::vector<NamedTensor> &tensors,
                  const std::map<std::string, std::string> &metadata = {});

/// Reads this rank's part of a buffer from the whole tensor, which is one
/// tensor of the file, or several of one shape after another; padding is zero,
/// of targets -1.
void readPart(Program &program, int index, const SafetensorsFile &file,
              const std::vector<const SafetensorsFile::Tensor *> &parts);

void saveWeights(const Program &program, const std::string &path);

/// Reads this rank's part of every parameter, converting floating-point types.
/// Throws one Error that names what is missing, what the file has beside the
/// parameters, and where shapes differ. Nothing is changed then.
void loadWeights(Program &program, const std::string &path);

} // namespace sheaf

#endif // SHEAF_WEIGHTS_H
