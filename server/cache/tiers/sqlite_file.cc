#include "server/cache/tiers/sqlite_file.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "solver/base/status_macros.h"

namespace stowage {
namespace {

constexpr const char* kSetUp =
    "PRAGMA locking_mode = EXCLUSIVE;"  // before WAL: then it needs no shared memory
    "PRAGMA journal_mode = WAL;"
    "PRAGMA synchronous = NORMAL;"  // a power cut may lose the last answers, nothing else
    "PRAGMA journal_size_limit = 16777216;";

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

}  // namespace

void SqliteFile::Closer::operator()(sqlite3* database) const { sqlite3_close_v2(database); }
void SqliteFile::Closer::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

// The file is claimed before SQLite has it open: to close it a second time would give up SQLite's
// locks.
absl::Status SqliteFile::Open() {
  RETURN_IF_ERROR(ClaimFile(path_));
  sqlite3* database = nullptr;
  const int flags =
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
  const int code = sqlite3_open_v2(path_.c_str(), &database, flags, nullptr);
  database_.reset(database);
  if (code != SQLITE_OK) return Failed("cannot be opened");
  RETURN_IF_ERROR(Execute(kSetUp));
  return Execute("BEGIN IMMEDIATE; COMMIT;");  // takes the lock; BUSY: another process has it
}

// DATA_LOSS where the file is damaged, else UNAVAILABLE.
absl::Status SqliteFile::Failed(const char* what) const {
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

absl::Status SqliteFile::Execute(const char* sql) {
  if (database_ == nullptr) return absl::UnavailableError(absl::StrCat(path_, ": is not open"));
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK) {
    return absl::OkStatus();
  }
  absl::Status failed = Failed("cannot be written");
  RollBack();
  return failed;
}

// A transaction that stays open would make every later BEGIN fail.
void SqliteFile::RollBack() {
  if (database_ == nullptr || sqlite3_get_autocommit(database_.get()) != 0) return;
  sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

absl::StatusOr<SqliteFile::Statement> SqliteFile::Prepare(const char* sql) {
  if (database_ == nullptr) return absl::UnavailableError(absl::StrCat(path_, ": is not open"));
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql, -1, &statement, nullptr) != SQLITE_OK) {
    return Failed("cannot be read");
  }
  return Statement(statement);
}

}  // namespace stowage
