// SPDX-License-Identifier: Apache-2.0
// Makes one visitor for std::visit out of lambdas, one per alternative.
#pragma once

namespace trainyard::control {

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

}  // namespace trainyard::control
