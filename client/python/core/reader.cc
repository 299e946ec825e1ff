#include "client/python/core/reader.h"

namespace stowage {
namespace {

namespace py = pybind11;

// Of many equal mistakes the first ones say enough.
constexpr size_t kMaxViolations = 100;

std::string Text(const Path& path) {
  const std::string before = path.parent != nullptr ? Text(*path.parent) : "";
  if (path.index >= 0) return absl::StrCat(before, "[", path.index, "]");
  return before.empty() ? std::string(path.field) : absl::StrCat(before, ".", path.field);
}

}  // namespace

std::optional<absl::string_view> Utf8(py::handle text) {
  Py_ssize_t size = 0;
  const char* const data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data == nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  return absl::string_view(data, static_cast<size_t>(size));
}

std::string Describe(py::handle value) {
  constexpr size_t kMax = 60;
  if (value.is_none()) return "None";
  if (PyUnicode_CheckExact(value.ptr())) {
    const std::optional<absl::string_view> text = Utf8(value);
    if (!text.has_value()) return "a string that is not Unicode";
    if (text->size() > kMax) return absl::StrCat("a string of ", text->size(), " bytes");
    return absl::StrCat("\"", *text, "\"");
  }
  const bool is_plain = PyLong_CheckExact(value.ptr()) || PyBool_Check(value.ptr()) ||
                        PyFloat_CheckExact(value.ptr());
  if (!is_plain) return absl::StrCat("a value of type ", Py_TYPE(value.ptr())->tp_name);
  const py::object text = py::reinterpret_steal<py::object>(PyObject_Repr(value.ptr()));
  if (!text) {  // an int of more digits than Python prints
    PyErr_Clear();
    return "an int of thousands of digits";
  }
  const std::string digits(Utf8(text).value_or(""));
  return digits.size() > kMax ? absl::StrCat("an int of ", digits.size(), " digits") : digits;
}

void Reader::Add(const Path& path, std::string problem) {
  if (violations_.size() < kMaxViolations) violations_.push_back({Text(path), std::move(problem)});
}

bool Reader::Refuse(const Path& path, py::handle value, absl::string_view wanted) {
  Add(path, absl::StrCat(Describe(value), " is not ", wanted));
  return true;
}

bool Reader::Read(const Path& path, py::handle value, std::string* to) {
  if (!PyUnicode_Check(value.ptr())) return Refuse(path, value, "a string");
  const std::optional<absl::string_view> text = Utf8(value);
  if (!text.has_value()) return Refuse(path, value, "a string of Unicode");
  to->assign(text->data(), text->size());
  return true;
}

bool Reader::Read(const Path& path, py::handle value, bool* to) {
  if (!PyBool_Check(value.ptr())) return Refuse(path, value, "True or False");
  *to = value.ptr() == Py_True;
  return true;
}

bool Reader::Read(const Path& path, py::handle value, double* to) {
  if (PyFloat_Check(value.ptr())) {
    *to = PyFloat_AS_DOUBLE(value.ptr());
    return true;
  }
  if (!PyLong_Check(value.ptr()) || PyBool_Check(value.ptr())) {
    return Refuse(path, value, "a number");
  }
  const double number = PyLong_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) {  // beyond the largest double
    PyErr_Clear();
    return Refuse(path, value, "a number up to 1.8e308");
  }
  *to = number;
  return true;
}

}  // namespace stowage
