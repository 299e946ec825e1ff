#include "proto/convert/json.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/json_util.h"
#include "solver/base/status_macros.h"
#include "solver/json/json_text.h"
#include "stowage/v1/scheduler.pb.h"

namespace stowage {
namespace {

// A protobuf type as error messages name it.
std::string TypeName(absl::string_view type) {
  if (absl::ConsumePrefix(&type, "type.googleapis.com/")) {
    const auto* pool = google::protobuf::DescriptorPool::generated_pool();
    const auto* values = pool->FindEnumTypeByName(std::string(type));
    if (values == nullptr) return absl::StrCat("an object of type ", type);
    std::string names = "one of";
    const char* separator = " ";
    for (int i = 0; i < values->value_count(); ++i) {
      const std::string& name = values->value(i)->name();
      if (absl::EndsWith(name, "_UNSPECIFIED")) continue;
      absl::StrAppend(&names, separator, name);
      separator = ", ";
    }
    return names;
  }
  if (type == "TYPE_INT64") return "a whole number from -2^63 to below 2^63";
  if (type == "TYPE_INT32") return "a whole number from -2^31 to below 2^31";
  if (type == "TYPE_DOUBLE") return "a number";
  if (type == "TYPE_BOOL") return "true or false";
  if (type == "TYPE_STRING") return "a string";
  return std::string(type);
}

// Translates protobuf's errors: "(stages[1].x): invalid value 9 for type TYPE_INT64", "(stages[1])
// y: Cannot find field." and, at the top, "y: Cannot find field.".
std::string FieldProblem(absl::string_view message, absl::string_view root) {
  std::string path(root);
  if (absl::ConsumePrefix(&message, "(")) {
    const size_t end = message.find(')');
    if (end != absl::string_view::npos && end > 0)
      absl::StrAppend(&path, ".", message.substr(0, end));
    if (end != absl::string_view::npos) message.remove_prefix(end + 1);
  }
  message = absl::StripLeadingAsciiWhitespace(message);
  if (absl::ConsumeSuffix(&message, ": Cannot find field.")) {
    return absl::StrCat(path, ".", message, ": unknown field");
  }
  absl::ConsumePrefix(&message, ": ");
  constexpr absl::string_view kInvalid = "invalid value ";
  const size_t type = message.rfind(" for type ");
  if (absl::StartsWith(message, kInvalid) && type != absl::string_view::npos) {
    return absl::StrCat(path, ": ", message.substr(kInvalid.size(), type - kInvalid.size()),
                        " is not ", TypeName(message.substr(type + 10)));
  }
  return absl::StrCat(path, ": ", message);
}

// Two passes: the first one only finds errors that protobuf reports badly or not at all.
absl::Status Parse(absl::string_view json, absl::string_view root, bool ignore_unknown_fields,
                   google::protobuf::Message* message) {
  RETURN_IF_ERROR(CheckJsonText(root, &json));
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = ignore_unknown_fields;
  const auto status =
      google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, message, options);
  if (status.ok()) return absl::OkStatus();
  const absl::string_view problem(status.message().data(), status.message().size());
  return UnreadableJson(FieldProblem(problem, root));
}

// Where the object ends that starts at the next brace from `at` on.
size_t EndOfObject(absl::string_view json, size_t at) {
  int depth = 0;
  bool in_string = false;
  for (; at < json.size(); ++at) {
    const char c = json[at];
    if (in_string && c == '\\') {
      ++at;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && c == '{') {
      ++depth;
    } else if (!in_string && c == '}' && --depth == 0) {
      return at + 1;
    }
  }
  return json.size();
}

// Leaves out a field of this text, which no object has first, but for provenance, which is the
// user's. Strings do not match: their quotes are escaped.
std::string WithoutField(absl::string_view json, absl::string_view field) {
  std::string kept;
  for (size_t at = json.find(field); at != absl::string_view::npos; at = json.find(field)) {
    if (const size_t provenance = json.find("\"provenance\":"); provenance < at) {
      const size_t end = EndOfObject(json, provenance);
      absl::StrAppend(&kept, json.substr(0, end));
      json.remove_prefix(end);
      continue;
    }
    absl::StrAppend(&kept, json.substr(0, json.rfind(',', at)));
    json.remove_prefix(at + field.size());
  }
  absl::StrAppend(&kept, json);
  return kept;
}

std::string Print(const google::protobuf::Message& message, bool add_whitespace) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = add_whitespace;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return "";
  // Most stages have one way to be saved: they are printed as by versions that knew no other.
  for (const absl::string_view list : {"save_options", "kept", "rerun"}) {
    json = WithoutField(json, absl::StrCat("\"", list, add_whitespace ? "\": []" : "\":[]"));
  }
  return json;
}

}  // namespace

absl::Status FromJson(absl::string_view json, absl::string_view root,
                      google::protobuf::Message* message) {
  return Parse(json, root, /*ignore_unknown_fields=*/false, message);
}

// Tries a bare schedule first, then a whole answer. Where both fail, the error is that of the one
// that the text resembles.
absl::StatusOr<ScheduleFile> ScheduleFromJson(absl::string_view json) {
  v1::Schedule schedule;
  v1::SolveResponse answer;
  const absl::Status bare = FromJson(json, "schedule", &schedule);
  if (bare.ok()) return ScheduleFile{std::move(schedule), {}};
  // A newer server's answer may have fields that this version lacks.
  const absl::Status whole = Parse(json, "answer", /*ignore_unknown_fields=*/true, &answer);
  if (answer.outcome() == v1::INFEASIBLE) {
    return absl::InvalidArgumentError("schedule: this answer is INFEASIBLE and holds no schedule");
  }
  if (whole.ok() && answer.has_schedule()) {
    return ScheduleFile{std::move(*answer.mutable_schedule()),
                        std::move(*answer.mutable_platform())};
  }
  // A text with a "schedule" is meant as an answer.
  return absl::StrContains(json, "\"schedule\"") && !whole.ok() ? whole : bare;
}

std::string ToJson(const google::protobuf::Message& message) {
  std::string json = Print(message, /*add_whitespace=*/true);
  // Most chains give no reason to warn: their answers are as those of versions without warnings.
  // Only a field of the message itself has this indentation, since strings have no line breaks.
  if (message.GetDescriptor() == v1::SolveResponse::descriptor()) {
    json = absl::StrReplaceAll(json, {{",\n \"warnings\": []", ""}});
  }
  return json;
}

std::string ToHtmlJson(const google::protobuf::Message& message) {
  // Outside of strings JSON has no "<".
  return absl::StrReplaceAll(Print(message, /*add_whitespace=*/false), {{"<", "\\u003c"}});
}

}  // namespace stowage
