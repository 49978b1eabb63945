use ptxkit::driver::{Attribute, CudaError, DriverKind, Error};

use crate::support::{device, is_gpu};

#[test]
fn a_device_describes_itself() {
    let device = device();
    assert!(!device.name().unwrap().trim().is_empty());
    let (major, minor) = device.compute_capability().unwrap();
    assert!((5..100).contains(&major) && minor < 10, "{major}.{minor}");
    assert!(device.total_memory().unwrap() >= 256 << 20);
    assert_eq!(device.attribute(Attribute::WARP_SIZE).unwrap(), 32);
    assert!(device.attribute(Attribute::MULTIPROCESSOR_COUNT).unwrap() >= 1);

    let limits = device.limits().unwrap();
    assert_eq!(limits.block[2], 64);
    assert!(limits.threads_per_block >= 512 && limits.threads_per_block <= 1024);
    assert!(limits.shared_per_block >= 48 * 1024);
    assert!(limits.shared_per_block_optin >= limits.shared_per_block);
}

#[test]
fn the_target_names_what_code_is_compiled_for() {
    let target = device().target().unwrap();
    match is_gpu() {
        true => {
            let (major, minor) = device().compute_capability().unwrap();
            assert!(
                target.starts_with(&format!("sm_{major}{minor}")),
                "{target}"
            );
            assert_eq!(target.ends_with('a'), major >= 9, "{target}");
        }
        false => assert!(target.starts_with("cpu-"), "{target}"),
    }
}

#[test]
fn identities_are_stable_and_devices_equal_themselves() {
    let device = device();
    assert_eq!(device.uuid().unwrap(), device.uuid().unwrap());
    assert_ne!(device.uuid().unwrap(), [0; 16]);
    assert_eq!(device, device.driver().device(device.ordinal()).unwrap());
    assert!(device.driver().devices().unwrap().contains(&device));
    assert!(device.driver().version() >= 11_000);
}

#[test]
fn there_is_no_device_beyond_the_last() {
    let driver = device().driver();
    let count = driver.device_count().unwrap();
    for asked in [count, u32::MAX] {
        let error = driver.device(asked).unwrap_err();
        assert!(
            matches!(error, Error::NoSuchDevice { count: c, .. } if c == count),
            "{error}"
        );
    }
}

#[test]
fn an_attribute_of_no_meaning_is_an_error() {
    let error = device().attribute(Attribute(100_000)).unwrap_err();
    assert_eq!(error.code(), Some(CudaError::INVALID_VALUE));
    assert!(
        error.to_string().contains("cuDeviceGetAttribute"),
        "{error}"
    );
    assert!(
        error.to_string().contains("CUDA_ERROR_INVALID_VALUE (1)"),
        "{error}"
    );
}

/// Entries that the library promises to use; a driver may lack newer ones.
#[test]
fn the_table_is_filled() {
    let api = device().driver().api();
    let missing: Vec<_> = api
        .entries()
        .filter(|(name, there, since)| !there && *since <= 12_000 && *name != "ptxkitGetLastFault")
        .map(|(name, ..)| name)
        .collect();
    match api.kind() {
        DriverKind::Nvidia => assert_eq!(missing, [""; 0]),
        _ => assert!(missing.len() < 20, "{missing:?}"),
    }
}
