//! The hash that splits data sets. It is implemented here because published splits must not change when a library
//! changes its hash.

/// Initial state of FNV-1a.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Hashes bytes with FNV-1a and the finaliser of MurmurHash3: with FNV alone, the high bits of short keys are similar.
pub fn hash(bytes: &[u8]) -> u64 {
    let mut state = Fnv::default();
    state.write(bytes);
    state.finish()
}

/// State of the 64-bit FNV-1a hash.
pub(crate) struct Fnv(pub(crate) u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(OFFSET)
    }
}

impl Fnv {
    /// Adds bytes to the hash.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |state, &byte| (state ^ u64::from(byte)).wrapping_mul(PRIME));
    }

    /// The hash of all bytes so far, as [`hash`] returns it.
    pub(crate) fn finish(&self) -> u64 {
        mix(self.0)
    }
}

fn mix(mut h: u64) -> u64 {
    h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_has_the_published_values() {
        let fnv = |text: &str| {
            let mut state = Fnv::default();
            state.write(text.as_bytes());
            state.0
        };
        assert_eq!(fnv(""), 0xcbf29ce484222325);
        assert_eq!(fnv("a"), 0xaf63dc4c8601ec8c);
        assert_eq!(fnv("foobar"), 0x85944171f73967e8);
    }

    #[test]
    fn published_splits_do_not_change() {
        assert_eq!(hash(b""), 0xefd01f60ba992926);
        assert_eq!(hash(b"I saw a saw."), 0x9ea18020b02e2df7);
        assert_eq!(hash("Ça va".as_bytes()), 0x2490b50d94424d8e);
    }

    #[test]
    fn every_bit_is_set_half_of_the_time() {
        let n = 20_000u64;
        let mut ones = [0u64; 64];
        for i in 0..n {
            let h = hash(format!("sentence {i}").as_bytes());
            ones.iter_mut().enumerate().for_each(|(bit, count)| *count += (h >> bit) & 1);
        }
        // Five standard deviations of a fair coin.
        let slack = (5.0 * (n as f64 / 4.0).sqrt()) as u64;
        assert!(ones.iter().all(|&c| c.abs_diff(n / 2) < slack), "{ones:?}");
    }
}
