// The disk cache: survives restarts and kill -9, stays within its size limit, drops what it cannot
// read.
//
// One file, "answers.db", with one row for each answer, under the answer's cache key. Keys contain
// the solver's version, so that answers of older solvers are never found again; they are evicted
// when room is needed, as the least recently used rows are. Every row carries a checksum. A damaged
// file is renamed to "answers.db.damaged" and replaced by an empty one.
#ifndef STOWAGE_SERVER_CACHE_TIERS_SQLITE_TIER_H_
#define STOWAGE_SERVER_CACHE_TIERS_SQLITE_TIER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/cache/cache_tier.h"
#include "server/cache/tiers/sqlite_file.h"
#include "solver/base/mutex.h"

namespace stowage {

// Thread-safe.
class SqliteTier final : public CacheTier, public AnswerSource {
 public:
  // Creates the directory, for this user alone, where it does not exist. The directory may be a
  // symbolic link, the file may not. The limits are those of the file's size.
  // Errors: UNAVAILABLE with the path and the reason, when the directory cannot be used or another
  // process uses it: ".../answers.db: cannot be written: database is locked; another process uses
  // it".
  static absl::StatusOr<std::unique_ptr<SqliteTier>> Open(const std::string& directory,
                                                          const CacheLimits& limits);
  ~SqliteTier() override;

  // OK; or DATA_LOSS with the path: the file was damaged when it was opened, and was replaced.
  absl::Status opening() const;

  absl::StatusOr<CachedAnswerPtr> Get(const Fingerprint& key) override;
  absl::Status Put(CachedAnswerPtr cached) override;
  absl::StatusOr<int64_t> Remove(const Fingerprint& rounded) override;
  CacheStats stats() const override;

  // Leaves the order of use as it is.
  absl::Status Visit(absl::FunctionRef<bool(CachedAnswerPtr)> visit) override;

 private:
  using Statement = SqliteFile::Statement;

  // One row, as it is written.
  struct Row {
    Fingerprint key;
    Fingerprint rounded;
    std::string value;
    std::string owner;
    int64_t used = 0;  // seconds since the epoch; of a row that was read

    int64_t bytes() const;     // of the row in the file
    int64_t checksum() const;  // of the value under its key
  };

  SqliteTier(std::string path, const CacheLimits& limits);

  absl::Status OpenFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OpenAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SetUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status SetUpOpen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CountUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status BeginAnew() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::vector<Fingerprint>> KeysByUse() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Row> Read(const Fingerprint& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Write(const Row& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<bool> IsOfAnother(const Row& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Insert(const Row& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoomFor(const Row& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Delete(Statement statement) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status DeleteRow(const Fingerprint& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Touch(const Fingerprint& key, int64_t used) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CacheLimits limits_;  // of all rows
  mutable Mutex mutex_;
  SqliteFile file_ ABSL_GUARDED_BY(mutex_);  // closed: it could not be opened
  absl::Status opening_ ABSL_GUARDED_BY(mutex_);
  // Entries and bytes of the file's rows, in all and by owner; both counted anew where a
  // transaction failed.
  CacheStats stats_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, int64_t> owner_bytes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stowage

#endif  // STOWAGE_SERVER_CACHE_TIERS_SQLITE_TIER_H_
