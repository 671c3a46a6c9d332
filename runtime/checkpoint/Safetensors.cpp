#include "sheaf/Safetensors.h"
#include "sheaf/Error.h"
#include "sheaf/Files.h"
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

using namespace sheaf;
using Json = nlohmann::json;

namespace {
constexpr int64_t headerLimit = 100'000'000; // of the reference implementation

struct TypeName {
  std::string_view name;
  SheafType type;
};
constexpr std::array<TypeName, 11> typeNames = {{{"F64", SHEAF_F64},
                                                 {"F32", SHEAF_F32},
                                                 {"BF16", SHEAF_BF16},
                                                 {"F16", SHEAF_F16},
                                                 {"F8_E4M3", SHEAF_F8E4M3},
                                                 {"F8_E5M2", SHEAF_F8E5M2},
                                                 {"I64", SHEAF_I64},
                                                 {"I32", SHEAF_I32},
                                                 {"I8", SHEAF_I8},
                                                 {"BOOL", SHEAF_I1},
                                                 {"F8_E8M0", SHEAF_F8E8M0}}};

std::string_view fileTypeName(SheafType type) {
  for (const TypeName &entry : typeNames)
    if (entry.type == type)
      return entry.name;
  fail("element type {} has no name in safetensors", typeName(type));
}

Json parseHeader(const std::string &text) {
  std::set<std::string> names;
  auto callback = [&](int depth, Json::parse_event_t event, Json &parsed) {
    if (depth > 8)
      fail("header nested deeper than 8 levels");
    if (depth == 1 && event == Json::parse_event_t::key &&
        !names.insert(parsed.get<std::string>()).second)
      fail("the name '{}' occurs twice in the header",
           parsed.get<std::string>());
    return true;
  };
  try {
    return Json::parse(text, callback);
  } catch (const Json::exception &error) {
    fail("the header is not valid JSON: {}", error.what());
  }
}

bool isOffset(const Json &value) {
  return value.is_number_unsigned() &&
         value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
}

SafetensorsFile::Tensor parseTensor(const std::string &name, const Json &json,
                                    int64_t dataBytes) {
  if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets"))
    fail("tensor '{}' has no dtype, shape or data_offsets", name);
  SafetensorsFile::Tensor tensor;
  tensor.name = name;

  const Json &type = json["dtype"];
  // A file of bytes is how some writers store booleans.
  std::string text = type.is_string() ? type.get<std::string>() : type.dump();
  auto found = std::find_if(typeNames.begin(), typeNames.end(),
                            [&](const TypeName &t) { return t.name == text; });
  if (text == "U8")
    tensor.type = SHEAF_I1;
  else if (found != typeNames.end())
    tensor.type = found->type;
  else
    fail("tensor '{}' has dtype {}; expected F64, F32, BF16, F16, F8_E4M3, "
         "F8_E5M2, F8_E8M0, I64, I32, I8, U8 or BOOL",
         name, text);

  const Json &shape = json["shape"];
  if (!shape.is_array() || !std::all_of(shape.begin(), shape.end(), isOffset))
    fail("tensor '{}' has a shape that is no array of sizes", name);
  tensor.shape = shape.get<Shape>();
  int64_t size = elementSize(tensor.type);
  std::optional<int64_t> elements = elementCount(tensor.shape, size);
  if (!elements)
    fail("tensor '{}' has shape {}, whose size overflows", name,
         shapeText(tensor.shape));
  tensor.elements = *elements;
  tensor.bytes = *elements * size;

  const Json &offsets = json["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !isOffset(offsets[0]) ||
      !isOffset(offsets[1]))
    fail("tensor '{}' has data_offsets that are not two offsets", name);
  int64_t begin = offsets[0].get<int64_t>(), end = offsets[1].get<int64_t>();
  if (begin > end || end > dataBytes)
    fail("tensor '{}' is at bytes {} to {} of {}", name, begin, end, dataBytes);
  if (end - begin != tensor.bytes)
    fail("tensor '{}' of {} {} needs {} bytes, its data_offsets give {}", name,
         text, shapeText(tensor.shape), tensor.bytes, end - begin);
  tensor.offset = begin;
  return tensor;
}
} // namespace

SafetensorsFile::SafetensorsFile(const std::string &file_) : path(file_) {
  try {
    open();
  } catch (const Error &error) {
    if (file >= 0)
      close(file);
    fail("{}: {}", path, error.what());
  }
}

SafetensorsFile::~SafetensorsFile() { close(file); }

void SafetensorsFile::readFully(void *to, int64_t bytes, int64_t offset) const {
  char *at = static_cast<char *>(to);
  while (bytes > 0) {
    ssize_t got = pread(file, at, bytes, offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      fail("cannot read: {}",
           got < 0 ? std::strerror(errno) : "the file became shorter");
    at += got;
    bytes -= got;
    offset += got;
  }
}

void SafetensorsFile::open() {
  file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    fail("cannot open: {}", std::strerror(errno));
  struct stat info;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode))
    fail("not a regular file; expected a safetensors file");
  int64_t size = info.st_size;
  if (size < 8)
    fail("{} bytes; a safetensors file has at least 8", size);
  uint64_t length;
  readFully(&length, 8, 0);
  if (length > headerLimit || static_cast<int64_t>(length) > size - 8)
    fail("no safetensors file, or cut: the header claims {} bytes, the file "
         "has {}",
         length, size);
  std::string text(length, '\0');
  readFully(text.data(), length, 8);
  Json header = parseHeader(text);
  if (!header.is_object())
    fail("the header is {}; expected an object", header.type_name());

  int64_t start = 8 + static_cast<int64_t>(length);
  for (const auto &[name, value] : header.items()) {
    if (name == "__metadata__") {
      if (!value.is_object())
        fail("__metadata__ is {}; expected an object", value.type_name());
      for (const auto &[key, item] : value.items()) {
        if (!item.is_string())
          fail("__metadata__ has a value that is no string: '{}'", key);
        metadata[key] = item.get<std::string>();
      }
      continue;
    }
    tensors[name] = parseTensor(name, value, size - start);
  }

  // The tensors must cover the data exactly: no hole, no overlap, no rest.
  std::vector<Tensor *> order;
  for (auto &[name, tensor] : tensors)
    order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const Tensor *a, const Tensor *b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  int64_t end = 0;
  for (Tensor *tensor : order) {
    if (tensor->offset != end)
      fail("tensor '{}' starts at byte {}, {} byte {}; the tensors must "
           "follow one another",
           tensor->name, tensor->offset,
           tensor->offset < end ? "overlapping what ends at"
                                : "leaving a hole from",
           end);
    end += tensor->bytes;
    tensor->offset += start;
  }
  if (end != size - start)
    fail("{} bytes follow the last tensor; the file is damaged",
         size - start - end);
}

void SafetensorsFile::read(const Tensor &tensor, SheafType type,
                           void *target) const {
  readRange(tensor, type, 0, tensor.elements, target);
}

void SafetensorsFile::readRange(const Tensor &tensor, SheafType type,
                                int64_t first, int64_t count,
                                void *target) const {
  try {
    int64_t size = elementSize(tensor.type),
            offset = tensor.offset + first * size;
    if (type == tensor.type) {
      readFully(target, count * size, offset);
      return;
    }
    constexpr int64_t chunk = 1 << 16;
    std::vector<char> buffer(std::min(chunk, count) * size);
    for (int64_t done = 0; done < count; done += chunk) {
      int64_t length = std::min(chunk, count - done);
      readFully(buffer.data(), length * size, offset + done * size);
      convert(type, static_cast<char *>(target) + done * elementSize(type),
              tensor.type, buffer.data(), length);
    }
  } catch (const Error &error) {
    fail("{}: tensor '{}': {}", path, tensor.name, error.what());
  }
}

static constexpr std::string_view star = ".*.";

bool sheaf::isStacked(const std::string &name) {
  return name.find(star) != std::string::npos;
}

std::vector<std::string> sheaf::partNames(const std::string &name,
                                          const Shape &shape) {
  size_t at = name.find(star);
  if (at == std::string::npos || shape.empty())
    return {name};
  std::vector<std::string> names;
  std::string front = name.substr(0, at + 1),
              back = name.substr(at + star.size() - 1);
  for (int64_t i = 0; i < shape[0]; ++i)
    names.push_back(front + std::to_string(i) + back);
  return names;
}

Shape sheaf::partShape(const std::string &name, const Shape &shape) {
  if (!isStacked(name) || shape.empty())
    return shape;
  return Shape(shape.begin() + 1, shape.end());
}

void sheaf::writeSafetensors(
    const std::string &path, const std::vector<NamedTensor> &tensors,
    const std::map<std::string, std::string> &metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const NamedTensor &tensor : tensors) {
    Shape shape = partShape(tensor.name, tensor.shape);
    int64_t bytes = *elementCount(shape) * elementSize(tensor.type);
    for (const std::string &name : partNames(tensor.name, tensor.shape)) {
      header[name] = {{"dtype", fileTypeName(tensor.type)},
                      {"shape", shape},
                      {"data_offsets", {offset, offset + bytes}}};
      offset += bytes;
    }
  }
  std::string text =
      header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' '); // keeps the data aligned
  AtomicFile file(path);
  uint64_t length = text.size();
  file.write(&length, 8);
  file.write(text.data(), static_cast<int64_t>(length));
  for (const NamedTensor &tensor : tensors)
    file.write(tensor.fetch ? tensor.fetch() : tensor.data,
               *elementCount(tensor.shape) * elementSize(tensor.type));
  file.commit();
}
