// Values of Python objects and what is wrong with them, without running Python code. Holds the GIL.
#ifndef STOWAGE_CLIENT_PYTHON_CORE_READER_H_
#define STOWAGE_CLIENT_PYTHON_CORE_READER_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "solver/model/validate.h"

namespace stowage {

// Where a value stands in a request: built on the way down, made text only for an error.
struct Path {
  const Path* parent = nullptr;
  absl::string_view field;
  Py_ssize_t index = -1;  // of a list; then `field` is empty
};

// UTF-8; nullopt for a string with half a surrogate pair, which has none.
std::optional<absl::string_view> Utf8(pybind11::handle text);

// A value in an error. Of other classes only their name: their repr() is code that may do anything.
std::string Describe(pybind11::handle value);

// Reads values at paths and collects what is wrong. Every Read() leaves `to` alone on an error, and
// returns true so that a chain of them tells known fields from unknown ones.
class Reader {
 public:
  explicit Reader(std::vector<FieldViolation>* violations) : violations_(*violations) {}

  void Add(const Path& path, std::string problem);
  // Always true.
  bool Refuse(const Path& path, pybind11::handle value, absl::string_view wanted);

  bool Read(const Path& path, pybind11::handle value, std::string* to);
  bool Read(const Path& path, pybind11::handle value, bool* to);
  bool Read(const Path& path, pybind11::handle value, double* to);
  bool Read(const Path& path, pybind11::handle value, int64_t* to) {
    return ReadWhole(path, value, "a whole number from -2^63 to below 2^63", to);
  }
  bool Read(const Path& path, pybind11::handle value, int* to) {
    return ReadWhole(path, value, "a whole number from -2^31 to below 2^31", to);
  }
  template <typename Value>
  bool Read(const Path& path, pybind11::handle value, std::optional<Value>* to) {
    Value read{};
    const size_t before = violations_.size();
    Read(path, value, &read);
    if (violations_.size() == before) *to = std::move(read);
    return true;
  }

  // Calls visit(key, value, path) for each entry of a dict; false: the key is no field.
  template <typename Visit>
  bool ReadDict(const Path& path, pybind11::handle value, Visit visit) {
    if (!PyDict_Check(value.ptr())) return Refuse(path, value, "a dict");
    PyObject* key = nullptr;
    PyObject* entry = nullptr;
    Py_ssize_t position = 0;
    while (PyDict_Next(value.ptr(), &position, &key, &entry) != 0) {
      const std::optional<absl::string_view> name =
          PyUnicode_Check(key) ? Utf8(key) : std::optional<absl::string_view>();
      if (!name.has_value()) {
        Add(path, absl::StrCat("has a key ", Describe(key), ", which is no field"));
        continue;
      }
      const Path at{&path, *name};
      if (entry == Py_None) continue;  // unset, as a null in JSON
      if (!visit(*name, pybind11::handle(entry), at)) Add(at, "unknown field");
    }
    return true;
  }

  // Calls visit(value, path) for each entry of a list or tuple.
  template <typename Visit>
  bool ReadList(const Path& path, pybind11::handle value, Visit visit) {
    if (!PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr())) {
      return Refuse(path, value, "a list");
    }
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(value.ptr());
    for (Py_ssize_t i = 0; i < size; ++i) {
      const Path at{&path, {}, i};
      visit(pybind11::handle(PySequence_Fast_GET_ITEM(value.ptr(), i)), at);
    }
    return true;
  }

 private:
  template <typename Integer>
  bool ReadWhole(const Path& path, pybind11::handle value, absl::string_view wanted, Integer* to) {
    if (!PyLong_Check(value.ptr()) || PyBool_Check(value.ptr())) return Refuse(path, value, wanted);
    int overflow = 0;
    // `long` would be as wide here; `long long` is what the function returns.
    const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);  // NOLINT
    if (overflow != 0 || number < std::numeric_limits<Integer>::min() ||
        number > std::numeric_limits<Integer>::max()) {
      return Refuse(path, value, wanted);
    }
    *to = static_cast<Integer>(number);
    return true;
  }

  std::vector<FieldViolation>& violations_;
};

}  // namespace stowage

#endif  // STOWAGE_CLIENT_PYTHON_CORE_READER_H_
