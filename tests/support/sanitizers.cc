// Linked into tests that ask for more memory than there is: it is to be refused, as without a
// sanitizer, and not to end the program. And into those that share an absl::Status between threads:
// its count of references is in Debian's library, which ThreadSanitizer does not see, and the last
// reference is freed as if by absl's inline Unref().
extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): names of the runtimes.
const char* __asan_default_options() { return "allocator_may_return_null=1"; }
const char* __tsan_default_options() { return "allocator_may_return_null=1"; }
const char* __tsan_default_suppressions() {
  return "called_from_lib:libabsl_status.so\nrace:^Unref$\n";
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

}  // extern "C"
