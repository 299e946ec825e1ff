#include "tests/support/certificates.h"

#include <cstdio>
#include <stdexcept>

#include "tests/support/process.h"

namespace stowage {

Pair Office::Make(const std::string& name, const std::vector<std::string>& how) {
  Pair pair{folder_.Path(name + ".pem"), folder_.Path(name + ".key")};
  std::vector<std::string> argv = {"/usr/bin/openssl",
                                   "req",
                                   "-x509",
                                   "-newkey",
                                   "ec",
                                   "-pkeyopt",
                                   "ec_paramgen_curve:prime256v1",
                                   "-nodes",
                                   "-days",
                                   "2",
                                   "-subj",
                                   "/CN=" + name,
                                   "-out",
                                   pair.certificate,
                                   "-keyout",
                                   pair.key};
  argv.insert(argv.end(), how.begin(), how.end());
  const ProgramResult result = RunProgram(argv);
  if (result.exit_code != 0) throw std::runtime_error("openssl: " + result.err);
  return pair;
}

std::vector<std::string> TlsFlags(const Pair& server) {
  return {"--tls-cert", server.certificate, "--tls-key", server.key};
}

void Replace(const std::string& path, const std::string& by) {
  WriteFile(path + ".new", ReadFile(by));
  if (std::rename((path + ".new").c_str(), path.c_str()) != 0) {
    throw std::runtime_error("cannot replace " + path);
  }
}

}  // namespace stowage
