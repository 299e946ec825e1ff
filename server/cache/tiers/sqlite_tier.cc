#include "server/cache/tiers/sqlite_tier.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

constexpr const char* kSetUp =
    "PRAGMA locking_mode = EXCLUSIVE;"  // before WAL: then it needs no shared memory
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = NORMAL;"  // a power cut may lose the last answers, nothing else
    "PRAGMA journal_size_limit = 16777216;";
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

// Creates the file where there is none, and lets nobody else read it: answers reveal which networks
// are trained here. Errors: UNAVAILABLE for what is not a file of this directory alone. With a
// link, who may write to the directory would have the server change and rename a file elsewhere.
absl::Status ClaimFile(const std::string& path) {
  const auto refused = [&path](const char* what) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot be opened; ", what, ": remove it"));
  };
  constexpr int kFlags = O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int fd = open(path.c_str(), kFlags, 0600);
  if (fd < 0) {
    if (errno == ELOOP) return refused("it is a symbolic link, which is not followed");
    return absl::UnavailableError(
        absl::StrCat(path, ": cannot be opened: ", std::generic_category().message(errno)));
  }
  struct stat file {};
  const bool is_known = fstat(fd, &file) == 0;
  const bool is_regular = is_known && S_ISREG(file.st_mode);
  const bool is_claimed = is_regular && file.st_nlink == 1;
  if (is_claimed) (void)fchmod(fd, 0600);
  close(fd);
  if (!is_regular) return refused("it is no regular file");
  if (!is_claimed) return refused("it has another name, as a hard link");
  return absl::OkStatus();
}

void BindKey(sqlite3_stmt* statement, int at, const Fingerprint& key) {
  sqlite3_bind_blob(statement, at, key.bytes.data(), static_cast<int>(key.bytes.size()),
                    SQLITE_TRANSIENT);
}

}  // namespace

void SqliteTier::Closer::operator()(sqlite3* database) const { sqlite3_close_v2(database); }
void SqliteTier::Closer::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

SqliteTier::SqliteTier(std::string path, const CacheLimits& limits)
    : path_(std::move(path)),
      limits_{static_cast<int64_t>(kRowsShare * static_cast<double>(limits.bytes)),
              limits.client_share} {}

SqliteTier::~SqliteTier() = default;

absl::StatusOr<std::unique_ptr<SqliteTier>> SqliteTier::Open(const std::string& directory,
                                                             const CacheLimits& limits) {
  ASSIGN_OR_RETURN(const fs::path folder, MakeDirectory(directory));
  std::unique_ptr<SqliteTier> tier(new SqliteTier((folder / "answers.db").string(), limits));
  MutexLock lock(tier->mutex_);
  RETURN_IF_ERROR(tier->OpenFile());
  return tier;
}

// The error of the last call to SQLite, as "PATH: WHAT: SQLite's text"; DATA_LOSS where the file is
// damaged, else UNAVAILABLE.
absl::Status SqliteTier::Failed(const char* what) {
  const int code = database_ != nullptr ? sqlite3_errcode(database_.get()) : SQLITE_NOMEM;
  const char* remedy = code == SQLITE_BUSY ? "; another process uses it" : "";
  if (database_ != nullptr &&
      sqlite3_extended_errcode(database_.get()) == SQLITE_CANTOPEN_SYMLINK) {
    remedy = "; it is a symbolic link, which is not followed: remove it";
  }
  const std::string message = absl::StrCat(path_, ": ", what, ": ", sqlite3_errstr(code), remedy);
  // The statements are constant, so that an error in one of them is a damaged schema.
  const bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR;
  return damaged ? absl::DataLossError(message) : absl::UnavailableError(message);
}

absl::Status SqliteTier::Execute(const char* sql) {
  if (database_ == nullptr) return absl::UnavailableError(absl::StrCat(path_, ": is not open"));
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) {
    return absl::OkStatus();
  }
  absl::Status failed = Failed("cannot be written");
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
absl::Status SqliteTier::OpenAgain() {
  return database_ == nullptr ? OpenFile() : absl::OkStatus();
}

// A file that could not be set up is closed again, and the next Get() or Put() opens it again.
// Until then the tier returns UNAVAILABLE.
absl::Status SqliteTier::SetUp() {
  absl::Status done = SetUpOpen();
  if (!done.ok()) database_.reset();
  return done;
}

// Opens the file, takes the lock that keeps other processes out, creates the tables where the file
// is new or of another version, and counts the rows. The file is claimed before SQLite has it open:
// to close it a second time would give up SQLite's locks.
absl::Status SqliteTier::SetUpOpen() {
  RETURN_IF_ERROR(ClaimFile(path_));
  sqlite3* database = nullptr;
  const int flags =
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
  const int code = sqlite3_open_v2(path_.c_str(), &database, flags, nullptr);
  database_.reset(database);
  if (code != SQLITE_OK) return Failed("cannot be opened");
  RETURN_IF_ERROR(Execute(kSetUp));
  RETURN_IF_ERROR(
      Execute("BEGIN IMMEDIATE; COMMIT;"));  // takes the lock; BUSY: another process has it
  int version = 0;
  {
    ASSIGN_OR_RETURN(const Statement pragma, Prepare("PRAGMA user_version"));
    if (sqlite3_step(pragma.get()) != SQLITE_ROW) return Failed("cannot be read");
    version = sqlite3_column_int(pragma.get(), 0);
  }
  if (version != kStoredVersion) RETURN_IF_ERROR(Execute(kTables));
  return CountUp();
}

// The index on (owner, used, bytes) covers the query, so that no row is read.
absl::Status SqliteTier::CountUp() {
  ASSIGN_OR_RETURN(const Statement sums,
                   Prepare("SELECT owner, count(*), sum(bytes) FROM answers GROUP BY owner"));
  CacheStats all = {.evictions = stats_.evictions};
  absl::flat_hash_map<std::string, int64_t> of_owners;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(sums.get())) == SQLITE_ROW) {
    const int64_t bytes = sqlite3_column_int64(sums.get(), 2);
    of_owners[TextOf(sums.get(), 0)] = bytes;
    all.entries += sqlite3_column_int64(sums.get(), 1);
    all.bytes += bytes;
  }
  if (code != SQLITE_DONE) return Failed("cannot be read");
  stats_ = all;
  owner_bytes_ = std::move(of_owners);
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
  return absl::DataLossError(absl::StrCat(path_, ": an answer cannot be read; it is dropped"));
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
  ASSIGN_OR_RETURN(const Statement select, Prepare("SELECT key FROM answers ORDER BY used DESC"));
  std::vector<Fingerprint> keys;
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(select.get())) == SQLITE_ROW) {
    const std::string bytes = TextOf(select.get(), 0);
    Fingerprint key;
    if (bytes.size() != key.bytes.size()) continue;
    std::copy(bytes.begin(), bytes.end(), key.bytes.begin());
    keys.push_back(key);
  }
  if (code != SQLITE_DONE) return Failed("cannot be read");
  return keys;
}

// Errors: NOT_FOUND; DATA_LOSS where the checksum does not match.
absl::StatusOr<SqliteTier::Row> SqliteTier::Read(const Fingerprint& key) {
  Row row = {key, {}, {}, {}};
  ASSIGN_OR_RETURN(const Statement select,
                   Prepare("SELECT value, checksum, used, owner FROM answers WHERE key = ?"));
  BindKey(select.get(), 1, key);
  const int code = sqlite3_step(select.get());
  if (code == SQLITE_DONE) return absl::NotFoundError("");
  if (code != SQLITE_ROW) return Failed("cannot be read");
  row.value = TextOf(select.get(), 0);
  if (row.checksum() != sqlite3_column_int64(select.get(), 1)) {
    return absl::DataLossError(absl::StrCat(path_, ": an answer is damaged; it is dropped"));
  }
  row.used = sqlite3_column_int64(select.get(), 2);
  row.owner = TextOf(select.get(), 3);
  return row;
}

absl::Status SqliteTier::Touch(const Fingerprint& key, int64_t used) {
  ASSIGN_OR_RETURN(const Statement update, Prepare("UPDATE answers SET used = ? WHERE key = ?"));
  sqlite3_bind_int64(update.get(), 1, used);
  BindKey(update.get(), 2, key);
  return sqlite3_step(update.get()) == SQLITE_DONE ? absl::OkStatus() : Failed("cannot be written");
}

// Runs a DELETE that removes at most one row and returns its owner and bytes, which no longer
// count. Errors: NOT_FOUND where there was no such row.
absl::Status SqliteTier::Delete(Statement statement) {
  const int code = sqlite3_step(statement.get());
  if (code == SQLITE_DONE) return absl::NotFoundError("no such answer is stored");
  if (code != SQLITE_ROW) return Failed("cannot be written");
  const std::string owner = TextOf(statement.get(), 0);
  const int64_t bytes = sqlite3_column_int64(statement.get(), 1);
  if (sqlite3_step(statement.get()) != SQLITE_DONE) return Failed("cannot be written");
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
                   Prepare("DELETE FROM answers WHERE key = ? RETURNING owner, bytes"));
  BindKey(row.get(), 1, key);
  return Delete(std::move(row));
}

absl::StatusOr<int64_t> SqliteTier::Remove(const Fingerprint& rounded) {
  MutexLock lock(mutex_);
  for (int64_t removed = 0;; ++removed) {
    ASSIGN_OR_RETURN(
        Statement row,
        Prepare("DELETE FROM answers WHERE rowid ="
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
  absl::Status written = Execute("BEGIN IMMEDIATE");
  if (written.ok()) written = Write(row);
  if (written.ok()) written = Execute("COMMIT");
  if (written.ok()) return written;
  if (database_ != nullptr && sqlite3_get_autocommit(database_.get()) == 0) {
    (void)Execute("ROLLBACK");
  }
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
                   Prepare("SELECT 1 FROM answers WHERE key = ? AND owner != ?"));
  BindKey(select.get(), 1, row.key);
  BindText(select.get(), 2, row.owner);
  const int code = sqlite3_step(select.get());
  if (code != SQLITE_ROW && code != SQLITE_DONE) return Failed("cannot be read");
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
  ASSIGN_OR_RETURN(const Statement insert,
                   Prepare("INSERT INTO answers (key, rounded, owner, used, bytes, checksum, value)"
                           " VALUES (?, ?, ?, ?, ?, ?, ?)"));
  BindKey(insert.get(), 1, row.key);
  BindKey(insert.get(), 2, row.rounded);
  BindText(insert.get(), 3, row.owner);
  sqlite3_bind_int64(insert.get(), 4, Now());
  sqlite3_bind_int64(insert.get(), 5, row.bytes());
  sqlite3_bind_int64(insert.get(), 6, row.checksum());
  sqlite3_bind_blob64(insert.get(), 7, row.value.data(), row.value.size(), SQLITE_STATIC);
  if (sqlite3_step(insert.get()) != SQLITE_DONE) return Failed("cannot be written");
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
        Prepare(evicts_own
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
