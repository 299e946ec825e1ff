#include "client/cli/top/metrics_text.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

absl::Status Malformed(absl::string_view what) { return absl::InvalidArgumentError(what); }

void SkipBlanks(absl::string_view* text) {
  while (!text->empty() && (text->front() == ' ' || text->front() == '\t')) text->remove_prefix(1);
}

// Removes a name from the front of `text`; empty where there is none.
std::string TakeName(absl::string_view* text) {
  size_t length = 0;
  while (length < text->size()) {
    const char c = (*text)[length];
    // [a-zA-Z_:][a-zA-Z0-9_:]*, the names of metrics; those of labels have no colon.
    const bool in_name = absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_' ||
                         c == ':' ||
                         (length > 0 && absl::ascii_isdigit(static_cast<unsigned char>(c)));
    if (!in_name) break;
    ++length;
  }
  std::string name(text->substr(0, length));
  text->remove_prefix(length);
  return name;
}

// Removes a quoted string from the front of `text` and resolves the escapes \\, \" and \n.
absl::StatusOr<std::string> TakeQuoted(absl::string_view* text) {
  if (!absl::ConsumePrefix(text, "\"")) return Malformed("a label lacks its value in quotes");
  std::string value;
  for (size_t i = 0; i < text->size(); ++i) {
    const char c = (*text)[i];
    if (c == '"') {
      text->remove_prefix(i + 1);
      return value;
    }
    if (c != '\\' || i + 1 == text->size()) {
      value.push_back(c);
      continue;
    }
    const char escaped = (*text)[++i];
    value.push_back(escaped == 'n' ? '\n' : escaped);
  }
  return Malformed("a label's value lacks its closing quote");
}

// Removes labels, as in {a="b",c="d",}, from the front of `text`; without a brace there are none.
absl::StatusOr<MetricLabels> TakeLabels(absl::string_view* text) {
  MetricLabels labels;
  if (!absl::ConsumePrefix(text, "{")) return labels;
  for (;;) {
    SkipBlanks(text);
    if (absl::ConsumePrefix(text, "}")) return labels;
    std::string name = TakeName(text);
    SkipBlanks(text);
    if (name.empty() || !absl::ConsumePrefix(text, "=")) {
      return Malformed("the labels are not name=\"value\" in braces");
    }
    SkipBlanks(text);
    ASSIGN_OR_RETURN(std::string value, TakeQuoted(text));
    labels[std::move(name)] = std::move(value);
    SkipBlanks(text);
    if (!absl::ConsumePrefix(text, ",") && !absl::StartsWith(*text, "}")) {
      return Malformed("the labels lack a comma or the closing brace");
    }
  }
}

// name{labels} value [timestamp in ms]. The name and the labels are removed from the front, so what
// remains are one or two numbers.
absl::Status ParseLine(absl::string_view line, MetricSamples* samples) {
  const std::string name = TakeName(&line);
  if (name.empty()) return Malformed("it does not begin with a metric's name");
  SkipBlanks(&line);
  MetricSample sample;
  ASSIGN_OR_RETURN(sample.labels, TakeLabels(&line));
  const std::vector<absl::string_view> rest =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  int64_t milliseconds = 0;
  if (rest.empty() || rest.size() > 2 || !absl::SimpleAtod(rest[0], &sample.value) ||
      (rest.size() == 2 && !absl::SimpleAtoi(rest[1], &milliseconds))) {
    return Malformed("it does not end with a number");
  }
  (*samples)[name].push_back(std::move(sample));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MetricSamples> ParseMetricsText(absl::string_view text) {
  MetricSamples samples;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    if (const absl::Status parsed = ParseLine(line, &samples); !parsed.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", parsed.message()));
    }
  }
  return samples;
}

const std::vector<MetricSample>& SamplesOf(const MetricSamples& samples, const std::string& name) {
  static const std::vector<MetricSample> kNone;
  const auto found = samples.find(name);
  return found != samples.end() ? found->second : kNone;
}

std::optional<double> MetricValue(const MetricSamples& samples, const std::string& name,
                                  const MetricLabels& labels) {
  for (const MetricSample& sample : SamplesOf(samples, name)) {
    if (sample.labels == labels) return sample.value;
  }
  return std::nullopt;
}

std::string LabelOf(const MetricSample& sample, const std::string& label) {
  const auto found = sample.labels.find(label);
  return found != sample.labels.end() ? found->second : "";
}

}  // namespace stowage
