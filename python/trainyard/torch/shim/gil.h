// SPDX-License-Identifier: Apache-2.0
// Python's lock is given up while something waits for operations: what ends them on another thread
// may need it.
#pragma once

#include <memory>

#include <torch/csrc/python_headers.h>

namespace trainyard::torch_shim {

// Nothing for a thread that does not hold it, as most that end objects. After the interpreter's end
// PyGILState_Check() is true for all.
class WithoutGil {
 public:
  WithoutGil()
      : state_(Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {
  }
  ~WithoutGil() {
    if (state_ != nullptr) {
      PyEval_RestoreThread(state_);
    }
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// A reference that any thread may drop, also at the interpreter's end.
inline std::shared_ptr<void> kept(PyObject* object) {
  Py_INCREF(object);
  return {object, [](PyObject* own) {
            if (Py_IsInitialized() != 0) {
              const PyGILState_STATE state = PyGILState_Ensure();
              Py_DECREF(own);
              PyGILState_Release(state);
            }
          }};
}

}  // namespace trainyard::torch_shim
