// SPDX-License-Identifier: Apache-2.0
// Gradients in one byte a value: each block of values shares a scale, its greatest magnitude / 127,
// and is rounded to nearest, ties to even (symmetric quantisation in blocks, as ZeRO++ has it, Wang
// et al. 2023, arXiv 2306.10209). Sums are made of decoded values in fp32; what one hop
// rounds away, error feedback gives to the next step. Bytes: all scales (fp32), then all codes.
//
// A block with an infinity or NaN decodes to NaN as a whole, so that every rank sees the overflow;
// its residual becomes 0, as the step will be skipped.
#pragma once

#include <cstddef>
#include <span>

#include "comm/compress/state.h"

namespace trainyard::comm {

// Of `count` values in blocks of `block` (at least 1; the last one may be shorter).
std::size_t int8_bytes(std::size_t count, std::size_t block);

// With `residual` (nullptr: without error feedback), encodes values + residual, and keeps what is
// lost. A residual of another length is taken for none yet. `bytes` has int8_bytes() of them.
void encode_int8(std::span<const float> values, std::size_t block, Residual* residual,
                 std::span<std::byte> bytes);

// The same over a residual that lies elsewhere; as many as `values`.
void encode_int8(std::span<const float> values, std::size_t block, std::span<float> residual,
                 std::span<std::byte> bytes);

enum class Into : std::uint8_t { kReplace, kAdd };
// values = or += what `bytes` say.
void decode_int8(std::span<const std::byte> bytes, std::size_t block, Into how,
                 std::span<float> values);

}  // namespace trainyard::comm
