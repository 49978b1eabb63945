//! Samplers: address modes, normalized coordinates and filters.

use api::TextureDesc;

/// `CU_TR_ADDRESS_MODE_*`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressMode {
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
pub(crate) const KNOWN_FLAGS: u32 =
    READ_AS_INTEGER | NORMALIZED | SRGB | NO_TRILINEAR_OPTIMIZATION | SEAMLESS;

/// The sampling state of a texture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampler {
    pub address: [AddressMode; 3],
    pub linear: bool,
    /// Interpolates between mipmap levels.
    pub linear_levels: bool,
    pub bias: f32,
    pub levels: [f32; 2],
    pub border: [f32; 4],
    pub normalized: bool,
    pub srgb: bool,
    pub seamless: bool,
}

impl Sampler {
    /// From the driver API's descriptor; `None` if it has an unknown mode or flag.
    pub fn new(desc: &TextureDesc) -> Option<Sampler> {
        if desc.flags & !KNOWN_FLAGS != 0 || desc.filter_mode > 1 || desc.mipmap_filter_mode > 1 {
            return None;
        }
        let normalized = desc.flags & NORMALIZED != 0;
        let mut address = [AddressMode::Clamp; 3];
        for (address, mode) in address.iter_mut().zip(desc.address_modes) {
            *address = match mode {
                // Coordinates that are not normalized cannot repeat.
                0 | 2 if !normalized => AddressMode::Clamp,
                0 => AddressMode::Wrap,
                1 => AddressMode::Clamp,
                2 => AddressMode::Mirror,
                3 => AddressMode::Border,
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

    /// The position of a coordinate on an axis of `size` texels: 0 is the start of the
    /// first, `size` the end of the last. Repeating coordinates are reduced to one period.
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
            AddressMode::Wrap => (x - x.floor()) * size,
            AddressMode::Mirror => (x - 2.0 * (x / 2.0).floor()) * size,
            _ => x * size,
        }
    }
}

impl AddressMode {
    /// The texel for an index that may be out of range; `None` for the border color.
    pub fn texel(self, at: i64, size: usize) -> Option<usize> {
        let last = size as i64 - 1;
        let texel = match self {
            AddressMode::Clamp => at.clamp(0, last),
            AddressMode::Wrap => at.rem_euclid(size as i64),
            AddressMode::Mirror => {
                let at = at.rem_euclid(2 * size as i64);
                at.min(2 * size as i64 - 1 - at)
            }
            AddressMode::Border if (0..=last).contains(&at) => at,
            AddressMode::Border => return None,
        };
        Some(texel as usize)
    }
}

/// The texel that contains a position.
pub(crate) fn nearest(position: f64) -> i64 {
    saturating_index(position.floor())
}

/// The first of the two texels around a position, and the weight of the second in units
/// of 1/256: GPUs retain 8 bits of the fraction.
pub(crate) fn linear_texels(position: f64) -> (i64, u32) {
    let fixed = saturating_index(((position - 0.5) * 256.0 + 0.5).floor());
    (fixed >> 8, (fixed & 255) as u32)
}

/// Converts to an integer, saturating such that adding an offset cannot overflow.
fn saturating_index(x: f64) -> i64 {
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
        let row = |address: AddressMode| (-5..9).map(move |at| address.texel(at, 4));
        let all = |texels: [usize; 14]| texels.map(Some).into_iter();
        assert!(row(AddressMode::Clamp).eq(all([0, 0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3])));
        assert!(row(AddressMode::Wrap).eq(all([3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0])));
        assert!(row(AddressMode::Mirror).eq(all([3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0])));
        let border: Vec<_> = row(AddressMode::Border).flatten().collect();
        assert_eq!(border, [0, 1, 2, 3]);
    }

    #[test]
    fn only_normalised_coordinates_repeat() {
        assert_eq!(sampler(0, false).address, [AddressMode::Clamp; 3]);
        assert_eq!(sampler(2, false).address, [AddressMode::Clamp; 3]);
        assert_eq!(sampler(3, false).address, [AddressMode::Border; 3]);
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
        assert_eq!(linear_texels(1.0), (0, 128));
        assert_eq!(linear_texels(0.5), (0, 0));
        assert_eq!(linear_texels(0.25), (-1, 192));
        assert_eq!(linear_texels(1.5 - 1.0 / 1024.0), (1, 0));
        assert_eq!(linear_texels(0.5 + 3.0 / 256.0), (0, 3));
        assert_eq!(nearest(-0.5), -1);
        assert_eq!(nearest(f64::INFINITY), 1 << 40);
    }
}
