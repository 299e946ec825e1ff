// Files of tests: a folder that is gone afterwards, and whole files as text.
#ifndef STOWAGE_TESTS_SUPPORT_FILES_H_
#define STOWAGE_TESTS_SUPPORT_FILES_H_

#include <string>

namespace stowage {

// A fresh folder, removed with all that is in it by the destructor.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  // The path of a file in it, which need not exist.
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

// Both throw std::runtime_error with the path.
std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& text);

// The path of a profile in tests/data: "pipedream-vgg16-128-224".
std::string ProfilePath(const std::string& name);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_FILES_H_
