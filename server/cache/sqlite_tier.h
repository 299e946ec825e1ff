// The cache on disk: survives restarts and kill -9, stays within its bytes, drops what it cannot
// read. The only place that knows SQLite.
//
// One file with a row an answer, under the key of its question, which holds the solver's version:
// what older solvers answered is never asked for again, and goes when there is need of room, as the
// least recently used does. Every row carries a checksum. A file that is damaged is put aside
// ("answers.db.damaged") and a new one begun.
#ifndef STOWAGE_SERVER_CACHE_SQLITE_TIER_H_
#define STOWAGE_SERVER_CACHE_SQLITE_TIER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cache/cache_tier.h"
#include "solver/base/mutex.h"

struct sqlite3;
struct sqlite3_stmt;

namespace stowage {

// Thread-safe.
class SqliteTier final : public CacheTier {
 public:
  // Makes the directory if need be. Errors: UNAVAILABLE, with the path and the remedy, when it
  // cannot be used or another process uses it.
  static absl::StatusOr<std::unique_ptr<SqliteTier>> Open(const std::string& directory,
                                                          int64_t most_bytes);
  ~SqliteTier() override;

  // OK; or DATA_LOSS, with the path: the file was damaged when it was opened, and put aside.
  absl::Status opening() const;

  absl::StatusOr<CachedAnswerPtr> Get(const Fingerprint& key) override;
  absl::Status Put(CachedAnswerPtr known) override;
  CacheStats stats() const override;

 private:
  struct Closer {
    void operator()(sqlite3* database) const;
    void operator()(sqlite3_stmt* statement) const;
  };
  using Database = std::unique_ptr<sqlite3, Closer>;
  using Statement = std::unique_ptr<sqlite3_stmt, Closer>;

  SqliteTier(std::string path, int64_t most_bytes);

  absl::Status OpenFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SetUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SetUpOpen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CountUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Execute(const char* sql) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Statement> Prepare(const char* sql) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Failed(const char* what) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BeginAnew() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::string> Read(const Fingerprint& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Write(const Fingerprint& key, const std::string& value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Insert(const Fingerprint& key, const std::string& value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoom(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Remove(const Fingerprint& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Touch(const Fingerprint& key, int64_t used) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const int64_t most_bytes_;
  mutable Mutex mutex_;
  Database database_ ABSL_GUARDED_BY(mutex_);
  absl::Status opening_ ABSL_GUARDED_BY(mutex_);
  CacheStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_SQLITE_TIER_H_
