//===- Safetensors.h - files of named tensors -------------------*- C++ -*-===//
//
// Reads and writes the safetensors format: 8 bytes of header length, a JSON
// header, then the tensors' bytes one after the other. Reading is strict: a
// header that does not describe exactly the bytes of the file is an Error.
//
//===----------------------------------------------------------------------===//

#ifndef SHEAF_SAFETENSORS_H
#define SHEAF_SAFETENSORS_H

#include "sheaf/Types.h"
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sheaf {

class SafetensorsFile {
public:
  struct Tensor {
    std::string name;
    SheafType type;
    Shape shape;
    int64_t elements, offset, bytes; ///< offset from the start of the file
  };

  /// Throws an Error that starts with the path.
  explicit SafetensorsFile(const std::string &path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile &) = delete;
  SafetensorsFile &operator=(const SafetensorsFile &) = delete;

  const std::string path;
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;

  /// Reads a tensor and converts it, see convert(); `target` has room for all
  /// elements in type `type`.
  void read(const Tensor &tensor, SheafType type, void *target) const;
  /// The same for elements [first, first + count).
  void readRange(const Tensor &tensor, SheafType type, int64_t first,
                 int64_t count, void *target) const;

private:
  void open();
  void readFully(void *to, int64_t bytes, int64_t offset) const;
  int file = -1;
};

/// Whether a name stands for several tensors: a star, alone between dots, is
/// the number of each, its index in the first dimension of the whole.
bool isStacked(const std::string &name);
/// The names in a file of a tensor of `shape`: its own, or those that it stands
/// for, of which each lacks the first dimension.
std::vector<std::string> partNames(const std::string &name, const Shape &shape);
Shape partShape(const std::string &name, const Shape &shape);

/// A tensor to be written, as several where its name stands for those.
struct NamedTensor {
  std::string name;
  SheafType type;
  Shape shape;
  const void *data;
  /// Where there is one, it gives the data when they are written.
  std::function<const void *()> fetch = nullptr;
};

/// Writes a file aside and renames it into place.
void writeSafetensors(const std::string &path,
                      const std::vector<NamedTensor> &tensors,
                      const std::map<std::string, std::string> &metadata = {});

} // namespace sheaf

#endif // SHEAF_SAFETENSORS_H
