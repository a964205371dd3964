//! Random bytes for tests that feed them to what parses bytes from outside.

/// Bytes that follow from a seed: `ESKER_SEED`, and one of the test.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(test: u64) -> Self {
        let given = std::env::var("ESKER_SEED").ok().and_then(|text| text.parse::<u64>().ok());
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let seed = given.unwrap_or_else(|| clock.map_or(1, |now| u64::from(now.subsec_nanos())));
        println!("ESKER_SEED={seed}");
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ test)
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
