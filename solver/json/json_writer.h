// Messages as JSON, as protobuf maps them: 64-bit integers as strings, names in snake_case, numbers
// that are none as "NaN" and "Infinity". Members in the order in which they are written.
// Pure, thread-safe.
#ifndef STOWAGE_SOLVER_JSON_JSON_WRITER_H_
#define STOWAGE_SOLVER_JSON_JSON_WRITER_H_

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "solver/json/json_fields.h"

namespace stowage {

using OrderedJson = nlohmann::ordered_json;

// An object, field by field; a visitor of json_fields.h.
class JsonObject {
 public:
  template <typename Value>
  void Field(absl::string_view name, const Value& value) {
    json_[std::string(name)] = JsonOf(value);
  }
  template <typename Value>
  void Field(absl::string_view name, const std::optional<Value>& value) {
    if (value.has_value()) Field(name, *value);
  }
  template <typename Value>
  void Unless(absl::string_view name, const Value& value,
              const std::type_identity_t<Value>& unset) {
    if (value != unset) Field(name, value);
  }
  template <typename Value>
  void Required(absl::string_view name, const Value& value) {
    Field(name, value);
  }
  void Ignored(absl::string_view /*name*/) {}

  OrderedJson Take() { return std::move(json_); }

 private:
  static OrderedJson JsonOf(const std::string& value) { return value; }
  static OrderedJson JsonOf(const char* value) { return value; }
  static OrderedJson JsonOf(absl::string_view value) { return std::string(value); }
  static OrderedJson JsonOf(const OrderedJson& value) { return value; }
  static OrderedJson JsonOf(bool value) { return value; }
  static OrderedJson JsonOf(int value) { return value; }
  static OrderedJson JsonOf(int64_t value) { return std::to_string(value); }
  static OrderedJson JsonOf(size_t value) { return std::to_string(value); }
  static OrderedJson JsonOf(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return value;
  }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  static OrderedJson JsonOf(Enum value) { return std::string(EnumeratorsOf<Enum>::Name(value)); }
  template <typename Value>
  static OrderedJson JsonOf(const std::vector<Value>& values) {
    OrderedJson list = OrderedJson::array();
    for (const Value& value : values) list.push_back(JsonOf(value));
    return list;
  }
  template <typename Message>
  requires std::is_class_v<Message>
  static OrderedJson JsonOf(const Message& message) {
    JsonObject object;
    VisitFields(object, message);
    return object.Take();
  }

  OrderedJson json_ = OrderedJson::object();
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_JSON_JSON_WRITER_H_
