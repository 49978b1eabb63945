use ptxkit::driver::{
    ComputeMode, Context, CudaError, DeviceAttribute, DriverKind, Error, Kilohertz, NumaConfig,
};

use crate::support::{alone, device, is_gpu, isolated};

#[test]
fn a_device_describes_itself() {
    let device = device();
    assert!(!device.name().unwrap().trim().is_empty());
    let (major, minor) = device.compute_capability().unwrap();
    assert!((5..100).contains(&major) && minor < 10, "{major}.{minor}");
    assert!(device.total_memory().unwrap() >= 256 << 20);
    assert_eq!(device.attribute(DeviceAttribute::WARP_SIZE).unwrap(), 32);
    assert!(
        device
            .attribute(DeviceAttribute::MULTIPROCESSOR_COUNT)
            .unwrap()
            >= 1
    );

    let limits = device.limits().unwrap();
    assert_eq!(limits.block[2], 64);
    assert!(limits.threads_per_block >= 512 && limits.threads_per_block <= 1024);
    assert!(limits.shared_per_block >= 48 * 1024);
    assert!(limits.shared_per_block_optin >= limits.shared_per_block);
}

#[test]
fn the_target_names_what_code_is_compiled_for() {
    let target = device().target().unwrap();
    if is_gpu() {
        let (major, minor) = device().compute_capability().unwrap();
        assert!(
            target.starts_with(&format!("sm_{major}{minor}")),
            "{target}"
        );
        assert_eq!(target.ends_with('a'), major >= 9, "{target}");
    } else {
        assert!(target.starts_with("cpu-"), "{target}")
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
    let error = device()
        .attribute(DeviceAttribute::new(100_000))
        .unwrap_err();
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
        // Windows alone has it.
        .filter(|(name, ..)| *name != "cuDeviceGetLuid")
        .map(|(name, ..)| name)
        .collect();
    match api.kind() {
        DriverKind::Nvidia => assert_eq!(missing, [""; 0]),
        _ => assert!(missing.len() < 15, "{missing:?}"),
    }
}

#[test]
fn devices_are_found_by_address_and_identity() {
    let device = device();
    let driver = device.driver();
    assert_eq!(
        driver.device_by_pci(&device.pci_bus_id().unwrap()).unwrap(),
        device
    );
    assert_eq!(
        driver.device_by_uuid(device.uuid().unwrap()).unwrap(),
        device
    );
    for wrong in [
        driver.device_by_pci("0000:ff:1f.7"),
        driver.device_by_pci("no\0address"),
        driver.device_by_uuid([0; 16]),
    ] {
        let error = wrong.unwrap_err();
        assert!(matches!(error, Error::UnknownDevice { .. }), "{error}");
    }
    assert!(matches!(
        device.compute_mode().unwrap(),
        ComputeMode::Default | ComputeMode::ExclusiveProcess
    ));
}

#[test]
fn every_named_attribute_is_told_or_refused() {
    let device = device();
    let told = DeviceAttribute::ALL
        .iter()
        .filter(|attribute| device.attribute(**attribute).is_ok())
        .count();
    // Older drivers lack the newest.
    assert!(told >= 110, "{told} of {}", DeviceAttribute::ALL.len());
}

#[test]
fn attributes_have_the_type_of_what_they_say() {
    let device = device();
    let (major, minor) = device.compute_capability().unwrap();
    let told = |number| device.attribute(DeviceAttribute::new(number)).unwrap();
    assert_eq!((major as i32, minor as i32), (told(75), told(76)));
    assert_eq!(DeviceAttribute::WARP_SIZE.number(), 10);
    assert_eq!(format!("{:?}", DeviceAttribute::WARP_SIZE), "WARP_SIZE");

    assert!(
        device
            .attribute(DeviceAttribute::UNIFIED_ADDRESSING)
            .unwrap()
    );
    let integrated = device.attribute(DeviceAttribute::INTEGRATED).unwrap();
    assert!(integrated || is_gpu(), "the CPU is no card");
    let bytes = device.attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK);
    assert_eq!(bytes.unwrap(), 48 * 1024);
    if let Ok(Kilohertz(clock)) = device.attribute(DeviceAttribute::CLOCK_RATE) {
        assert_eq!(clock as i32, told(13));
    }
    if let Ok(config) = device.attribute(DeviceAttribute::NUMA_CONFIG) {
        assert!(matches!(config, NumaConfig::None | NumaConfig::Node));
    }
    let mode = device.attribute(DeviceAttribute::COMPUTE_MODE).unwrap();
    assert_eq!(mode, device.compute_mode().unwrap());
}

#[test]
fn a_share_of_the_multiprocessors_takes_mps() {
    alone();
    let device = device();
    let all = device
        .attribute(DeviceAttribute::MULTIPROCESSOR_COUNT)
        .unwrap();
    let context = Context::primary(&device).unwrap();
    // Without MPS a driver may not say so.
    let of_all = || match context.multiprocessors() {
        Ok(count) => count == all,
        Err(error) => error.code() == Some(CudaError::UNSUPPORTED_EXEC_AFFINITY),
    };
    assert!(of_all());
    let half = Context::with_multiprocessors(&device, 0, all.div_ceil(2));
    if device.can_divide_multiprocessors().unwrap() {
        assert!(half.unwrap().multiprocessors().unwrap() <= all)
    } else {
        assert_eq!(
            half.unwrap_err().code(),
            Some(CudaError::UNSUPPORTED_EXEC_AFFINITY)
        )
    }
    // What failed left nothing current.
    assert!(of_all());
}

#[test]
fn windows_alone_names_devices_by_luid() {
    if cfg!(windows) && is_gpu() {
        assert_ne!(device().luid().unwrap().0, [0; 8]);
    } else {
        device().luid().unwrap_err();
    }
}

#[test]
fn visible_devices_are_those_of_the_environment() {
    let name = "device::visible_devices_are_those_of_the_environment";
    isolated(name, &[("CUDA_VISIBLE_DEVICES", "0")], || {
        assert_eq!(device().driver().device_count().unwrap(), 1);
    });
}

#[test]
fn several_cpu_devices() {
    let several = [("PTXKIT_CPU_DEVICES", "2"), ("PTXKIT_DEVICE", "cpu")];
    isolated("device::several_cpu_devices", &several, || {
        let devices = device().driver().devices().unwrap();
        assert_eq!(devices.len(), 2);
        assert_ne!(devices[0].uuid().unwrap(), devices[1].uuid().unwrap());
        assert_ne!(devices[0], devices[1]);
    });
}

#[test]
fn visible_cpu_devices() {
    let visible = [
        ("PTXKIT_CPU_DEVICES", "4"),
        ("CUDA_VISIBLE_DEVICES", "2,0"),
        ("PTXKIT_DEVICE", "cpu"),
    ];
    isolated("device::visible_cpu_devices", &visible, || {
        let devices = device().driver().devices().unwrap();
        let addresses: Vec<_> = devices
            .iter()
            .map(|device| device.pci_bus_id().unwrap())
            .collect();
        assert_eq!(addresses, ["0000:03:00.0", "0000:01:00.0"]);
        let beyond = device().driver().device(2).unwrap_err().to_string();
        assert!(beyond.contains("CUDA_VISIBLE_DEVICES=\"2,0\""), "{beyond}");
    });
}

#[test]
fn visible_cpu_devices_by_identity() {
    let visible = [
        ("PTXKIT_CPU_DEVICES", "4"),
        (
            "CUDA_VISIBLE_DEVICES",
            "GPU-7074786b-6974-2043-5055-206465762033,1",
        ),
        ("PTXKIT_DEVICE", "cpu"),
    ];
    isolated("device::visible_cpu_devices_by_identity", &visible, || {
        let devices = device().driver().devices().unwrap();
        let addresses: Vec<_> = devices
            .iter()
            .map(|device| device.pci_bus_id().unwrap())
            .collect();
        assert_eq!(addresses, ["0000:04:00.0", "0000:02:00.0"]);
        assert_eq!(devices[0].uuid().unwrap(), *b"ptxkit CPU dev 3");
    });
}

/// The list that `nvidia-smi -L` writes.
#[test]
fn visible_devices_by_identity() {
    let uuid = device().uuid().unwrap();
    let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!(
        "GPU-{}-{}-{}-{}-{}",
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..]
    );
    let environment = [
        ("CUDA_VISIBLE_DEVICES", name.as_str()),
        ("PTXKIT_CPU_DEVICES", "2"),
    ];
    isolated("device::visible_devices_by_identity", &environment, || {
        let devices = device().driver().devices().unwrap();
        assert_eq!(devices.len(), 1);
        let asked = std::env::var("CUDA_VISIBLE_DEVICES").unwrap();
        let uuid = devices[0].uuid().unwrap();
        let first: String = uuid[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(asked.contains(&first), "{asked}");
    });
}

#[test]
fn the_only_cpu_device_is_always_visible() {
    let hidden = [
        ("CUDA_VISIBLE_DEVICES", ""),
        ("PTXKIT_DEVICE", "cpu"),
        // As if nobody had set it.
        ("PTXKIT_CPU_DEVICES", ""),
    ];
    isolated(
        "device::the_only_cpu_device_is_always_visible",
        &hidden,
        || {
            assert_eq!(device().driver().device_count().unwrap(), 1);
        },
    );
}
