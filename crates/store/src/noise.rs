//! Random bytes for tests that feed them to what parses bytes from outside.

/// Bytes that follow from a seed: `ESKER_SEED`, and one of the test.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(test: u64) -> Self {
        Self(esker_testing::seed().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ test)
    }

    /// Any number.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word ^ (word >> 31)
    }

    /// Fewer than `limit` bytes.
    pub(crate) fn bytes(&mut self, limit: u64) -> Vec<u8> {
        let len = self.draw() % limit;
        (0..len).map(|_| (self.draw() >> 24) as u8).collect()
    }
}
