//! Random inputs: half of them any bits, half of moderate size, where most functions have
//! results that are neither 0 nor infinite.

/// A generator of 64-bit numbers (SplitMix64): the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn f32(&mut self) -> f32 {
        let bits = self.next();
        match bits >> 63 {
            0 => f32::from_bits(bits as u32),
            // Exponents from -10 to 9.
            _ => {
                let exponent = 117 + ((bits >> 32) as u32 & 0xffff) % 20;
                f32::from_bits(bits as u32 & 0x807f_ffff | exponent << 23)
            }
        }
    }

    pub fn f64(&mut self) -> f64 {
        let bits = self.next();
        match self.next() >> 63 {
            0 => f64::from_bits(bits),
            _ => {
                let exponent = 1013 + self.next() % 20;
                f64::from_bits(bits & 0x800f_ffff_ffff_ffff | exponent << 52)
            }
        }
    }
}
