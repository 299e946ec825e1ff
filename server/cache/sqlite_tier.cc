#include "server/cache/sqlite_tier.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/convert/stored_answer.h"
#include "solver/base/status_macros.h"
#include "stowage/v1/store.pb.h"
#include "xxhash.h"

namespace stowage {
namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 1;              // of the tables and of StoredAnswer
constexpr int64_t kRowBytes = 160;       // of a row beside its value, indexes included
constexpr int64_t kTouchSeconds = 3600;  // a hit writes only where the last use is older than this
constexpr double kRowsShare = 0.9;       // of the file; the rest is for half-filled pages

constexpr const char* kSetUp =
    "PRAGMA locking_mode = EXCLUSIVE;"  // before WAL: then it needs no shared memory
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = NORMAL;"  // a power cut may lose the last answers, nothing else
    "PRAGMA journal_size_limit = 16777216;";
constexpr const char* kTables =
    "BEGIN IMMEDIATE;"
    "DROP TABLE IF EXISTS answers;"
    "CREATE TABLE answers (key BLOB PRIMARY KEY, used INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " checksum INTEGER NOT NULL, value BLOB NOT NULL);"
    "CREATE INDEX answers_by_use ON answers (used, bytes);"
    "PRAGMA user_version = 1;"
    "COMMIT;";

using KeyBytes = std::array<char, 16>;

KeyBytes BytesOf(const Fingerprint& key) {
  KeyBytes bytes;
  for (int i = 0; i < 8; ++i) {
    bytes[static_cast<size_t>(i)] = static_cast<char>(key.high >> (56 - 8 * i));
    bytes[static_cast<size_t>(i) + 8] = static_cast<char>(key.low >> (56 - 8 * i));
  }
  return bytes;
}

// Seeded with the key, so that a value under another's key is found, too.
int64_t ChecksumOf(const Fingerprint& key, const void* value, size_t size) {
  return static_cast<int64_t>(XXH3_64bits_withSeed(value, size, key.low));
}

int64_t Now() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

void SetKey(const Fingerprint& from, v1::StoredKey* to) {
  to->set_high(from.high);
  to->set_low(from.low);
}

Fingerprint KeyFrom(const v1::StoredKey& key) { return {key.high(), key.low()}; }

std::string ValueOf(const CachedAnswer& cached) {
  v1::StoredAnswer stored = ToStored(cached.answer);
  SetKey(cached.keys.rounded, stored.mutable_rounded());
  SetKey(cached.keys.exact_sizes, stored.mutable_exact_sizes());
  SetKey(cached.keys.exact, stored.mutable_exact());
  return stored.SerializeAsString();
}

// Null: `value` is no stored answer.
CachedAnswerPtr CachedFrom(const std::string& value) {
  v1::StoredAnswer stored;
  if (!stored.ParseFromString(value)) return nullptr;
  std::optional<Answer> answer = FromStored(stored);
  if (!answer.has_value()) return nullptr;
  return std::make_shared<const CachedAnswer>(CachedAnswer{
      *std::move(answer),
      {KeyFrom(stored.rounded()), KeyFrom(stored.exact_sizes()), KeyFrom(stored.exact())}});
}

void BindKey(sqlite3_stmt* statement, int at, const Fingerprint& key) {
  const KeyBytes bytes = BytesOf(key);
  sqlite3_bind_blob(statement, at, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
}

}  // namespace

void SqliteTier::Closer::operator()(sqlite3* database) const { sqlite3_close_v2(database); }
void SqliteTier::Closer::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

SqliteTier::SqliteTier(std::string path, int64_t most_bytes)
    : path_(std::move(path)),
      most_bytes_(static_cast<int64_t>(kRowsShare * static_cast<double>(most_bytes))) {}

SqliteTier::~SqliteTier() = default;

absl::StatusOr<std::unique_ptr<SqliteTier>> SqliteTier::Open(const std::string& directory,
                                                             int64_t most_bytes) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot make ", directory, ": ", error.message(),
                                               "; choose another with --cache-dir"));
  }
  std::unique_ptr<SqliteTier> tier(
      new SqliteTier((fs::path(directory) / "answers.db").string(), most_bytes));
  MutexLock lock(tier->mutex_);
  RETURN_IF_ERROR(tier->OpenFile());
  return tier;
}

// The error of the last call to SQLite, as "PATH: WHAT: SQLite's text"; DATA_LOSS where the file is
// damaged, else UNAVAILABLE.
absl::Status SqliteTier::Failed(const char* what) {
  const int code = database_ != nullptr ? sqlite3_errcode(database_.get()) : SQLITE_NOMEM;
  const std::string message = absl::StrCat(path_, ": ", what, ": ", sqlite3_errstr(code),
                                           code == SQLITE_BUSY ? "; another process uses it" : "");
  const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
  return damaged ? absl::DataLossError(message) : absl::UnavailableError(message);
}

absl::Status SqliteTier::Execute(const char* sql) {
  if (database_ == nullptr) return absl::UnavailableError(absl::StrCat(path_, ": is not open"));
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) {
    return absl::OkStatus();
  }
  const absl::Status failed = Failed("cannot be written");
  // A transaction that stays open would make every later BEGIN fail.
  if (sqlite3_get_autocommit(database_.get()) == 0) {
    sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  return failed;
}

absl::StatusOr<SqliteTier::Statement> SqliteTier::Prepare(const char* sql) {
  if (database_ == nullptr) return absl::UnavailableError(absl::StrCat(path_, ": is not open"));
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql, -1, &statement, nullptr) != SQLITE_OK) {
    return Failed("cannot be read");
  }
  return Statement(statement);
}

// Opens the file; a damaged one is replaced, and `opening_` says so.
absl::Status SqliteTier::OpenFile() {
  const absl::Status opened = SetUp();
  if (!absl::IsDataLoss(opened)) return opened;
  opening_ = opened;
  return BeginAnew();
}

absl::Status SqliteTier::opening() const {
  MutexLock lock(mutex_);
  return opening_;
}

// A file that could not be set up is closed again, and the next Put() opens it again. Until then
// the tier returns UNAVAILABLE.
absl::Status SqliteTier::SetUp() {
  const absl::Status done = SetUpOpen();
  if (!done.ok()) database_.reset();
  return done;
}

// Opens the file, restricts who may read it, takes the lock that keeps other processes out, creates
// the tables where the file is new or of another version, and counts the rows.
absl::Status SqliteTier::SetUpOpen() {
  sqlite3* database = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int code = sqlite3_open_v2(path_.c_str(), &database, flags, nullptr);
  database_.reset(database);
  if (code != SQLITE_OK) return Failed("cannot be opened");
  (void)chmod(path_.c_str(), 0600);  // answers reveal which networks are trained here
  RETURN_IF_ERROR(Execute(kSetUp));
  RETURN_IF_ERROR(
      Execute("BEGIN IMMEDIATE; COMMIT;"));  // takes the lock; BUSY: another process has it
  int version = 0;
  {
    ASSIGN_OR_RETURN(const Statement pragma, Prepare("PRAGMA user_version"));
    if (sqlite3_step(pragma.get()) != SQLITE_ROW) return Failed("cannot be read");
    version = sqlite3_column_int(pragma.get(), 0);
  }
  if (version != kVersion) RETURN_IF_ERROR(Execute(kTables));
  return CountUp();
}

// The index on (used, bytes) covers the query, so that no row is read.
absl::Status SqliteTier::CountUp() {
  ASSIGN_OR_RETURN(const Statement sum,
                   Prepare("SELECT count(*), coalesce(sum(bytes), 0) FROM answers"));
  if (sqlite3_step(sum.get()) != SQLITE_ROW) return Failed("cannot be read");
  stats_.entries = sqlite3_column_int64(sum.get(), 0);
  stats_.bytes = sqlite3_column_int64(sum.get(), 1);
  return absl::OkStatus();
}

// Replaces a damaged file by an empty one. The old one is renamed, so that the damage can be
// examined; its write-ahead log, which is of no use to the new one, is removed.
absl::Status SqliteTier::BeginAnew() {
  database_.reset();
  std::error_code error;
  fs::rename(path_, path_ + ".damaged", error);
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(path_ + suffix, error);
  stats_.entries = stats_.bytes = 0;
  return SetUp();
}

// A row that cannot be read is removed, so that the answer is solved and stored again; where even
// the removal finds the file damaged, the whole file is replaced.
absl::StatusOr<CachedAnswerPtr> SqliteTier::Get(const Fingerprint& key) {
  MutexLock lock(mutex_);
  absl::StatusOr<std::string> value = Read(key);
  if (absl::IsNotFound(value.status())) return CachedAnswerPtr();
  if (absl::IsDataLoss(value.status())) {
    if (absl::IsDataLoss(Remove(key))) (void)BeginAnew();
    return value.status();
  }
  RETURN_IF_ERROR(value.status());
  CachedAnswerPtr cached = CachedFrom(*value);
  if (cached != nullptr && KeyOf(*cached) == key) return cached;
  (void)Remove(key);
  return absl::DataLossError(absl::StrCat(path_, ": an answer cannot be read; it is dropped"));
}

// The value of the row. Errors: NOT_FOUND; DATA_LOSS where the checksum does not match.
absl::StatusOr<std::string> SqliteTier::Read(const Fingerprint& key) {
  std::string value;
  int64_t used = 0;
  {
    ASSIGN_OR_RETURN(const Statement row,
                     Prepare("SELECT value, checksum, used FROM answers WHERE key = ?"));
    BindKey(row.get(), 1, key);
    const int code = sqlite3_step(row.get());
    if (code == SQLITE_DONE) return absl::NotFoundError("");
    if (code != SQLITE_ROW) return Failed("cannot be read");
    const void* const bytes = sqlite3_column_blob(row.get(), 0);
    const auto size = static_cast<size_t>(sqlite3_column_bytes(row.get(), 0));
    if (bytes == nullptr || ChecksumOf(key, bytes, size) != sqlite3_column_int64(row.get(), 1)) {
      return absl::DataLossError(absl::StrCat(path_, ": an answer is damaged; it is dropped"));
    }
    value.assign(static_cast<const char*>(bytes), size);
    used = sqlite3_column_int64(row.get(), 2);
  }
  // The SELECT is finalized by now. A failed update only costs the row its place in the order of
  // eviction.
  if (const int64_t now = Now(); now > used + kTouchSeconds) (void)Touch(key, now);
  return value;
}

absl::Status SqliteTier::Touch(const Fingerprint& key, int64_t used) {
  ASSIGN_OR_RETURN(const Statement update, Prepare("UPDATE answers SET used = ? WHERE key = ?"));
  sqlite3_bind_int64(update.get(), 1, used);
  BindKey(update.get(), 2, key);
  return sqlite3_step(update.get()) == SQLITE_DONE ? absl::OkStatus() : Failed("cannot be written");
}

// Also subtracts the row from `stats_`. OK where there is no such row.
absl::Status SqliteTier::Remove(const Fingerprint& key) {
  ASSIGN_OR_RETURN(const Statement row,
                   Prepare("DELETE FROM answers WHERE key = ? RETURNING bytes"));
  BindKey(row.get(), 1, key);
  int code = sqlite3_step(row.get());
  if (code == SQLITE_DONE) return absl::OkStatus();  // it was not there
  const int64_t bytes = code == SQLITE_ROW ? sqlite3_column_int64(row.get(), 0) : 0;
  if (code == SQLITE_ROW) code = sqlite3_step(row.get());  // to the statement's end
  if (code != SQLITE_DONE) return Failed("cannot be written");
  stats_.bytes -= bytes;
  --stats_.entries;
  return absl::OkStatus();
}

// Replaces the row and evicts others in one transaction: after a crash the file has the rows from
// before or from after it. `stats_` changes along the way and is restored where the transaction
// fails.
absl::Status SqliteTier::Put(CachedAnswerPtr cached) {
  const std::string value = ValueOf(*cached);
  const Fingerprint key = KeyOf(*cached);
  MutexLock lock(mutex_);
  // What kept the file from being opened may be over.
  if (database_ == nullptr) RETURN_IF_ERROR(OpenFile());
  const CacheStats before = stats_;
  absl::Status written = Execute("BEGIN IMMEDIATE");
  if (written.ok()) written = Write(key, value);
  if (written.ok()) written = Execute("COMMIT");
  if (written.ok()) return written;
  if (database_ != nullptr && sqlite3_get_autocommit(database_.get()) == 0) {
    (void)Execute("ROLLBACK");
  }
  stats_ = before;
  if (absl::IsDataLoss(written)) (void)BeginAnew();
  return written;
}

// An answer that is larger than the whole limit is not stored; the row that it would replace is
// removed all the same.
absl::Status SqliteTier::Write(const Fingerprint& key, const std::string& value) {
  RETURN_IF_ERROR(Remove(key));
  const int64_t bytes = kRowBytes + static_cast<int64_t>(value.size());
  if (bytes > most_bytes_) return absl::OkStatus();
  RETURN_IF_ERROR(MakeRoom(bytes));
  return Insert(key, value);
}

absl::Status SqliteTier::Insert(const Fingerprint& key, const std::string& value) {
  const int64_t bytes = kRowBytes + static_cast<int64_t>(value.size());
  ASSIGN_OR_RETURN(const Statement row,
                   Prepare("INSERT INTO answers (key, used, bytes, checksum, value)"
                           " VALUES (?, ?, ?, ?, ?)"));
  BindKey(row.get(), 1, key);
  sqlite3_bind_int64(row.get(), 2, Now());
  sqlite3_bind_int64(row.get(), 3, bytes);
  sqlite3_bind_int64(row.get(), 4, ChecksumOf(key, value.data(), value.size()));
  sqlite3_bind_blob64(row.get(), 5, value.data(), value.size(), SQLITE_STATIC);
  if (sqlite3_step(row.get()) != SQLITE_DONE) return Failed("cannot be written");
  stats_.bytes += bytes;
  ++stats_.entries;
  return absl::OkStatus();
}

// Evicts the least recently used rows until `bytes` more fit. Loops over single rows, because rows
// differ in size.
absl::Status SqliteTier::MakeRoom(int64_t bytes) {
  while (stats_.entries > 0 && stats_.bytes + bytes > most_bytes_) {
    ASSIGN_OR_RETURN(const Statement row,
                     Prepare("DELETE FROM answers WHERE rowid ="
                             " (SELECT rowid FROM answers ORDER BY used LIMIT 1) RETURNING bytes"));
    if (sqlite3_step(row.get()) != SQLITE_ROW) return Failed("cannot be written");
    stats_.bytes -= sqlite3_column_int64(row.get(), 0);
    --stats_.entries;
    ++stats_.evictions;
    if (sqlite3_step(row.get()) != SQLITE_DONE) return Failed("cannot be written");
  }
  return absl::OkStatus();
}

CacheStats SqliteTier::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace stowage
