//! Copies data into mapped segments and from them, and computes its checksum in one pass.
//!
//! Each byte is read once, into a register that is both stored and summed. So the checksum is that of the bytes that were
//! read, even if another thread changes the source or the copy meanwhile. The CRC-32C (RFC 3720, polynomial 0x1EDC6F41, reflected) is
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
    let (from, len) = (from.as_ptr(), from.len());
    // SAFETY: as for this function; after the head, `to` is aligned.
    unsafe {
        if len < STREAM_MIN {
            return steps_and_rest::<false>(from, to, len, sum);
        }
        let head = to.align_offset(LINE).min(len);
        let sum = words(from, to, head, sum);
        steps_and_rest::<true>(from.add(head), to.add(head), len - head, sum)
    }
}

/// Number of bytes between the byte that is copied and the one that is fetched into the cache: a page, since processors
/// fetch ahead only within one.
const AHEAD: usize = 4096;

/// Fills `to` from `from` and continues a checksum. Unlike [`copy`], it leaves the bytes in the cache.
///
/// # Safety
/// `from` must have as many bytes as `to`, and not overlap it; [`is_available`] must have returned true.
pub(super) unsafe fn fetch(from: *const u8, to: &mut [u8], sum: u32) -> u32 {
    // SAFETY: as for this function.
    unsafe {
        for line in (0..to.len().min(AHEAD)).step_by(LINE) {
            prefetch(from, line);
        }
        steps_and_rest::<false>(from, to.as_mut_ptr(), to.len(), sum)
    }
}

/// Fetches the cache line at an offset into the second level of the cache, which has room for more fetches than the first.
///
/// # Safety
/// `from` must have bytes at that offset.
#[inline(always)]
unsafe fn prefetch(from: *const u8, at: usize) {
    // SAFETY: as for this function.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(from.add(at).cast()) };
}

/// Copies complete steps by vectors, and the rest by words. Continues the checksum register `sum`.
///
/// # Safety
/// Both must have `len` bytes and not overlap; [`is_available`] must have returned true. With `STREAMS`, `to` must be
/// aligned to a cache line.
#[inline(always)]
unsafe fn steps_and_rest<const STREAMS: bool>(
    from: *const u8,
    to: *mut u8,
    len: usize,
    sum: u32,
) -> u32 {
    let steps = len / STEP * STEP;
    // SAFETY: as for this function; the parts are adjacent.
    unsafe {
        let sum = match (steps, is_wide()) {
            (0, _) => sum,
            (_, true) => wide::<STREAMS>(from, to, steps, sum),
            (_, false) => narrow::<STREAMS>(from, to, steps, sum),
        };
        words(from.add(steps), to.add(steps), len - steps, sum)
    }
}

/// Copies few bytes, word by word. Continues the checksum register `sum`.
///
/// # Safety
/// Same as for [`steps_and_rest`].
#[target_feature(enable = "sse4.2")]
unsafe fn words(from: *const u8, to: *mut u8, len: usize, sum: u32) -> u32 {
    const WORD: usize = size_of::<u64>();
    let (whole, mut sum) = (len / WORD * WORD, u64::from(sum));
    for at in (0..whole).step_by(WORD) {
        // SAFETY: as for this function.
        let word = unsafe { from.add(at).cast::<u64>().read_unaligned() };
        sum = _mm_crc32_u64(sum, word);
        // SAFETY: as for this function.
        unsafe { to.add(at).cast::<u64>().write_unaligned(word) };
    }
    let mut sum = sum as u32;
    for at in whole..len {
        // SAFETY: as for this function.
        let byte = unsafe { from.add(at).read() };
        sum = _mm_crc32_u8(sum, byte);
        // SAFETY: as for this function.
        unsafe { to.add(at).write(byte) };
    }
    sum
}

/// Copies steps of four vectors of 64 bytes, and continues the checksum register `sum`. With `STREAMS`, the stores
/// bypass the cache. Without it, the bytes [`AHEAD`] of each step are fetched.
///
/// # Safety
/// Same as for [`steps_and_rest`]. `len` must be one or more complete steps, and [`is_wide`] must be true.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.2")]
unsafe fn wide<const STREAMS: bool>(from: *const u8, to: *mut u8, len: usize, sum: u32) -> u32 {
    const SIZE: usize = 64;
    let take = |at: usize| {
        // SAFETY: both consist of complete steps.
        unsafe {
            if !STREAMS && at + AHEAD < len {
                prefetch(from, at + AHEAD);
            }
            let vector = _mm512_loadu_si512(from.add(at).cast());
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
    for at in (STEP..len).step_by(STEP) {
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
unsafe fn narrow<const STREAMS: bool>(from: *const u8, to: *mut u8, len: usize, sum: u32) -> u32 {
    const SIZE: usize = 32;
    const HALF: usize = STEP / 2;
    let take = |at: usize| {
        // SAFETY: both consist of complete steps.
        let vector = unsafe {
            if !STREAMS && at.is_multiple_of(LINE) && at + AHEAD < len {
                prefetch(from, at + AHEAD);
            }
            let vector = _mm256_loadu_si256(from.add(at).cast());
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
    for at in (HALF..len).step_by(HALF) {
        for (lane, halves) in lanes.iter_mut().enumerate() {
            let [low, high] = take(at + lane * SIZE);
            *halves = [fold(halves[0], factors, low), fold(halves[1], factors, high)];
        }
    }
    last(lanes.as_flattened())
}

/// Maximum length of `bytes` in [`few`]. Vectors are faster from there on.
pub(super) const FEW_MAX: usize = 128;

/// CRC-32C of a few bytes, by the CRC instructions of SSE4.2.
#[target_feature(enable = "sse4.2")]
pub(super) fn few(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks();
    let add = |sum, word: &[u8; 8]| _mm_crc32_u64(sum, u64::from_le_bytes(*word));
    let sum = words.iter().fold(u64::from(u32::MAX), add) as u32;
    let (halves, rest) = rest.as_chunks();
    let add = |sum, half: &[u8; 4]| _mm_crc32_u32(sum, u32::from_le_bytes(*half));
    let sum = halves.iter().fold(sum, add);
    !rest.iter().fold(sum, |sum, &byte| _mm_crc32_u8(sum, byte))
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

/// Multiplies each half of `before` by its factor, without carries, and combines both products with `next` by XOR.
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

/// The power of x with an exponent, modulo the polynomial, reflected.
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
    fn bytes_are_fetched_and_summed() {
        if !is_available() {
            return esker_testing::skip("this processor has no AVX2 or PCLMULQDQ");
        }
        for len in LENGTHS.into_iter().chain([AHEAD + STEP, 3 * AHEAD + 77]) {
            for offset in [0, 1, 16, 63] {
                check(&source(len), offset, |from, to| {
                    // SAFETY: the vectors are long enough, and only this slice refers to these bytes.
                    unsafe {
                        let to = std::slice::from_raw_parts_mut(to, from.len());
                        super::fetch(from.as_ptr(), to, !0)
                    }
                });
            }
        }
    }

    #[test]
    fn few_bytes_are_summed() {
        if !is_available() {
            return esker_testing::skip("this processor has no AVX2 or PCLMULQDQ");
        }
        for len in 0..=FEW_MAX {
            let bytes = source(len);
            // SAFETY: the processor has SSE 4.2.
            let sum = unsafe { few(&bytes) };
            assert_eq!(u64::from(sum), Checksum::Crc32c.sum(&bytes), "{len}");
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
            check(&source(steps * STEP), 5, |from, to| unsafe {
                narrow::<false>(from.as_ptr(), to, from.len(), !0)
            });
        }
    }
}
