//! Numbers, vectors and matrices of other crates as elements of device memory, each crate by a
//! feature of its name.

#[allow(unused_imports, reason = "without these features")]
use crate::driver::pod::{Pod, param::DeviceField};

#[cfg(any(feature = "half", feature = "float8"))]
macro_rules! numbers {
    ($($number:ty, $bits:ty;)*) => { $(
        // SAFETY: a transparent structure of these bits, of which any are a number.
        unsafe impl Pod for $number {}
        // SAFETY: as above; CUDA's number of this width has the same alignment.
        unsafe impl DeviceField for $number {}
        const _: () = assert!(
            size_of::<$number>() == size_of::<$bits>()
                && align_of::<$number>() == align_of::<$bits>()
        );
    )* };
}

#[cfg(feature = "half")]
numbers! {
    half::f16, u16;
    half::bf16, u16;
}

#[cfg(feature = "float8")]
numbers! {
    float8::F8E4M3, u8;
    float8::F8E5M2, u8;
}

/// Two numbers in a row, as `cuComplex` has them. As a field of structures it would need the
/// alignment of both, which it has not.
#[cfg(feature = "num-complex")]
// SAFETY: `repr(C)`: two values of one type, so without padding; any bits are values.
unsafe impl<T: Pod> Pod for num_complex::Complex<T> {}

/// `Vec3A` and what is made of it are left out: they have padding.
#[cfg(feature = "glam")]
macro_rules! numbers_in_a_row {
    ($($name:ident: $number:ty, $count:literal;)*) => { $(
        // SAFETY: numbers, of which any bits are values. There are as many as the assertion says,
        // so there is no padding.
        unsafe impl Pod for glam::$name {}
        const _: () = assert!(size_of::<glam::$name>() == $count * size_of::<$number>());
    )* };
}

#[cfg(feature = "glam")]
numbers_in_a_row! {
    Vec2: f32, 2;
    Vec3: f32, 3;
    Vec4: f32, 4;
    Quat: f32, 4;
    Mat2: f32, 4;
    Mat3: f32, 9;
    Mat4: f32, 16;
    DVec2: f64, 2;
    DVec3: f64, 3;
    DVec4: f64, 4;
    IVec2: i32, 2;
    IVec3: i32, 3;
    IVec4: i32, 4;
    UVec2: u32, 2;
    UVec3: u32, 3;
    UVec4: u32, 4;
}

#[cfg(test)]
mod tests {
    #[allow(unused_imports, reason = "without these features")]
    use crate::driver::pod::{bytes_of, bytes_of_mut, zeroed};

    #[cfg(feature = "half")]
    #[test]
    fn half_numbers_are_their_bits() {
        let values = [half::f16::from_f32(1.5), half::f16::NEG_INFINITY];
        assert_eq!(bytes_of(&values), [0, 0x3e, 0, 0xfc]);
        let mut value = zeroed::<half::bf16>(1);
        bytes_of_mut(&mut value).copy_from_slice(&[0x80, 0x3f]);
        assert_eq!(value, [half::bf16::ONE]);
    }

    #[cfg(feature = "float8")]
    #[test]
    fn numbers_of_8_bits_are_their_bits() {
        assert_eq!(bytes_of(&[float8::F8E4M3::from_f32(1.0)]), [0x38]);
        assert_eq!(bytes_of(&[float8::F8E5M2::from_f32(1.0)]), [0x3c]);
    }

    #[cfg(feature = "num-complex")]
    #[test]
    fn the_real_part_comes_first() {
        let value = num_complex::Complex::new(1.0_f32, 2.0);
        let expected = [1.0_f32.to_ne_bytes(), 2.0_f32.to_ne_bytes()].concat();
        assert_eq!(bytes_of(&[value]), expected);
    }

    #[cfg(feature = "glam")]
    #[test]
    fn vectors_and_columns_of_matrices_are_numbers_in_a_row() {
        let matrix = glam::Mat3::from_cols_array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        let numbers: Vec<u8> = (1_u8..=9)
            .flat_map(|number| f32::from(number).to_ne_bytes())
            .collect();
        assert_eq!(bytes_of(&[matrix]), numbers);
        assert_eq!(bytes_of(&[glam::Vec4::W])[12..], 1.0_f32.to_ne_bytes());
    }
}
