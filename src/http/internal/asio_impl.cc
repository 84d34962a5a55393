// SPDX-License-Identifier: Apache-2.0
// Asio's own sources, compiled once.
#include <boost/asio/impl/src.hpp>
