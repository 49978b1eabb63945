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
