//===- Costs.cpp - What stages cost, from a user --------------------------===//

#include "passes/pipeline/schedule/Costs.h"

#include "support/Nearest.h"
#include "support/Shown.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/JSON.h"
#include <cmath>

using namespace llvm;

namespace sheaf::schedule {
namespace {

Error errorOf(StringRef name, const Twine &message) {
  return createStringError(inconvertibleErrorCode(), name + ": " + message);
}

/// Larger ones have no sums.
bool isTime(double number) { return number >= 0 && number <= 1e100; }

/// What one record says; the fields of all stages are the start of each.
struct Record {
  Stage stage;
  ChainBytes bytes;
};

struct Field {
  StringLiteral name;
  /// One of the two.
  double *seconds;
  int64_t *bytes;
};

/// Takes the fields of an object that are there; `skip` are read elsewhere.
Error read(StringRef name, const json::Object &object, ArrayRef<Field> fields,
           ArrayRef<StringRef> skip) {
  SmallVector<StringRef> names(skip);
  for (const Field &field : fields)
    names.push_back(field.name);
  for (const auto &[keyObject, value] : object) {
    StringRef key = keyObject;
    if (is_contained(skip, key))
      continue;
    const Field *found =
        find_if(fields, [&](const Field &field) { return field.name == key; });
    if (found == fields.end()) {
      std::optional<StringRef> meant = nearest(key, names);
      return errorOf(name, "unknown field '" + shown(key) + "', expected " +
                               (meant ? ("'" + *meant + "'").str()
                                      : "one of " + join(names, ", ")));
    }
    if (found->bytes) {
      std::optional<int64_t> number = value.getAsInteger();
      if (!number || *number < 0 || *number > (int64_t(1) << 50))
        return errorOf(name, "'" + key +
                                 "' is not a number of bytes, expected "
                                 "one of at least 0");
      *found->bytes = *number;
      continue;
    }
    std::optional<double> number = value.getAsNumber();
    if (!number || !isTime(*number))
      return errorOf(name, "'" + key +
                               "' is not a time, expected a number of "
                               "at least 0 and at most 1e100");
    *found->seconds = *number;
  }
  return Error::success();
}

SmallVector<Field> fieldsOf(Record &record) {
  Stage &stage = record.stage;
  return {{"forward", &stage.forward, nullptr},
          {"input_gradient", &stage.inputGradient, nullptr},
          {"weight_gradient", &stage.weightGradient, nullptr},
          {"activation_bytes", nullptr, &record.bytes.activation},
          {"gradient_bytes", nullptr, &record.bytes.gradient},
          {"boundary_bytes", nullptr, &record.bytes.boundary},
          {"resident_bytes", nullptr, &stage.residentBytes},
          {"gathered_bytes", nullptr, &stage.gatheredBytes},
          {"temporary_bytes", nullptr, &stage.temporaryBytes}};
}

/// A record's own fields over those that it has.
Error readRecord(StringRef name, const json::Object &object, Record &record,
                 ArrayRef<Field> more, ArrayRef<StringRef> skip) {
  SmallVector<Field> fields = fieldsOf(record);
  double backward = -1;
  fields.push_back({"backward", &backward, nullptr});
  fields.append(more.begin(), more.end());
  if (Error e = read(name, object, fields, skip))
    return e;
  if (backward >= 0)
    record.stage.backward = backward;
  return Error::success();
}

Expected<Pipeline> readNumbers(StringRef text, StringRef name, int32_t stages) {
  SmallVector<StringRef> words;
  text.split(words, ',');
  double numbers[4] = {};
  if (words.size() < 3 || words.size() > 4)
    return errorOf(name, "'" + shown(text) + "' has " + Twine(words.size()) +
                             " numbers, expected F,I,W or F,I,W,transfer");
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i].trim().getAsDouble(numbers[i]) || !isTime(numbers[i]))
      return errorOf(name, "'" + shown(words[i]) +
                               "' is not a time, expected a number of at least "
                               "0 and at most 1e100");
  Stage stage;
  stage.forward = numbers[0];
  stage.inputGradient = numbers[1];
  stage.weightGradient = numbers[2];
  Link link;
  link.latency = numbers[3];
  return makeChain(std::vector<Stage>(stages, stage), {}, link);
}

bool isJSON(StringRef text) { return text.ltrim().starts_with("{"); }

Expected<json::Object> readObject(StringRef text, StringRef name) {
  Expected<json::Value> value = json::parse(text);
  if (!value)
    return errorOf(name, toString(value.takeError()));
  return std::move(*value->getAsObject());
}

} // namespace

Expected<int32_t> countStages(StringRef text, StringRef name) {
  if (!isJSON(text))
    return 0;
  Expected<json::Object> object = readObject(text, name);
  if (!object)
    return object.takeError();
  const json::Value *stages = object->get("stages");
  if (!stages)
    return 0;
  const json::Array *list = stages->getAsArray();
  if (!list || list->empty())
    return errorOf(name, "'stages' is no list of records, expected one, for "
                         "instance [{\"forward\": 1}]");
  return static_cast<int32_t>(list->size());
}

Expected<Pipeline> parseCosts(StringRef text, StringRef name, int32_t stages) {
  if (!isJSON(text))
    return readNumbers(text, name, stages);
  Expected<int32_t> listed = countStages(text, name);
  if (!listed)
    return listed.takeError();
  if (*listed != 0 && *listed != stages)
    return errorOf(name, "has " + Twine(*listed) + " stages, expected " +
                             Twine(stages) + ", as the schedule has");
  Expected<json::Object> object = readObject(text, name);
  if (!object)
    return object.takeError();
  Record all;
  Link link;
  double fusedFactor = 1;
  if (Error e = readRecord(name, *object, all,
                           {{"latency", &link.latency, nullptr},
                            {"bandwidth", &link.bandwidth, nullptr},
                            {"fused_factor", &fusedFactor, nullptr}},
                           {"stages"}))
    return e;
  if (link.bandwidth == 0)
    return errorOf(name, "'bandwidth' is 0, expected bytes a second");
  std::vector<Record> records(stages, all);
  if (*listed != 0) {
    const json::Array &list = *object->getArray("stages");
    for (int32_t i = 0; i < stages; ++i) {
      const json::Object *record = list[i].getAsObject();
      if (!record)
        return errorOf(name, "stage " + Twine(i) +
                                 " is no record, expected one, for instance "
                                 "{\"forward\": 1}");
      if (Error e = readRecord((name + ": stage " + Twine(i)).str(), *record,
                               records[i], {}, {}))
        return e;
    }
  }
  std::vector<Stage> costs;
  for (const Record &record : records)
    costs.push_back(record.stage);
  Pipeline pipeline = makeChain(std::move(costs), {}, link);
  pipeline.fusedFactor = fusedFactor;
  for (Value &value : pipeline.values) {
    const ChainBytes &bytes = records[value.stage].bytes;
    bool leaves = !value.uses.empty() && value.uses[0].stage != value.stage;
    value.bytes = leaves                        ? bytes.boundary
                  : value.part == Part::Forward ? bytes.activation
                                                : bytes.gradient;
  }
  return pipeline;
}

} // namespace sheaf::schedule
