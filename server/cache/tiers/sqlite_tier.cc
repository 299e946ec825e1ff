#include "server/cache/tiers/sqlite_tier.h"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/cache/tiers/stored_answer.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRowBytes = 384;       // of a row beside its value, indexes included
constexpr int64_t kTouchSeconds = 3600;  // a hit writes only where the last use is older than this
constexpr double kRowsShare = 0.9;       // of the file; the rest is for half-filled pages

static_assert(kStoredVersion == 2, "the version in kTables, which is that of the values as well");

constexpr const char* kTables =
    "BEGIN IMMEDIATE;"
    "DROP TABLE IF EXISTS answers;"
    "CREATE TABLE answers (key BLOB PRIMARY KEY, rounded BLOB NOT NULL, owner TEXT NOT NULL,"
    " used INTEGER NOT NULL, bytes INTEGER NOT NULL, checksum INTEGER NOT NULL,"
    " value BLOB NOT NULL);"
    "CREATE INDEX answers_by_rounded ON answers (rounded);"
    "CREATE INDEX answers_by_use ON answers (used);"
    "CREATE INDEX answers_by_owner ON answers (owner, used, bytes);"
    "PRAGMA user_version = 2;"
    "COMMIT;";

int64_t Now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

std::string TextOf(sqlite3_stmt* row, int column) {
  const auto* const bytes = static_cast<const char*>(sqlite3_column_blob(row, column));
  return bytes == nullptr
             ? ""
             : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(row, column)));
}

void BindText(sqlite3_stmt* statement, int at, const std::string& text) {
  sqlite3_bind_text(statement, at, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

// The directory without symbolic links in its path, created for this user alone where it does not
// exist: answers reveal which networks are trained here.
absl::StatusOr<fs::path> MakeDirectory(const std::string& directory) {
  std::error_code error;
  if (fs::create_directories(directory, error)) {
    fs::permissions(directory, fs::perms::owner_all, error);
  }
  fs::path folder;
  if (!error) folder = fs::canonical(directory, error);
  if (!error) return folder;
  return absl::UnavailableError(absl::StrCat("cannot make ", directory, ": ", error.message(),
                                             "; choose another with --cache-dir"));
}

void BindKey(sqlite3_stmt* statement, int at, const Fingerprint& key) {
  sqlite3_bind_blob(statement, at, key.bytes.data(), static_cast<int>(key.bytes.size()),
                    SQLITE_TRANSIENT);
}

}  // namespace

SqliteTier::SqliteTier(std::string path, const CacheLimits& limits)
    : limits_{static_cast<int64_t>(kRowsShare * static_cast<double>(limits.bytes)),
              limits.client_share},
      file_(std::move(path)) {}

SqliteTier::~SqliteTier() = default;

absl::StatusOr<std::unique_ptr<SqliteTier>> SqliteTier::Open(const std::string& directory,
                                                             const CacheLimits& limits) {
  ASSIGN_OR_RETURN(const fs::path folder, MakeDirectory(directory));
  std::unique_ptr<SqliteTier> tier(new SqliteTier((folder / "answers.db").string(), limits));
  MutexLock lock(tier->mutex_);
  RETURN_IF_ERROR(tier->OpenFile());
  return tier;
}

// Opens the file; a damaged one is replaced, and `opening_` says so.
absl::Status SqliteTier::OpenFile() {
  absl::Status opened = SetUp();
  if (!absl::IsDataLoss(opened)) return opened;
  opening_ = opened;
  return BeginAnew();
}

absl::Status SqliteTier::opening() const {
  MutexLock lock(mutex_);
  return opening_;
}

// What kept the file from being opened may be over.
absl::Status SqliteTier::OpenAgain() { return file_.is_open() ? absl::OkStatus() : OpenFile(); }

// A file that could not be set up is closed again, and the next Get() or Put() opens it again.
// Until then the tier returns UNAVAILABLE.
absl::Status SqliteTier::SetUp() {
  absl::Status done = SetUpOpen();
  if (!done.ok()) file_.Close();
  return done;
}

// Opens the file, creates the tables where it is new or of another version, and counts the rows.
absl::Status SqliteTier::SetUpOpen() {
  RETURN_IF_ERROR(file_.Open());
  int version = 0;
  {
    ASSIGN_OR_RETURN(const Statement pragma, file_.Prepare("PRAGMA user_version"));
    if (sqlite3_step(pragma.get()) != SQLITE_ROW) return file_.Failed("cannot be read");
    version = sqlite3_column_int(pragma.get(), 0);
  }
  if (version != kStoredVersion) RETURN_IF_ERROR(file_.Execute(kTables));
  return CountUp();
}

// The index on (owner, used, bytes) covers the query, so that no row is read.
absl::Status SqliteTier::CountUp() {
  ASSIGN_OR_RETURN(const Statement sums,
                   file_.Prepare("SELECT owner, count(*), sum(bytes) FROM answers GROUP BY owner"));
  CacheStats all = {.evictions = stats_.evictions};
  absl::flat_hash_map<std::string, int64_t> of_owners;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(sums.get())) == SQLITE_ROW) {
    const int64_t bytes = sqlite3_column_int64(sums.get(), 2);
    of_owners[TextOf(sums.get(), 0)] = bytes;
    all.entries += sqlite3_column_int64(sums.get(), 1);
    all.bytes += bytes;
  }
  if (code != SQLITE_DONE) return file_.Failed("cannot be read");
  stats_ = all;
  owner_bytes_ = std::move(of_owners);
  return absl::OkStatus();
}

// Replaces a damaged file by an empty one. The old one is renamed, so that the damage can be
// examined; its write-ahead log, which is of no use to the new one, is removed.
absl::Status SqliteTier::BeginAnew() {
  file_.Close();
  std::error_code error;
  fs::rename(file_.path(), file_.path() + ".damaged", error);
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(file_.path() + suffix, error);
  stats_.entries = stats_.bytes = 0;
  owner_bytes_.clear();
  return SetUp();
}

// A row that cannot be read is removed, so that the answer is solved and stored again; where even
// the removal finds the file damaged, the whole file is replaced.
absl::StatusOr<CachedAnswerPtr> SqliteTier::Get(const Fingerprint& key) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(OpenAgain());
  const absl::StatusOr<Row> row = Read(key);
  if (absl::IsNotFound(row.status())) return CachedAnswerPtr();
  if (absl::IsDataLoss(row.status())) {
    if (absl::IsDataLoss(DeleteRow(key))) (void)BeginAnew();
    return row.status();
  }
  RETURN_IF_ERROR(row.status());
  // A failed update only costs the row its place in the order of eviction.
  if (const int64_t now = Now(); now > row->used + kTouchSeconds) (void)Touch(key, now);
  CachedAnswerPtr cached = DecodeAnswer(row->value, row->owner);
  if (cached != nullptr && KeyOf(*cached) == key) return cached;
  (void)DeleteRow(key);
  return absl::DataLossError(
      absl::StrCat(file_.path(), ": an answer cannot be read; it is dropped"));
}

// Other threads use the tier between two answers.
absl::Status SqliteTier::Visit(absl::FunctionRef<bool(CachedAnswerPtr)> visit) {
  std::vector<Fingerprint> keys;
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(OpenAgain());
    ASSIGN_OR_RETURN(keys, KeysByUse());
  }
  for (const Fingerprint& key : keys) {
    absl::StatusOr<Row> row = absl::NotFoundError("");
    {
      MutexLock lock(mutex_);
      row = Read(key);
    }
    if (absl::IsUnavailable(row.status())) return row.status();
    CachedAnswerPtr cached = row.ok() ? DecodeAnswer(row->value, row->owner) : nullptr;
    if (cached != nullptr && KeyOf(*cached) != key) cached = nullptr;
    if (!visit(std::move(cached))) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Fingerprint>> SqliteTier::KeysByUse() {
  ASSIGN_OR_RETURN(const Statement select,
                   file_.Prepare("SELECT key FROM answers ORDER BY used DESC"));
  std::vector<Fingerprint> keys;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(select.get())) == SQLITE_ROW) {
    const std::string bytes = TextOf(select.get(), 0);
    Fingerprint key;
    if (bytes.size() != key.bytes.size()) continue;
    std::copy(bytes.begin(), bytes.end(), key.bytes.begin());
    keys.push_back(key);
  }
  if (code != SQLITE_DONE) return file_.Failed("cannot be read");
  return keys;
}

// Errors: NOT_FOUND; DATA_LOSS where the checksum does not match.
absl::StatusOr<SqliteTier::Row> SqliteTier::Read(const Fingerprint& key) {
  Row row = {key, {}, {}, {}};
  ASSIGN_OR_RETURN(const Statement select,
                   file_.Prepare("SELECT value, checksum, used, owner FROM answers WHERE key = ?"));
  BindKey(select.get(), 1, key);
  const int code = sqlite3_step(select.get());
  if (code == SQLITE_DONE) return absl::NotFoundError("");
  if (code != SQLITE_ROW) return file_.Failed("cannot be read");
  row.value = TextOf(select.get(), 0);
  if (row.checksum() != sqlite3_column_int64(select.get(), 1)) {
    return absl::DataLossError(absl::StrCat(file_.path(), ": an answer is damaged; it is dropped"));
  }
  row.used = sqlite3_column_int64(select.get(), 2);
  row.owner = TextOf(select.get(), 3);
  return row;
}

absl::Status SqliteTier::Touch(const Fingerprint& key, int64_t used) {
  ASSIGN_OR_RETURN(const Statement update,
                   file_.Prepare("UPDATE answers SET used = ? WHERE key = ?"));
  sqlite3_bind_int64(update.get(), 1, used);
  BindKey(update.get(), 2, key);
  return sqlite3_step(update.get()) == SQLITE_DONE ? absl::OkStatus()
                                                   : file_.Failed("cannot be written");
}

// Runs a DELETE that removes at most one row and returns its owner and bytes, which no longer
// count. Errors: NOT_FOUND where there was no such row.
absl::Status SqliteTier::Delete(Statement statement) {
  const int code = sqlite3_step(statement.get());
  if (code == SQLITE_DONE) return absl::NotFoundError("no such answer is stored");
  if (code != SQLITE_ROW) return file_.Failed("cannot be written");
  const std::string owner = TextOf(statement.get(), 0);
  const int64_t bytes = sqlite3_column_int64(statement.get(), 1);
  if (sqlite3_step(statement.get()) != SQLITE_DONE) return file_.Failed("cannot be written");
  stats_.bytes -= bytes;
  --stats_.entries;
  int64_t& of_owner = owner_bytes_[owner];
  of_owner -= bytes;
  if (of_owner <= 0) owner_bytes_.erase(owner);
  return absl::OkStatus();
}

// Errors: NOT_FOUND where there is none.
absl::Status SqliteTier::DeleteRow(const Fingerprint& key) {
  ASSIGN_OR_RETURN(Statement row,
                   file_.Prepare("DELETE FROM answers WHERE key = ? RETURNING owner, bytes"));
  BindKey(row.get(), 1, key);
  return Delete(std::move(row));
}

absl::StatusOr<int64_t> SqliteTier::Remove(const Fingerprint& rounded) {
  MutexLock lock(mutex_);
  for (int64_t removed = 0;; ++removed) {
    ASSIGN_OR_RETURN(
        Statement row,
        file_.Prepare(
            "DELETE FROM answers WHERE rowid ="
            " (SELECT rowid FROM answers WHERE rounded = ? LIMIT 1) RETURNING owner, bytes"));
    BindKey(row.get(), 1, rounded);
    const absl::Status deleted = Delete(std::move(row));
    if (absl::IsNotFound(deleted)) return removed;
    RETURN_IF_ERROR(deleted);
  }
}

// Replaces the row and evicts others in one transaction: after a crash the file has the rows from
// before or from after it.
absl::Status SqliteTier::Put(CachedAnswerPtr cached) {
  const Row row = {KeyOf(*cached), cached->keys.rounded, EncodeAnswer(*cached), cached->owner};
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(OpenAgain());
  absl::Status written = file_.Execute("BEGIN IMMEDIATE");
  if (written.ok()) written = Write(row);
  if (written.ok()) written = file_.Execute("COMMIT");
  if (written.ok()) return written;
  file_.RollBack();
  if (absl::IsDataLoss(written) || absl::IsDataLoss(CountUp())) (void)BeginAnew();
  return written;
}

int64_t SqliteTier::Row::bytes() const {
  return kRowBytes + static_cast<int64_t>(value.size() + owner.size());
}

int64_t SqliteTier::Row::checksum() const {
  return static_cast<int64_t>(StoredChecksum(key, value));
}

// Whether another owner has a row of that key.
absl::StatusOr<bool> SqliteTier::IsOfAnother(const Row& row) {
  ASSIGN_OR_RETURN(const Statement select,
                   file_.Prepare("SELECT 1 FROM answers WHERE key = ? AND owner != ?"));
  BindKey(select.get(), 1, row.key);
  BindText(select.get(), 2, row.owner);
  const int code = sqlite3_step(select.get());
  if (code != SQLITE_ROW && code != SQLITE_DONE) return file_.Failed("cannot be read");
  return code == SQLITE_ROW;
}

// An answer that is larger than the whole limit is not stored; the row that it would replace is
// removed all the same.
absl::Status SqliteTier::Write(const Row& row) {
  ASSIGN_OR_RETURN(const bool is_of_another, IsOfAnother(row));
  if (is_of_another) return absl::OkStatus();
  if (const absl::Status removed = DeleteRow(row.key); !absl::IsNotFound(removed)) {
    RETURN_IF_ERROR(removed);
  }
  if (row.bytes() > limits_.bytes) return absl::OkStatus();
  RETURN_IF_ERROR(MakeRoomFor(row));
  return Insert(row);
}

absl::Status SqliteTier::Insert(const Row& row) {
  ASSIGN_OR_RETURN(
      const Statement insert,
      file_.Prepare("INSERT INTO answers (key, rounded, owner, used, bytes, checksum, value)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)"));
  BindKey(insert.get(), 1, row.key);
  BindKey(insert.get(), 2, row.rounded);
  BindText(insert.get(), 3, row.owner);
  sqlite3_bind_int64(insert.get(), 4, Now());
  sqlite3_bind_int64(insert.get(), 5, row.bytes());
  sqlite3_bind_int64(insert.get(), 6, row.checksum());
  sqlite3_bind_blob64(insert.get(), 7, row.value.data(), row.value.size(), SQLITE_STATIC);
  if (sqlite3_step(insert.get()) != SQLITE_DONE) return file_.Failed("cannot be written");
  stats_.bytes += row.bytes();
  ++stats_.entries;
  owner_bytes_[row.owner] += row.bytes();
  return absl::OkStatus();
}

// Evicts the least recently used rows until the new one fits: of its owner where that one has its
// share, else of all. Loops over single rows, because rows differ in size.
absl::Status SqliteTier::MakeRoomFor(const Row& row) {
  while (stats_.entries > 0 && stats_.bytes + row.bytes() > limits_.bytes) {
    const auto of_owner = owner_bytes_.find(row.owner);
    const bool evicts_own =
        of_owner != owner_bytes_.end() && limits_.ExceedsShare(of_owner->second + row.bytes());
    ASSIGN_OR_RETURN(
        Statement oldest,
        file_.Prepare(
            evicts_own
                ? "DELETE FROM answers WHERE rowid = (SELECT rowid FROM answers WHERE owner = ?"
                  " ORDER BY used LIMIT 1) RETURNING owner, bytes"
                : "DELETE FROM answers WHERE rowid = (SELECT rowid FROM answers"
                  " ORDER BY used LIMIT 1) RETURNING owner, bytes"));
    if (evicts_own) BindText(oldest.get(), 1, row.owner);
    RETURN_IF_ERROR(Delete(std::move(oldest)));
    ++stats_.evictions;
  }
  return absl::OkStatus();
}

CacheStats SqliteTier::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace stowage
