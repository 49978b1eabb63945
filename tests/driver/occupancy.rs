//! The calculator of occupancy says what the driver says.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use ptxkit::driver::{
    DeviceAttribute, Kernel, KernelAttribute, LaunchConfig, LaunchOptions, Module,
};
use ptxkit::occupancy::{
    BlockResources, MAX_CLUSTER, Multiprocessor, PORTABLE_CLUSTER, WARP, gpcs,
};

use crate::support::{alone, context, device, is_gpu};

/// How many random cases are compared.
const CASES: u64 = 10_000;
/// Mismatches that are printed.
const SHOWN: usize = 200;

/// The processor of the device; the CPU device reports that of sm_90.
fn processor() -> &'static Multiprocessor {
    let (major, minor) = device().compute_capability().unwrap();
    let number = if is_gpu() { major * 10 + minor } else { 90 };
    let number = u16::try_from(number).unwrap();
    Multiprocessor::of(number).unwrap_or_else(|| panic!("no limits of sm_{number}"))
}

/// What a kernel of the tests has.
struct Subject {
    name: String,
    /// Values that are alive together.
    live: u32,
    /// `.maxnreg`
    most: Option<u32>,
    /// Bytes of static shared memory.
    shared: u32,
    barriers: u32,
}

fn subjects() -> Vec<Subject> {
    let live = [
        0, 8, 12, 20, 28, 34, 44, 52, 60, 74, 90, 110, 130, 160, 200, 230, 250,
    ];
    let shared = [0, 1, 1000, 2048, 4097, 9000, 12_345, 24_576, 40_000, 49_152];
    // The CPU device has no barriers to run out of.
    let barriers: &[u32] = if is_gpu() {
        &[0, 1, 2, 3, 5, 8, 16]
    } else {
        &[0, 1]
    };
    let mut subjects = Vec::new();
    for (index, live) in live.into_iter().enumerate() {
        for (number, most) in [None, Some(32), Some(64)].into_iter().enumerate() {
            let shared = shared[(3 * index + number) % shared.len()];
            let barriers = barriers[(index + 2 * number) % barriers.len()];
            subjects.push(Subject {
                name: format!("k{}", subjects.len()),
                live,
                most,
                shared,
                barriers,
            });
        }
    }
    subjects
}

/// A kernel that loads all values before it adds them up, the last first.
fn kernel(subject: &Subject) -> String {
    let Subject {
        name,
        live,
        most,
        shared,
        barriers,
    } = subject;
    let bound = most.map_or(String::new(), |most| format!(".maxnreg {most}"));
    let mut text = format!(".visible .entry {name}(.param .u64 out) {bound}\n{{\n");
    if *shared > 0 {
        let _ = writeln!(text, "\t.shared .align 1 .b8 tile[{shared}];");
    }
    let _ = writeln!(text, "\t.reg .b64 p;\n\t.reg .b32 sum, v<{}>;", live + 1);
    text += "\tld.param.u64 p, [out];\n\tmov.u32 sum, %tid.x;\n";
    for value in 0..*live {
        let _ = writeln!(
            text,
            "\tld.volatile.global.u32 v{value}, [p+{}];",
            4 * value
        );
    }
    for value in (0..*live).rev() {
        let _ = writeln!(text, "\tmad.lo.u32 sum, sum, v{value}, v{value};");
    }
    if *shared > 0 {
        text += "\tst.volatile.shared.u8 [tile], sum;\n\tld.volatile.shared.u8 sum, [tile];\n";
    }
    for barrier in 0..*barriers {
        let _ = writeln!(text, "\tbar.sync {barrier};");
    }
    text + "\tst.volatile.global.u32 [p], sum;\n\tret;\n}\n"
}

fn load(subjects: &[Subject]) -> (Module, Vec<Kernel>) {
    let mut text = ".version 7.0\n.target sm_75\n.address_size 64\n".to_owned();
    text.extend(subjects.iter().map(kernel));
    let module = Module::load(&context(), text.as_bytes()).unwrap();
    let kernels = subjects
        .iter()
        .map(|subject| module.kernel(&subject.name).unwrap());
    let kernels = kernels.collect();
    (module, kernels)
}

/// Deterministic and different for each index (SplitMix64).
fn random(index: u64) -> impl FnMut(u32) -> u32 {
    let mut state = index;
    move |below| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % u64::from(below)) as u32
    }
}

fn check(mismatches: &[String]) {
    let shown = &mismatches[..mismatches.len().min(SHOWN)];
    assert!(
        mismatches.is_empty(),
        "{} of {CASES} differ on {}:\n{}",
        mismatches.len(),
        device().name().unwrap_or_default(),
        shown.join("\n")
    );
}

#[test]
fn limits_are_those_of_the_device() {
    let (device, processor) = (device(), processor());
    let threads = device
        .attribute(DeviceAttribute::MAX_THREADS_PER_MULTIPROCESSOR)
        .unwrap();
    assert_eq!(threads, processor.warps * WARP);
    let registers = device.attribute(DeviceAttribute::MAX_REGISTERS_PER_MULTIPROCESSOR);
    assert_eq!(registers.unwrap(), processor.registers);
    let registers = device.attribute(DeviceAttribute::MAX_REGISTERS_PER_BLOCK);
    assert_eq!(registers.unwrap(), processor.registers_of_block);
    let blocks = device.attribute(DeviceAttribute::MAX_BLOCKS_PER_MULTIPROCESSOR);
    assert_eq!(blocks.unwrap(), processor.blocks);
    let shared = |attribute| device.attribute(attribute).unwrap() as u32;
    assert_eq!(
        [
            shared(DeviceAttribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            shared(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            shared(DeviceAttribute::RESERVED_SHARED_MEMORY_PER_BLOCK),
        ],
        [
            processor.shared,
            processor.shared_of_block,
            processor.reserved
        ]
    );
}

#[test]
fn occupancy_is_that_of_the_driver() {
    // Attributes of a function are of all who use it.
    alone();
    let (processor, subjects) = (processor(), subjects());
    let (_module, kernels) = load(&subjects);
    let registers: Vec<u32> = kernels
        .iter()
        .map(|kernel| kernel.attribute(KernelAttribute::NUM_REGS).unwrap())
        .collect();
    let mut mismatches = Vec::new();
    // What was set last, as a kernel without a preference cannot get back to none.
    let mut carveouts = vec![None; kernels.len()];
    for index in 0..CASES {
        let mut below = random(index);
        let at = below(kernels.len() as u32) as usize;
        let (subject, kernel) = (&subjects[at], &kernels[at]);
        let room = processor.shared_of_block - subject.shared;
        let limit = match below(3) {
            0 => (48_u32 << 10).saturating_sub(subject.shared),
            1 => below(room + 1),
            _ => room,
        };
        // The first half without preferences.
        if index >= CASES / 2 && below(2) == 0 {
            carveouts[at] = Some(below(101));
        }
        let dynamic = match below(8) {
            0 | 1 => 0,
            2 => below(limit + 1),
            3 => limit,
            4 => limit + below(4096),
            _ => below(16 << 10).min(limit),
        };
        let threads = match below(4) {
            0 => 32 * (1 + below(32)),
            1 => 1 + below(64),
            _ => 1 + below(1024),
        };
        let set = |attribute, value| kernel.set_attribute(attribute, value);
        let blocks = set(KernelAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES, limit)
            .and_then(|()| match carveouts[at] {
                Some(percent) => set(KernelAttribute::PREFERRED_SHARED_MEMORY_CARVEOUT, percent),
                None => Ok(()),
            })
            .and_then(|()| kernel.max_active_blocks(threads, dynamic));
        let block = BlockResources {
            threads,
            registers: registers[at],
            shared: subject.shared + dynamic,
            barriers: if is_gpu() { subject.barriers } else { 0 },
            carveout: carveouts[at],
        };
        let ours = processor.occupancy(&block);
        // More than the limit that the kernel has opted in to, and than every block may have.
        let is_too_much = dynamic > limit && block.shared > 48 << 10;
        let expected = if is_too_much { 0 } else { ours.blocks };
        let driver = blocks.map_err(|error| error.to_string());
        if driver != Ok(expected) {
            mismatches.push(format!(
                "case {index}: driver {driver:?}, here {expected}: {block:?}, static {}, dynamic \
                 {dynamic} of at most {limit}, .maxnreg {:?}, {} live; by {:?}",
                subject.shared, subject.most, subject.live, ours.room,
            ));
        }
    }
    check(&mismatches);
}

#[test]
fn shared_memory_for_blocks_is_that_of_the_driver() {
    alone();
    let (processor, subjects) = (processor(), subjects());
    let (_module, kernels) = load(&subjects);
    let mut mismatches = Vec::new();
    for (subject, kernel) in subjects.iter().zip(&kernels) {
        let room = processor.shared_of_block - subject.shared;
        kernel
            .set_attribute(KernelAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES, room)
            .unwrap();
        let block = BlockResources {
            threads: 64,
            registers: kernel.attribute(KernelAttribute::NUM_REGS).unwrap(),
            shared: subject.shared,
            barriers: if is_gpu() { subject.barriers } else { 0 },
            carveout: None,
        };
        for blocks in 1..=processor.occupancy(&block).blocks {
            let shared = processor.shared_for(&block, blocks).unwrap_or(0);
            // The driver does not take off what the system reserves of each block.
            let shared = (shared + processor.reserved).min(processor.shared_of_block);
            let expected = (shared - subject.shared.min(shared)) as usize;
            let driver = kernel
                .available_shared(blocks, block.threads)
                .map_err(|error| error.to_string());
            if driver != Ok(expected) {
                mismatches.push(format!(
                    "driver {driver:?}, here {expected}: {blocks} blocks of {block:?}"
                ));
            }
        }
    }
    check(&mismatches);
}

/// A kernel of a block that has a multiprocessor for itself.
fn lone_block(kernel: &Kernel, processor: &Multiprocessor) -> LaunchConfig {
    let shared = processor.shared_of_block;
    kernel
        .set_attribute(KernelAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        .unwrap();
    LaunchConfig::for_elements(32, 32).with_shared(shared)
}

/// The clusters of `size` blocks that the device holds at once.
fn clusters(kernel: &Kernel, config: LaunchConfig, size: u32) -> Result<u32, String> {
    let options = LaunchOptions::new().cluster([size, 1, 1]);
    let config = LaunchConfig {
        grid: [size, 1, 1],
        ..config
    };
    kernel
        .max_active_clusters(config, &options)
        .map_err(|error| error.to_string())
}

/// Where GPCs differ from chip to chip, those of the device follow from its own answers for one
/// kernel; all others are calculated.
#[test]
fn clusters_are_those_of_the_driver() {
    if !device().attribute(DeviceAttribute::CLUSTER_LAUNCH).unwrap() {
        eprintln!("skipped: the device has no clusters");
        return;
    }
    alone();
    let (processor, subjects) = (processor(), subjects());
    let (_module, kernels) = load(&subjects);
    for kernel in &kernels {
        let is_portable = kernel
            .max_cluster_size(LaunchConfig::for_elements(32, 32))
            .unwrap();
        assert_eq!(is_portable, PORTABLE_CLUSTER);
        kernel
            .set_attribute(KernelAttribute::NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
            .unwrap();
    }
    let registers: Vec<u32> = kernels
        .iter()
        .map(|kernel| kernel.attribute(KernelAttribute::NUM_REGS).unwrap())
        .collect();
    let workers = device()
        .attribute(DeviceAttribute::MULTIPROCESSOR_COUNT)
        .unwrap();
    let gpcs = if is_gpu() {
        let lone = lone_block(&kernels[0], processor);
        let answers = (1..64).map(|size| clusters(&kernels[0], lone, size).unwrap_or(0));
        gpcs(&answers.collect::<Vec<_>>()).expect("the answers are of GPCs")
    } else {
        // A multiprocessor of the CPU device runs the blocks of a cluster in turn.
        vec![1; workers as usize]
    };
    eprintln!(
        "{} has GPCs of {gpcs:?} multiprocessors",
        device().name().unwrap()
    );
    assert_eq!(gpcs.iter().sum::<u32>(), workers);
    if is_gpu() {
        let most = kernels[0].max_cluster_size(lone_block(&kernels[0], processor));
        assert_eq!(most.unwrap(), gpcs[0].min(MAX_CLUSTER));
    }
    let (mut mismatches, mut largest) = (Vec::new(), BTreeSet::new());
    for index in 0..CASES {
        let mut below = random(index);
        let at = below(kernels.len() as u32) as usize;
        let (subject, kernel) = (&subjects[at], &kernels[at]);
        let room = processor.shared_of_block - subject.shared;
        kernel
            .set_attribute(KernelAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES, room)
            .unwrap();
        let dynamic = match below(3) {
            0 => 0,
            1 => below(32 << 10).min(room),
            _ => below(room + 1),
        };
        let (threads, size) = (1 + below(1024), 1 + below(MAX_CLUSTER));
        let block = BlockResources {
            threads,
            registers: registers[at],
            shared: subject.shared + dynamic,
            barriers: if is_gpu() { subject.barriers } else { 0 },
            carveout: None,
        };
        let expected = if is_gpu() {
            processor.clusters(&block, size, &gpcs).unwrap()
        } else {
            match processor.occupancy(&block).blocks {
                0 => 0,
                blocks => (blocks / size).max(1) * workers,
            }
        };
        let config = LaunchConfig::for_elements(threads, threads).with_shared(dynamic);
        let driver = clusters(kernel, config, size);
        // A block that does not fit is an error for a GPU's driver.
        if driver.clone().unwrap_or(0) != expected {
            mismatches.push(format!(
                "case {index}: driver {driver:?}, here {expected}: clusters of {size}, {block:?}"
            ));
        }
        // The largest of which the device holds one.
        let holds = |size: &u32| processor.clusters(&block, *size, &gpcs).unwrap() > 0;
        let expected = if is_gpu() {
            (1..=MAX_CLUSTER).rev().find(holds).unwrap_or(0)
        } else {
            // It runs any, and the kernels allow more than every device does.
            MAX_CLUSTER
        };
        let driver = kernel.max_cluster_size(config);
        let driver = driver.map_err(|error| error.to_string());
        largest.insert(expected);
        if driver.clone().unwrap_or(0) != expected {
            mismatches.push(format!(
                "case {index}: driver {driver:?}, here {expected}: the largest cluster of {block:?}"
            ));
        }
    }
    assert!(!is_gpu() || largest.len() > 1, "{largest:?}");
    check(&mismatches);
}
