#include "tests/benchmark/benchmark_flags.h"

#include <cstdint>
#include <cstdio>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "solver/base/quote.h"
#include "solver/solve/catalog.h"

namespace stowage {

BenchmarkFlags::BenchmarkFlags(const std::string& program, const std::string& what)
    : app_(std::make_unique<CLI::App>(what, program)) {}

BenchmarkFlags::~BenchmarkFlags() = default;

template <typename Value>
void BenchmarkFlags::AddNumber(const std::string& name, ValueRange<Value> range, Value* value,
                               const std::string& help) {
  app_->add_option(name, *value, help)
      ->check(CLI::Range(range.least, range.most))
      ->capture_default_str();
}

template void BenchmarkFlags::AddNumber(const std::string&, ValueRange<int>, int*,
                                        const std::string&);
template void BenchmarkFlags::AddNumber(const std::string&, ValueRange<int64_t>, int64_t*,
                                        const std::string&);
template void BenchmarkFlags::AddNumber(const std::string&, ValueRange<double>, double*,
                                        const std::string&);

void BenchmarkFlags::AddNumbers(const std::string& name, ValueRange<int> range,
                                std::vector<int>* values, const std::string& help) {
  app_->add_option(name, *values, help)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(range.least, range.most))
      ->capture_default_str();
}

void BenchmarkFlags::AddSwitch(const std::string& name, bool* value, const std::string& help) {
  app_->add_flag(name, *value, help);
}

void BenchmarkFlags::AddText(const std::string& name, std::string* value, const std::string& help) {
  app_->add_option(name, *value, help)->capture_default_str();
}

void BenchmarkFlags::AddTexts(const std::string& name, std::vector<std::string>* values,
                              const std::string& help) {
  app_->add_option(name, *values, help)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
}

void BenchmarkFlags::AddSolver(std::string* value) {
  app_->add_option("--solver", *value, "the solver")
      ->check([](const std::string& name) {
        return FindSolver(name) != nullptr ? std::string() : Quoted(name) + " is no solver";
      })
      ->capture_default_str();
}

void BenchmarkFlags::AddLinks(std::vector<std::string>* values) {
  app_->add_option("--links", *values,
                   "GB/s to the host and back; 0: no link; h: both directions share it")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check([](const std::string& link) {
        return LinkPlatform(link).has_value() ? std::string()
                                              : Quoted(link) + " is no link such as 0, 3 or 12h";
      })
      ->capture_default_str();
}

void BenchmarkFlags::AddInputFile(const std::string& name, std::string* value,
                                  const std::string& help) {
  app_->add_option(name, *value, help)->check(CLI::ExistingFile);
}

void BenchmarkFlags::AddInternalTexts(const std::string& name, std::vector<std::string>* values) {
  app_->add_option(name, *values)->group("");
}

std::optional<int> BenchmarkFlags::Parse(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app_->exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s; see --help\n", app_->get_name().c_str(),
                 Printable(error.what()).c_str());
    return 1;
  }
  return std::nullopt;
}

std::optional<Platform> LinkPlatform(const std::string& link) {
  absl::string_view number = link;
  Platform platform;
  platform.half_duplex = absl::ConsumeSuffix(&number, "h");
  double gigabytes_per_second = 0;
  // Written so that NaN is refused, too.
  if (!absl::SimpleAtod(number, &gigabytes_per_second) ||
      !(gigabytes_per_second >= 0 && gigabytes_per_second <= 1e6)) {
    return std::nullopt;
  }
  platform.offload_bytes_per_second = gigabytes_per_second * 1e9;
  return platform;
}

void Progress(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::fflush(stderr);
}

}  // namespace stowage
