// The flags of a benchmark program, and the lines that it prints while it runs. Every program has
// --help; a bad value ends it with one line that names the flag. CLI11 is inside.
#ifndef STOWAGE_TESTS_BENCHMARK_BENCHMARK_FLAGS_H_
#define STOWAGE_TESTS_BENCHMARK_BENCHMARK_FLAGS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "solver/model/platform.h"

namespace CLI {
class App;
}  // namespace CLI

namespace stowage {

template <typename Value>
struct ValueRange {
  Value least;
  Value most;
};

// Each Add…() declares a flag whose default is what `value` holds; Parse() sets it. `name` has its
// dashes. Number types: int, int64_t, double.
class BenchmarkFlags {
 public:
  // `what`: what the program prints, for --help.
  BenchmarkFlags(const std::string& program, const std::string& what);
  ~BenchmarkFlags();

  template <typename Value>
  void AddNumber(const std::string& name, ValueRange<Value> range, Value* value,
                 const std::string& help);
  // Several, separated by commas.
  void AddNumbers(const std::string& name, ValueRange<int> range, std::vector<int>* values,
                  const std::string& help);
  void AddSwitch(const std::string& name, bool* value, const std::string& help);
  void AddText(const std::string& name, std::string* value, const std::string& help);
  void AddTexts(const std::string& name, std::vector<std::string>* values, const std::string& help);
  // --solver, of the catalog's.
  void AddSolver(std::string* value);
  // --links: GB/s to the host and back, as LinkPlatform() reads them.
  void AddLinks(std::vector<std::string>* values);
  // A file to read, which must exist; empty: none.
  void AddInputFile(const std::string& name, std::string* value, const std::string& help);
  // For the program itself, which starts itself with it: not in --help.
  void AddInternalTexts(const std::string& name, std::vector<std::string>* values);

  // Sets the values. Returns the exit code where the program is to end: after --help, which goes to
  // standard output, or a bad value. From here on standard output is written line by line, so that
  // a pipe shows each row of a table when it is printed.
  std::optional<int> Parse(int argc, char** argv);

 private:
  const std::unique_ptr<CLI::App> app_;
};

// "12h": 12 GB/s, both directions share them; "0": no link. nullopt for other text.
std::optional<Platform> LinkPlatform(const std::string& link);

// Writes what is measured next to standard error, as a line, at once.
void Progress(const std::string& what);

}  // namespace stowage

#endif  // STOWAGE_TESTS_BENCHMARK_BENCHMARK_FLAGS_H_
