//! From coordinates to texels: address modes, normalised coordinates, filters.

use api::TextureDesc;

/// `CU_TR_ADDRESS_MODE_*`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Wrap,
    Clamp,
    Mirror,
    Border,
}

/// `CU_TRSF_*`
pub(crate) const READ_AS_INTEGER: u32 = 0x01;
pub(crate) const NORMALIZED: u32 = 0x02;
const SRGB: u32 = 0x10;
const NO_TRILINEAR_OPTIMIZATION: u32 = 0x20;
const SEAMLESS: u32 = 0x40;

/// How a texture is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampler {
    pub address: [Address; 3],
    pub linear: bool,
    /// Between levels.
    pub linear_levels: bool,
    pub bias: f32,
    pub levels: [f32; 2],
    pub border: [f32; 4],
    pub normalized: bool,
    pub srgb: bool,
    pub seamless: bool,
}

impl Sampler {
    /// As the C API describes it, if all of its numbers are known.
    pub fn new(desc: &TextureDesc) -> Option<Sampler> {
        let known = READ_AS_INTEGER | NORMALIZED | SRGB | NO_TRILINEAR_OPTIMIZATION | SEAMLESS;
        if desc.flags & !known != 0 || desc.filter_mode > 1 || desc.mipmap_filter_mode > 1 {
            return None;
        }
        let normalized = desc.flags & NORMALIZED != 0;
        let mut address = [Address::Clamp; 3];
        for (address, mode) in address.iter_mut().zip(desc.address_modes) {
            *address = match mode {
                // Without normalised coordinates there is no size of a period.
                0 | 2 if !normalized => Address::Clamp,
                0 => Address::Wrap,
                1 => Address::Clamp,
                2 => Address::Mirror,
                3 => Address::Border,
                _ => return None,
            };
        }
        Some(Sampler {
            address,
            linear: desc.filter_mode == 1,
            linear_levels: desc.mipmap_filter_mode == 1,
            bias: desc.mipmap_level_bias,
            levels: [desc.min_mipmap_level, desc.max_mipmap_level],
            border: desc.border_color,
            normalized,
            srgb: desc.flags & SRGB != 0,
            seamless: desc.flags & SEAMLESS != 0,
        })
    }

    /// Where a coordinate lies among the `size` texels of an axis: 0 at the start
    /// of the first, `size` at the end of the last. What repeats is reduced to one
    /// period.
    pub fn position(&self, axis: usize, coordinate: f32, size: usize) -> f64 {
        let x = f64::from(coordinate);
        if x.is_nan() {
            return 0.0;
        }
        let size = size as f64;
        match self.address[axis] {
            _ if !self.normalized => x,
            // An infinite coordinate has no fraction.
            _ if x.is_infinite() => x,
            Address::Wrap => (x - x.floor()) * size,
            Address::Mirror => (x - 2.0 * (x / 2.0).floor()) * size,
            _ => x * size,
        }
    }
}

impl Address {
    /// The texel that stands at a place that may lie outside; `None` for the
    /// border's colour.
    pub fn texel(self, at: i64, size: usize) -> Option<usize> {
        let last = size as i64 - 1;
        let texel = match self {
            Address::Clamp => at.clamp(0, last),
            Address::Wrap => at.rem_euclid(size as i64),
            Address::Mirror => {
                let at = at.rem_euclid(2 * size as i64);
                at.min(2 * size as i64 - 1 - at)
            }
            Address::Border if (0..=last).contains(&at) => at,
            Address::Border => return None,
        };
        Some(texel as usize)
    }
}

/// The texel that holds a position.
pub(crate) fn nearest(position: f64) -> i64 {
    // Saturates where there are no integers.
    bounded(position.floor())
}

/// The first of the two texels around a position, and how much the second one
/// weighs, of 256: hardware keeps 8 bits of the fraction.
pub(crate) fn around(position: f64) -> (i64, u32) {
    let fixed = bounded(((position - 0.5) * 256.0 + 0.5).floor());
    (fixed >> 8, (fixed & 255) as u32)
}

/// As an integer with room to add offsets to.
fn bounded(x: f64) -> i64 {
    (x as i64).clamp(-(1 << 40), 1 << 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(address: u32, normalized: bool) -> Sampler {
        Sampler::new(&TextureDesc {
            address_modes: [address; 3],
            flags: if normalized { NORMALIZED } else { 0 },
            ..TextureDesc::default()
        })
        .unwrap()
    }

    #[test]
    fn texels_outside() {
        let row = |address: Address| (-5..9).map(move |at| address.texel(at, 4));
        let all = |texels: [usize; 14]| texels.map(Some).into_iter();
        assert!(row(Address::Clamp).eq(all([0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3])));
        assert!(row(Address::Wrap).eq(all([3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0])));
        assert!(row(Address::Mirror).eq(all([3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0])));
        let border: Vec<_> = row(Address::Border).flatten().collect();
        assert_eq!(border, [0, 1, 2, 3]);
    }

    #[test]
    fn only_normalised_coordinates_repeat() {
        assert_eq!(sampler(0, false).address, [Address::Clamp; 3]);
        assert_eq!(sampler(2, false).address, [Address::Clamp; 3]);
        assert_eq!(sampler(3, false).address, [Address::Border; 3]);
        let wrap = sampler(0, true);
        assert_eq!(wrap.position(0, 2.25, 8), 2.0);
        assert_eq!(wrap.position(0, -0.25, 8), 6.0);
        let mirror = sampler(2, true);
        assert_eq!(mirror.position(0, 1.25, 8), 10.0);
        assert_eq!(mirror.position(0, -0.25, 8), 14.0);
        assert_eq!(sampler(1, true).position(0, 1.5, 8), 12.0);
        assert_eq!(wrap.position(0, f32::NAN, 8), 0.0);
    }

    #[test]
    fn weights_have_eight_bits() {
        assert_eq!(around(1.0), (0, 128));
        assert_eq!(around(0.5), (0, 0));
        assert_eq!(around(0.25), (-1, 192));
        assert_eq!(around(1.5 - 1.0 / 1024.0), (1, 0));
        assert_eq!(around(0.5 + 3.0 / 256.0), (0, 3));
        assert_eq!(nearest(-0.5), -1);
        assert_eq!(nearest(f64::INFINITY), 1 << 40);
    }
}
