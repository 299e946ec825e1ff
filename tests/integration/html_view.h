// What a page of --html shows.
#ifndef STOWAGE_TESTS_INTEGRATION_HTML_VIEW_H_
#define STOWAGE_TESTS_INTEGRATION_HTML_VIEW_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "proto/convert/json.h"
#include "stowage/v1/view.pb.h"

namespace stowage {

inline v1::View ViewIn(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="view">)";
  const size_t at = page.find(begin);
  EXPECT_NE(at, std::string::npos);
  const size_t from = at + begin.size();
  v1::View view;
  const absl::Status read =
      FromJson(page.substr(from, page.find("</script>", from) - from), "view", &view);
  EXPECT_TRUE(read.ok()) << read;
  return view;
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_INTEGRATION_HTML_VIEW_H_
