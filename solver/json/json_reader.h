// Messages from JSON, with all that is wrong with them. Pure; one thread at a time.
#ifndef STOWAGE_SOLVER_JSON_JSON_READER_H_
#define STOWAGE_SOLVER_JSON_JSON_READER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "solver/json/json_fields.h"
#include "solver/model/validate.h"

namespace stowage {

// Where a value stands in a document: built on the way down, made text only for an error.
struct JsonPath {
  const JsonPath* parent = nullptr;  // null: a path begins with `field`
  absl::string_view field;
  std::optional<size_t> index = {};  // of an array; then `field` is empty
};

// Reads protobuf's mapping: fields in snake_case or lowerCamelCase, null as unset, 64-bit integers
// as numbers or strings, "NaN" and "Infinity". A value of another type, an unknown field and a
// number out of range are violations, as in
//   chain.stages[3].forward_secnds: "unknown field"
//   chain.stages[3].saved_bytes: "1.5 is not a whole number from -2^63 to below 2^63"
// and leave what they should have been read into as it was. Of many the first 100 are kept, and
// the number of the others.
class JsonReader {
 public:
  using Json = nlohmann::json;

  // `violations` outlives the reader, and is whole when that has gone.
  explicit JsonReader(std::vector<FieldViolation>* violations) : violations_(*violations) {}
  ~JsonReader();
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  void Add(const JsonPath& path, std::string problem);

  void Read(const JsonPath& path, const Json& value, std::string* to);
  void Read(const JsonPath& path, const Json& value, bool* to);
  void Read(const JsonPath& path, const Json& value, double* to);
  void Read(const JsonPath& path, const Json& value, int64_t* to);
  void Read(const JsonPath& path, const Json& value, int* to);
  void Read(const JsonPath& path, const Json& value, size_t* to);

  template <typename Enum>
  requires std::is_enum_v<Enum>
  void Read(const JsonPath& path, const Json& value, Enum* to) {
    for (const Enum one : EnumeratorsOf<Enum>::kAll) {
      if (!value.is_string() ||
          value.get_ref<const std::string&>() != EnumeratorsOf<Enum>::Name(one))
        continue;
      *to = one;
      return;
    }
    Refuse(path, value, EnumeratorsOf<Enum>::kWanted);
  }

  template <typename Value>
  void Read(const JsonPath& path, const Json& value, std::optional<Value>* to) {
    Value read{};
    const size_t before = seen_;
    Read(path, value, &read);
    if (seen_ == before) *to = std::move(read);
  }

  template <typename Value>
  void Read(const JsonPath& path, const Json& value, std::vector<Value>* to) {
    if (!value.is_array()) return Refuse(path, value, "an array");
    to->clear();
    to->reserve(value.size());
    for (size_t i = 0; i < value.size(); ++i) {
      Read(JsonPath{&path, {}, i}, value[i], &to->emplace_back());
    }
  }

  // A message of json_fields.h.
  template <typename Message>
  requires std::is_class_v<Message>
  void Read(const JsonPath& path, const Json& value, Message* to) {
    ReadObject(path, value, [to](auto& visitor) { VisitFields(visitor, *to); });
  }

  // Calls visit(visitor) for an object, where `visitor` is one of json_fields.h. Then looks for
  // members that the calls of the visitor have not named.
  template <typename Visit>
  void ReadObject(const JsonPath& path, const Json& value, Visit visit) {
    if (!value.is_object()) return Refuse(path, value, "an object");
    Object object(*this, path, value);
    visit(object);
    object.RefuseUnknown();
  }

 private:
  class Object {
   public:
    Object(JsonReader& reader, const JsonPath& path, const Json& object);

    template <typename Value>
    void Field(absl::string_view name, Value& to) {
      const Json* const value = Find(name);
      if (value != nullptr) reader_.Read(At(name), *value, &to);
    }
    template <typename Value>
    void Unless(absl::string_view name, Value& to, const std::type_identity_t<Value>& /*unset*/) {
      Field(name, to);
    }
    template <typename Enum>
    void Required(absl::string_view name, Enum& to) {
      using All = EnumeratorsOf<Enum>;
      if (Find(name) == nullptr) return RefuseMissing(name, All::Name(All::kAll.front()));
      Field(name, to);
    }
    void Ignored(absl::string_view name) { Find(name); }

    void RefuseUnknown();

   private:
    // The path of a field; the fields of a request are not below anything.
    JsonPath At(absl::string_view name) const {
      return {path_.field.empty() && !path_.index.has_value() ? nullptr : &path_, name};
    }
    const Json* Find(absl::string_view name);  // null: unset
    void RefuseMissing(absl::string_view name, absl::string_view example);

    JsonReader& reader_;
    const JsonPath& path_;
    const Json& object_;
    bool has_capitals_ = false;                  // a name may be in lowerCamelCase
    std::vector<absl::string_view> names_ = {};  // that were asked for
  };

  void Refuse(const JsonPath& path, const Json& value, absl::string_view wanted);
  // nullopt: not a whole number, or out of the range.
  static std::optional<int64_t> WholeNumber(const Json& value, int64_t least, int64_t most);

  std::vector<FieldViolation>& violations_;
  size_t seen_ = 0;  // violations, those that were not kept included
};

}  // namespace stowage

#endif  // STOWAGE_SOLVER_JSON_JSON_READER_H_
