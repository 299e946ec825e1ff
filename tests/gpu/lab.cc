#include "tests/gpu/lab.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "solver/base/file.h"
#include "solver/base/status_macros.h"

namespace stowage {

std::vector<Model> Models(Scale scale) {
  if (scale == Scale::kFull) {
    return {{"resnet50", {.batch = 64}},
            {"densenet121", {.batch = 32}},
            {"gpt2", {.batch = 4, .sequence = 1024}}};
  }
  return {
      {"resnet50", {.batch = 4, .image = 96, .channels = 16, .classes = 10}},
      {"densenet121", {.batch = 4, .image = 96, .channels = 16, .classes = 10}},
      {"gpt2", {.batch = 2, .layers = 4, .width = 128, .sequence = 128, .vocabulary = 1000}},
  };
}

std::string Lab::PathOf(absl::string_view file) const { return absl::StrCat(folder, "/", file); }

std::string Lab::NameOf(absl::string_view table) const {
  return only.empty() ? std::string(table) : absl::StrCat(table, "-", only);
}

absl::Status Lab::Publish(const std::string& name, const std::string& title, const Sheet& sheet,
                          const std::vector<std::string>& remarks) const {
  std::string text = absl::StrCat("### ", title, "\n\n", sheet.ToMarkdown());
  for (const std::string& remark : remarks) absl::StrAppend(&text, "\n", remark, "\n");
  absl::PrintF("%s\n", text);
  (void)std::fflush(stdout);
  RETURN_IF_ERROR(WriteFile(PathOf(name + ".md"), text));
  return WriteFile(PathOf(name + ".csv"), sheet.ToCsv());
}

}  // namespace stowage
