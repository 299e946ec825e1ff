// A file of SQLite that this process alone has open and this user alone can read.
#ifndef STOWAGE_SERVER_CACHE_TIERS_SQLITE_FILE_H_
#define STOWAGE_SERVER_CACHE_TIERS_SQLITE_FILE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace stowage {

// Closed until Open(). All errors are UNAVAILABLE with the path and the reason, or DATA_LOSS where
// the file is damaged. Thread-compatible.
class SqliteFile {
 public:
  struct Closer {
    void operator()(sqlite3* database) const;
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Closer>;

  explicit SqliteFile(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  bool is_open() const { return database_ != nullptr; }
  // Creates the file where there is none. Where that fails, the file may be open: see Failed().
  absl::Status Open();
  void Close() { database_.reset(); }

  absl::Status Execute(const char* sql);  // rolls back a transaction in which it fails
  absl::StatusOr<Statement> Prepare(const char* sql);
  void RollBack();  // does nothing outside a transaction
  // The error of the last call to SQLite, as "PATH: WHAT: SQLite's text".
  absl::Status Failed(const char* what) const;

 private:
  const std::string path_;
  std::unique_ptr<sqlite3, Closer> database_;
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_TIERS_SQLITE_FILE_H_
