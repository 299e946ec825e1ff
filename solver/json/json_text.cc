#include "solver/json/json_text.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "solver/base/quote.h"

namespace stowage {
namespace {

// Reads a text up to the first error in its JSON, and tracks the path of the field that it is in.
// Parsers report only the characters around an error, and accept duplicate keys.
class JsonInspector : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Protobuf silently drops nulls from arrays; a provenance may have them.
  bool null() override {
    const bool dropped = !levels_.empty() && levels_.back().is_array && !InProvenance();
    return dropped ? Stop("is null, not an object") : Value();
  }
  bool boolean(bool) override { return Value(); }
  bool number_integer(number_integer_t) override { return Value(); }
  bool number_unsigned(number_unsigned_t) override { return Value(); }
  bool number_float(number_float_t, const string_t&) override { return Value(); }
  bool string(string_t&) override { return Value(); }
  bool binary(binary_t&) override { return Value(); }
  bool start_object(size_t) override { return Open(/*is_array=*/false); }
  bool key(string_t& name) override {
    levels_.back().key = name;
    return levels_.back().keys.insert(name).second || Stop("is given twice");
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(/*is_array=*/true); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    return Stop(Shorten(error.what()));
  }

  // Whether there is an error; then its path, as in ".stages[3].forward_seconds", and what it is.
  bool stopped() const { return !problem_.empty(); }
  const std::string& path() const { return path_; }
  const std::string& problem() const { return problem_; }

 private:
  struct Level {
    bool is_array = false;
    size_t index = 0;
    std::string key;
    absl::flat_hash_set<std::string> keys;
  };

  static std::string Shorten(absl::string_view problem);

  bool InProvenance() const {
    return std::any_of(levels_.begin(), levels_.end(),
                       [](const Level& level) { return level.key == "provenance"; });
  }
  bool Stop(std::string problem) {
    problem_ = std::move(problem);
    for (const Level& level : levels_) {
      if (level.is_array) {
        absl::StrAppend(&path_, "[", level.index, "]");
      } else if (!level.key.empty()) {
        absl::StrAppend(&path_, ".", level.key);
      }
    }
    return false;
  }
  bool Value() {
    if (levels_.empty()) return Stop("is not a JSON object");
    ++levels_.back().index;
    levels_.back().key.clear();
    return true;
  }
  bool Open(bool is_array) {
    if (levels_.empty() && is_array) return Stop("is an array, not a JSON object");
    if (levels_.size() == kMaxJsonLevels) return Stop("is nested too deep");
    levels_.push_back({is_array, 0, "", {}});
    return true;
  }
  bool Close() {
    levels_.pop_back();
    return levels_.empty() || Value();
  }

  std::vector<Level> levels_;
  std::string path_;
  std::string problem_;
};

// "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error while parsing
// value - invalid literal; last read: 'N'" -> "line 1, column 5: not JSON: … invalid literal; …"
std::string JsonInspector::Shorten(absl::string_view problem) {
  const size_t bracket = problem.find("] ");
  if (bracket != absl::string_view::npos) problem.remove_prefix(bracket + 2);
  if (!absl::ConsumePrefix(&problem, "parse error at ")) return std::string(problem);
  return absl::StrReplaceAll(problem, {{": syntax error while parsing ", ": not JSON: "}});
}

constexpr size_t kMaxBytes = 900;
constexpr size_t kMaxPathBytes = 300;

std::string OneLine(absl::string_view text, size_t max_bytes) {
  return ValidUtf8(Shortened(absl::StrReplaceAll(text, {{"\n", " "}}), max_bytes));
}

// By the byte order mark at its start, which is what editors and shells of Windows write; null for
// a text without one, and for UTF-8's.
const char* OtherEncoding(absl::string_view text) {
  // UTF-32's little-endian mark begins with UTF-16's.
  if (absl::StartsWith(text, absl::string_view("\xFF\xFE\0\0", 4)) ||
      absl::StartsWith(text, absl::string_view("\0\0\xFE\xFF", 4))) {
    return "UTF-32";
  }
  if (absl::StartsWith(text, "\xFF\xFE") || absl::StartsWith(text, "\xFE\xFF")) return "UTF-16";
  return nullptr;
}

}  // namespace

std::optional<FieldViolation> JsonTextViolation(absl::string_view root, absl::string_view* json) {
  const absl::string_view whole = root.empty() ? "request" : root;
  if (const char* encoding = OtherEncoding(*json); encoding != nullptr) {
    return FieldViolation{std::string(whole),
                          absl::StrCat("is ", encoding, "; convert it to UTF-8")};
  }
  constexpr absl::string_view kMark = "\xEF\xBB\xBF";
  absl::ConsumePrefix(json, kMark);
  // The parser would skip a second mark, and end at a null byte.
  if (absl::StartsWith(*json, kMark)) {
    return FieldViolation{std::string(whole), "begins with two byte order marks; leave one out"};
  }
  if (const size_t null = json->find('\0'); null != absl::string_view::npos) {
    return FieldViolation{std::string(whole), absl::StrCat("not JSON: byte ", null, " is null")};
  }
  JsonInspector inspector;
  nlohmann::json::sax_parse(json->begin(), json->end(), &inspector);
  if (!inspector.stopped()) return std::nullopt;
  std::string path = absl::StrCat(root, inspector.path());
  if (root.empty()) path = path.empty() ? std::string(whole) : path.substr(1);  // of a dot
  return FieldViolation{OneLine(path, kMaxPathBytes), OneLine(inspector.problem(), kMaxBytes)};
}

absl::Status CheckJsonText(absl::string_view root, absl::string_view* json) {
  const std::optional<FieldViolation> violation = JsonTextViolation(root, json);
  if (!violation.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(violation->field, ": ", violation->problem));
}

absl::Status UnreadableJson(absl::string_view problem) {
  return absl::InvalidArgumentError(OneLine(problem, kMaxBytes));
}

}  // namespace stowage
