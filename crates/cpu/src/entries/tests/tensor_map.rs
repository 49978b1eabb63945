//! Tensor maps.

use super::*;

#[test]
fn a_tensor_map_gets_another_address() {
    let _current = Current::new();
    let mut map = TensorMap::default();
    let address = |bytes: usize| std::ptr::without_provenance_mut::<c_void>(bytes);
    let (dims, strides) = ([64_u64, 8], [256_u64]);
    let (boxes, steps) = ([16_u32, 8], [1_u32; 2]);
    ok!(cuTensorMapEncodeTiled(
        &mut map,
        7,
        2,
        address(0x1000),
        dims.as_ptr(),
        strides.as_ptr(),
        boxes.as_ptr(),
        steps.as_ptr(),
        0,
        0,
        0,
        0
    ));
    let first = map;
    let refused = cu!(cuTensorMapReplaceAddress(&mut map, address(0x1008)));
    assert_eq!((refused, map), (INVALID_VALUE, first));
    ok!(cuTensorMapReplaceAddress(&mut map, address(0x2000)));
    assert_ne!(map, first);
    ok!(cuTensorMapReplaceAddress(&mut map, address(0x1000)));
    assert_eq!(map, first);
    assert_eq!(
        cu!(cuTensorMapReplaceAddress(null_mut(), address(0x1000))),
        INVALID_VALUE
    );
}

#[test]
fn columns_along_the_width_have_a_map() {
    let _current = Current::new();
    let (dims, strides, steps) = ([16_u64, 12, 10, 2], [64_u64, 768, 7680], [1_u32; 4]);
    let encode = |map: &mut TensorMap, mode: u32, swizzle: u32, pixels: u32| {
        cu!(cuTensorMapEncodeIm2colWide(
            map,
            7,
            4,
            std::ptr::without_provenance_mut::<c_void>(0x1000),
            dims.as_ptr(),
            strides.as_ptr(),
            -1,
            -1,
            16,
            pixels,
            steps.as_ptr(),
            0,
            mode,
            swizzle,
            0,
            0
        ))
    };
    let mut maps = [TensorMap::default(); 2];
    let [by_pixels, by_128] = &mut maps;
    assert_eq!(encode(by_pixels, 0, 2, 64), 0);
    assert_eq!(encode(by_128, 1, 2, 64), 0);
    assert_ne!(by_pixels, by_128);
    // It has its number of pixels, whatever is said.
    let before = *by_128;
    assert_eq!(encode(by_128, 1, 2, 0), 0);
    assert_eq!(*by_128, before);
    for (mode, swizzle, pixels) in [(2, 2, 64), (0, 0, 64), (0, 2, 0), (0, 2, 1025)] {
        let before = *by_128;
        assert_eq!(encode(by_128, mode, swizzle, pixels), INVALID_VALUE);
        assert_eq!(*by_128, before);
    }
}
