//! Arrays of tiles, and arrays without memory.

use ptxkit::driver::{Array, ArrayFlags, ArrayShape, CudaError, DeviceAttribute, MipmappedArray};

use crate::support::{context, device};

const SHAPE: ArrayShape = ArrayShape::D2 {
    width: 1024,
    height: 1024,
};

#[test]
fn ordinary_arrays_have_no_tiles() {
    let context = context();
    let array = Array::<f32>::new(&context, SHAPE).unwrap();
    let levels = MipmappedArray::<f32>::new(&context, SHAPE, 2, ArrayFlags::default()).unwrap();
    for error in [
        array.sparse_tiles().unwrap_err(),
        levels.sparse_tiles().unwrap_err(),
        array.memory_requirements(&device()).unwrap_err(),
        levels.memory_requirements(&device()).unwrap_err(),
    ] {
        assert_eq!(error.code(), Some(CudaError::INVALID_VALUE), "{error}");
    }
}

#[test]
fn sparse_arrays_say_how_large_a_tile_is() {
    let context = context();
    let sparse = ArrayFlags::default().sparse();
    let has = device().attribute(DeviceAttribute::SPARSE_CUDA_ARRAY_SUPPORTED);
    let array = Array::<f32>::with_flags(&context, SHAPE, sparse);
    if !has.unwrap() {
        array.unwrap_err();
        return;
    }
    let tiles = array.unwrap().sparse_tiles().unwrap();
    assert!(tiles.tile.iter().all(|&size| size > 0), "{tiles:?}");
    let levels = MipmappedArray::<f32>::new(&context, SHAPE, 11, sparse).unwrap();
    let tiles = levels.sparse_tiles().unwrap();
    assert!(tiles.tail_level > 0 && tiles.tail_bytes > 0, "{tiles:?}");
}

#[test]
fn arrays_without_memory_say_how_much_they_need() {
    let context = context();
    let deferred = ArrayFlags::default().deferred_mapping();
    let has = device().attribute(DeviceAttribute::DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED);
    let array = Array::<f32>::with_flags(&context, SHAPE, deferred);
    if !has.unwrap() {
        array.unwrap_err();
        return;
    }
    let (bytes, alignment) = array.unwrap().memory_requirements(&device()).unwrap();
    assert!(bytes >= SHAPE.texels() * 4 && alignment > 0);
}
