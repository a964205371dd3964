//! Copies data into mapped segments and computes its checksum in one pass.
//!
//! Each byte is read once, into a register that is both stored and summed. So the checksum is that of the stored bytes,
//! even if another thread changes the source meanwhile. The CRC-32C (RFC 3720, polynomial 0x1EDC6F41, reflected) is
//! folded as in Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009).
use super::copy::{LINE, STREAM_MIN};
use std::arch::x86_64::*;
use std::array::from_fn;
use std::is_x86_feature_detected as detected;

/// Bytes per step of both loops.
const STEP: usize = 256;

/// True if the processor has the required instructions.
pub(super) fn is_available() -> bool {
    detected!("avx2") && detected!("pclmulqdq") && detected!("sse4.2")
}

fn is_wide() -> bool {
    detected!("avx512f") && detected!("vpclmulqdq")
}

/// Copies `from` to `to` and continues a checksum: takes its register and returns the new one. The register starts with
/// all ones and is inverted at the end. Other processes see the bytes in order after a fence.
///
/// # Safety
/// `to` must have `from.len()` bytes and not overlap `from`; [`is_available`] must have returned true.
pub(super) unsafe fn copy(from: &[u8], to: *mut u8, sum: u32) -> u32 {
    let streams = from.len() >= STREAM_MIN;
    let head = if streams { to.align_offset(LINE).min(from.len()) } else { 0 };
    let (head, rest) = from.split_at(head);
    let (steps, tail) = rest.split_at(rest.len() / STEP * STEP);
    // SAFETY: as for this function; the parts are adjacent, and after the head `to` is aligned.
    unsafe {
        let sum = words(head, to, sum);
        let to = to.add(head.len());
        let sum = match (is_wide(), streams) {
            _ if steps.is_empty() => sum,
            (true, true) => wide::<true>(steps, to, sum),
            (true, false) => wide::<false>(steps, to, sum),
            (false, true) => narrow::<true>(steps, to, sum),
            (false, false) => narrow::<false>(steps, to, sum),
        };
        words(tail, to.add(steps.len()), sum)
    }
}

/// Copies few bytes, word by word.
///
/// # Safety
/// Same as for [`copy`].
#[target_feature(enable = "sse4.2")]
unsafe fn words(from: &[u8], to: *mut u8, sum: u32) -> u32 {
    let (words, bytes) = from.as_chunks();
    let mut sum = u64::from(sum);
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        sum = _mm_crc32_u64(sum, word);
        // SAFETY: as for this function.
        unsafe { to.cast::<u64>().add(at).write_unaligned(word) };
    }
    let mut sum = sum as u32;
    for (at, &byte) in bytes.iter().enumerate() {
        sum = _mm_crc32_u8(sum, byte);
        // SAFETY: as for this function.
        unsafe { to.add(size_of_val(words) + at).write(byte) };
    }
    sum
}

/// Copies steps of four vectors of 64 bytes.
///
/// # Safety
/// Same as for [`copy`]. `from` must be one or more complete steps, and [`is_wide`] must be true. With `STREAMS`, `to`
/// must be aligned.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
unsafe fn wide<const STREAMS: bool>(from: &[u8], to: *mut u8, sum: u32) -> u32 {
    const SIZE: usize = 64;
    let take = |at: usize| {
        // SAFETY: `from` consists of complete steps, and `to` is as long.
        unsafe {
            let vector = _mm512_loadu_si512(from.as_ptr().add(at).cast());
            match STREAMS {
                true => _mm512_stream_si512(to.add(at).cast(), vector),
                false => _mm512_storeu_si512(to.add(at).cast(), vector),
            }
            vector
        }
    };
    let factors = _mm512_broadcast_i32x4(factors::<{ STEP as u32 * 8 }>());
    let mut lanes: [_; STEP / SIZE] = from_fn(|lane| take(lane * SIZE));
    let start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(sum as i32));
    lanes[0] = _mm512_xor_si512(lanes[0], start);
    for at in (STEP..from.len()).step_by(STEP) {
        for (lane, folded) in lanes.iter_mut().enumerate() {
            let low = _mm512_clmulepi64_epi128(*folded, factors, 0x00);
            let high = _mm512_clmulepi64_epi128(*folded, factors, 0x11);
            *folded = _mm512_xor_si512(_mm512_xor_si512(low, high), take(at + lane * SIZE));
        }
    }
    let quarters = lanes.map(|lane| {
        [
            _mm512_extracti32x4_epi32::<0>(lane),
            _mm512_extracti32x4_epi32::<1>(lane),
            _mm512_extracti32x4_epi32::<2>(lane),
            _mm512_extracti32x4_epi32::<3>(lane),
        ]
    });
    last(quarters.as_flattened())
}

/// Variant of [`wide`] with vectors of 32 bytes, half a step at a time.
///
/// # Safety
/// Same as for [`wide`], but [`is_available`] suffices.
#[target_feature(enable = "avx2,pclmulqdq,sse4.2")]
unsafe fn narrow<const STREAMS: bool>(from: &[u8], to: *mut u8, sum: u32) -> u32 {
    const SIZE: usize = 32;
    const HALF: usize = STEP / 2;
    let take = |at: usize| {
        // SAFETY: `from` consists of complete steps, and `to` is as long.
        let vector = unsafe {
            let vector = _mm256_loadu_si256(from.as_ptr().add(at).cast());
            match STREAMS {
                true => _mm256_stream_si256(to.add(at).cast(), vector),
                false => _mm256_storeu_si256(to.add(at).cast(), vector),
            }
            vector
        };
        [_mm256_castsi256_si128(vector), _mm256_extracti128_si256::<1>(vector)]
    };
    let factors = factors::<{ HALF as u32 * 8 }>();
    let mut lanes: [_; HALF / SIZE] = from_fn(|lane| take(lane * SIZE));
    lanes[0][0] = _mm_xor_si128(lanes[0][0], _mm_cvtsi32_si128(sum as i32));
    for at in (HALF..from.len()).step_by(HALF) {
        for (lane, halves) in lanes.iter_mut().enumerate() {
            let [low, high] = take(at + lane * SIZE);
            *halves = [fold(halves[0], factors, low), fold(halves[1], factors, high)];
        }
    }
    last(lanes.as_flattened())
}

/// Reduces adjacent vectors to the checksum register.
#[target_feature(enable = "pclmulqdq,sse4.2")]
fn last(vectors: &[__m128i]) -> u32 {
    let factors = factors::<128>();
    let folded =
        vectors.iter().fold(_mm_setzero_si128(), |folded, &next| fold(folded, factors, next));
    let sum = _mm_crc32_u64(0, _mm_extract_epi64::<0>(folded) as u64);
    _mm_crc32_u64(sum, _mm_extract_epi64::<1>(folded) as u64) as u32
}

/// Folds `before` into the next vector.
#[target_feature(enable = "pclmulqdq")]
fn fold(before: __m128i, factors: __m128i, next: __m128i) -> __m128i {
    let low = _mm_clmulepi64_si128::<0x00>(before, factors);
    let high = _mm_clmulepi64_si128::<0x11>(before, factors);
    _mm_xor_si128(_mm_xor_si128(low, high), next)
}

/// Factors that shift both halves of a vector by `BITS` bits.
#[target_feature(enable = "sse4.2")]
fn factors<const BITS: u32>() -> __m128i {
    const { assert!(BITS >= 128) };
    _mm_set_epi64x(const { power(BITS - 33) }, const { power(BITS + 31) })
}

/// A power of x modulo the polynomial, reflected.
const fn power(exponent: u32) -> i64 {
    const POLYNOMIAL: u64 = 0x1_1edc_6f41;
    let (mut remainder, mut at) = (1u64, 0);
    while at < exponent {
        remainder <<= 1;
        if remainder >> 32 != 0 {
            remainder ^= POLYNOMIAL;
        }
        at += 1;
    }
    (remainder as u32).reverse_bits() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::Checksum;

    const LENGTHS: [usize; 12] = [0, 1, 7, 64, 255, 256, 257, 1023, 4095, 4096, 4161, 32768];

    fn source(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 31 + (at >> 8) * 7) as u8).collect()
    }

    /// Copies to an offset, and checks that no other byte changed.
    fn check(from: &[u8], offset: usize, copy: impl Fn(&[u8], *mut u8) -> u32) {
        let mut to = vec![0xee; offset + from.len() + LINE];
        let sum = copy(from, to[offset..].as_mut_ptr());
        assert_eq!(u64::from(!sum), Checksum::Crc32c.sum(from), "{} at {offset}", from.len());
        assert_eq!(&to[offset..offset + from.len()], from);
        assert!(to[..offset].iter().chain(&to[offset + from.len()..]).all(|&byte| byte == 0xee));
    }

    #[test]
    fn bytes_are_copied_and_summed() {
        if !is_available() {
            return esker_testing::skip("this processor has no AVX2 or PCLMULQDQ");
        }
        for len in LENGTHS {
            for offset in [0, 1, 8, 63] {
                // SAFETY: the vectors are long enough.
                check(&source(len), offset, |from, to| unsafe { super::copy(from, to, !0) });
            }
        }
    }

    #[test]
    fn checksum_continues_over_pieces() {
        if !is_available() {
            return esker_testing::skip("this processor has no AVX2 or PCLMULQDQ");
        }
        for cut in LENGTHS {
            check(&source(32768), 3, |from, to| {
                let (first, second) = from.split_at(cut);
                // SAFETY: the vectors are long enough.
                unsafe { super::copy(second, to.add(cut), super::copy(first, to, !0)) }
            });
        }
    }

    #[test]
    fn narrow_vectors_give_same_result() {
        if !is_available() {
            return esker_testing::skip("this processor has no AVX2 or PCLMULQDQ");
        }
        for steps in [1, 2, 16] {
            // SAFETY: the vectors are long enough.
            check(&source(steps * STEP), 5, |from, to| unsafe { narrow::<false>(from, to, !0) });
        }
    }
}
