// Certificates of tests, made with the openssl program, as operators make them.
#ifndef STOWAGE_TESTS_SUPPORT_CERTIFICATES_H_
#define STOWAGE_TESTS_SUPPORT_CERTIFICATES_H_

#include <string>
#include <vector>

#include "tests/support/files.h"

namespace stowage {

// Files of a certificate and its key.
struct Pair {
  std::string certificate;
  std::string key;
};

// Certificates in a folder, from authorities of our own. Throws std::runtime_error when openssl
// makes none.
class Office {
 public:
  Pair Authority(const std::string& name) { return Make(name, {}); }
  // Of the server at an address.
  Pair Server(const std::string& name, const Pair& authority,
              const std::string& address = "127.0.0.1") {
    return Make(name, {"-CA", authority.certificate, "-CAkey", authority.key, "-addext",
                       "subjectAltName=IP:" + address});
  }
  Pair Caller(const std::string& name, const Pair& authority) {
    return Make(name, {"-CA", authority.certificate, "-CAkey", authority.key});
  }
  const TempFolder& folder() const { return folder_; }

 private:
  Pair Make(const std::string& name, const std::vector<std::string>& how);

  const TempFolder folder_;
};

// The flags of a server with that certificate.
std::vector<std::string> TlsFlags(const Pair& server);

// One file in the place of another, at one blow, as operators should.
void Replace(const std::string& path, const std::string& by);

}  // namespace stowage

#endif  // STOWAGE_TESTS_SUPPORT_CERTIFICATES_H_
