use std::io::Write;
use std::process::{Command, Stdio};

use super::*;

fn of(number: u16, threads: u32, registers: u32, shared: u32) -> Occupancy {
    let block = BlockResources {
        threads,
        registers,
        shared,
        ..BlockResources::default()
    };
    Multiprocessor::of(number).expect("a row").occupancy(&block)
}

#[test]
fn each_resource_limits() {
    let (full, half) = (of(90, 1024, 32, 0), of(90, 1024, 33, 0));
    assert_eq!((full.percent(), full.limit()), (100, Limit::Warps));
    assert_eq!((half.percent(), half.limit()), (50, Limit::Registers));
    assert_eq!(of(90, 32, 0, 0).limit(), Limit::Blocks);
    // 48 KB and the 1 KB of the system: four blocks of 228 KB.
    let shared = of(90, 64, 0, 48 << 10);
    assert_eq!((shared.blocks, shared.limit()), (4, Limit::Shared));
    assert_eq!(of(75, 64, 0, 48 << 10).blocks, 1);
    assert_eq!(of(86, 1024, 0, 0).percent(), 66);
    assert_eq!(of(90, 1024, 65, 0).blocks, 0);
    let barriers = BlockResources {
        threads: 32,
        barriers: 16,
        ..BlockResources::default()
    };
    let barriers = Multiprocessor::of(120).unwrap().occupancy(&barriers);
    assert_eq!((barriers.blocks, barriers.limit()), (1, Limit::Barriers));
}

#[test]
fn what_no_block_can_have_does_not_fit() {
    for processor in Multiprocessor::all() {
        let number = processor.number;
        assert_eq!(of(number, 1025, 1, 0).blocks, 0);
        assert_eq!(of(number, u32::MAX, u32::MAX, u32::MAX).blocks, 0);
        assert_eq!(of(number, 32, 256, 0).blocks, 0);
        assert!(of(number, 32, 16, processor.shared_of_block).blocks > 0);
        assert_eq!(of(number, 32, 16, processor.shared_of_block + 1).blocks, 0);
    }
    // A file of 32 Ki registers a block, as of Tegra's processors.
    assert_eq!(
        (of(53, 1024, 33, 0).blocks, of(52, 1024, 33, 0).blocks),
        (0, 1)
    );
}

#[test]
fn a_carveout_gives_shared_memory_in_the_sizes_of_the_target() {
    let hopper = Multiprocessor::of(90).unwrap();
    let blocks = |carveout: u32, shared: u32| {
        let block = BlockResources {
            threads: 32,
            shared,
            carveout: Some(carveout),
            ..BlockResources::default()
        };
        hopper.occupancy(&block).blocks
    };
    // 25 % of 228 KB are 57: 64 KB, of which 8 KB and the system's one are a seventh.
    assert_eq!(blocks(25, 8 << 10), 7);
    assert_eq!(blocks(100, 8 << 10), 25);
    // The least that one block needs is given in any case.
    assert_eq!(blocks(0, 8 << 10), 1);
    // Maxwell's shared memory is no part of the cache.
    let block = BlockResources {
        threads: 32,
        shared: 8 << 10,
        carveout: Some(0),
        ..BlockResources::default()
    };
    assert_eq!(Multiprocessor::of(50).unwrap().occupancy(&block).blocks, 8);
}

#[test]
fn registers_for_a_block_let_it_fit() {
    for processor in Multiprocessor::all() {
        for threads in [32, 96, 256, 512, 768, 1024] {
            let registers = processor.registers_for(threads, 1).unwrap();
            let fits = |registers| of(processor.number, threads, registers, 0).blocks > 0;
            assert!(fits(registers), "{threads} {registers}");
            assert!(
                registers == MAX_REGISTERS || !fits(registers + 1),
                "{threads} {registers}"
            );
        }
    }
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

fn random_block(processor: &Multiprocessor, index: u64) -> BlockResources {
    let mut below = random(index);
    let shared = match below(4) {
        0 => 0,
        1 => below(8 << 10),
        _ => below(processor.shared_of_block + 2048),
    };
    BlockResources {
        threads: 1 + below([64, 256, 1024, 1100][index as usize % 4]),
        registers: below([40, 80, 256][index as usize % 3]),
        shared,
        barriers: below(17),
        carveout: match below(2) {
            0 => None,
            _ => Some(below(101)),
        },
    }
}

#[test]
fn curves_are_the_occupancy_of_every_value() {
    for (index, processor) in (0..).zip(Multiprocessor::all()) {
        let block = random_block(processor, 7 + index);
        for axis in Axis::ALL {
            let curve = processor.curve(axis, &block);
            let end = processor.end(axis);
            for value in curve[0].from..=end {
                let point = curve.iter().rfind(|point| point.from <= value).unwrap();
                let there = processor.occupancy(&axis.with(value, &block));
                assert_eq!(
                    (point.occupancy.blocks, point.occupancy.warps),
                    (there.blocks, there.warps),
                    "{axis:?} {value} {block:?} of sm_{}",
                    processor.number
                );
            }
        }
    }
}

#[test]
fn a_step_is_the_least_change() {
    for processor in Multiprocessor::all() {
        for index in 0..500 {
            let block = random_block(processor, index);
            let now = processor.occupancy(&block);
            if let Some(step) = processor.next_block(&block) {
                assert!(step.occupancy.blocks > now.blocks, "{block:?}");
                let less = |axis: Axis| {
                    let value = axis.of(&step.block);
                    let was = axis.of(&block);
                    assert!(value <= was);
                    value == was || {
                        let more = axis.with(value + 1, &step.block);
                        processor.occupancy(&more).blocks <= now.blocks
                    }
                };
                assert!(less(Axis::Registers), "{block:?} {step:?}");
                assert!(less(Axis::Shared), "{block:?} {step:?}");
            }
            for step in processor.other_sizes(&block).into_iter().flatten() {
                assert!(step.occupancy.warps > now.warps);
            }
            let most = processor.most(&block);
            for axis in [Axis::Registers, Axis::Shared] {
                let (most, was) = (axis.of(&most), axis.of(&block));
                let blocks = |value| processor.occupancy(&axis.with(value, &block)).blocks;
                assert!(
                    most >= was && blocks(most) == now.blocks,
                    "{axis:?} {block:?} {most}"
                );
                let further = most + 1 > processor.end(axis) || blocks(most + 1) < now.blocks;
                assert!(further || now.blocks == 0, "{axis:?} {block:?} {most}");
            }
        }
    }
}

/// What NVIDIA's calculator, `cuda_occupancy.h` of CUDA 13.1, says of random blocks: target,
/// threads, registers, shared memory, barriers, carveout (-1 for none), resident blocks.
const RECORDED: &str = include_str!("recorded.txt");

#[test]
fn occupancy_is_that_of_nvidias_calculator() {
    let mut count = 0;
    for line in RECORDED.lines() {
        let numbers: Vec<i64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
        let [
            number,
            threads,
            registers,
            shared,
            barriers,
            carveout,
            blocks,
        ] = numbers[..]
        else {
            panic!("{line}");
        };
        let block = BlockResources {
            threads: threads as u32,
            registers: registers as u32,
            shared: shared as u32,
            barriers: barriers as u32,
            carveout: u32::try_from(carveout).ok(),
        };
        let processor = Multiprocessor::of(number as u16).unwrap();
        let occupancy = processor.occupancy(&block);
        assert_eq!(i64::from(occupancy.blocks), blocks, "{line}: {occupancy:?}");
        count += 1;
    }
    assert!(count > 40 * Multiprocessor::all().count());
}

/// Reads blocks, and answers what the header says of each.
const ASKING: &str = r#"
#include <cstdio>
#include <cuda_occupancy.h>
int main() {
    long v[12];
    for (;;) {
        for (int i = 0; i < 12; ++i) if (scanf("%ld", v + i) != 1) return 0;
        cudaOccDeviceProp p;
        p.computeMajor = v[0] / 10; p.computeMinor = v[0] % 10;
        p.maxThreadsPerBlock = 1024; p.maxThreadsPerMultiprocessor = 32 * v[1];
        p.regsPerBlock = v[2]; p.regsPerMultiprocessor = v[3]; p.warpSize = 32;
        p.sharedMemPerBlock = 48 << 10; p.sharedMemPerMultiprocessor = v[4]; p.numSms = 1;
        p.sharedMemPerBlockOptin = v[5]; p.reservedSharedMemPerBlock = v[6];
        cudaOccFuncAttributes f;
        f.maxThreadsPerBlock = 1024; f.numRegs = v[8]; f.sharedSizeBytes = 0;
        f.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; f.maxDynamicSharedSizeBytes = 1 << 20;
        f.numBlockBarriers = v[10];
        cudaOccDeviceState s; s.carveoutConfig = v[11];
        cudaOccResult r;
        int failed = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &f, &s, v[7], v[9]);
        printf("%d\n", failed ? -failed : r.activeBlocksPerMultiprocessor);
    }
}
"#;

/// `CUDA_INCLUDE=…/include cargo test -p ptxkit-occupancy`, where that folder has NVIDIA's
/// `cuda_occupancy.h`, compares with it; with `PTXKIT_RECORD=1` it writes `recorded.txt` anew.
#[test]
fn occupancy_is_that_of_nvidias_header() {
    let Some(include) = std::env::var_os("CUDA_INCLUDE") else {
        eprintln!("left out: CUDA_INCLUDE names no folder with cuda_occupancy.h");
        return;
    };
    let folder = std::env::temp_dir().join(format!("ptxkit-occupancy-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("ask.cpp"), folder.join("ask"));
    std::fs::write(&source, ASKING).unwrap();
    let mut compiler = Command::new("c++");
    compiler
        .arg("-I")
        .arg(include)
        .arg(&source)
        .arg("-o")
        .arg(&program);
    assert!(compiler.status().unwrap().success());
    const EACH: u64 = 10_000;
    let cases = || {
        let of = |processor: &'static Multiprocessor| {
            (0..EACH).map(move |index| (processor, random_block(processor, index)))
        };
        Multiprocessor::all().flat_map(of)
    };
    let mut text = String::new();
    for (m, b) in cases() {
        let carveout = b.carveout.map_or(-1, u32::cast_signed);
        let (number, room) = (m.number, [m.warps, m.registers_of_block, m.registers]);
        let shared = [m.shared, m.shared_of_block, m.reserved];
        let of_block = [b.threads, b.registers, b.shared, b.barriers];
        let words = [&room[..], &shared, &of_block].concat();
        let words: Vec<String> = words.iter().map(u32::to_string).collect();
        text += &format!("{number} {} {carveout}\n", words.join(" "));
    }
    let mut child = Command::new(&program);
    let mut child = child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    let answers = child.wait_with_output().unwrap();
    writer.join().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let answers = String::from_utf8(answers.stdout).unwrap();
    assert_eq!(answers.lines().count(), cases().count());
    let mut recorded = String::new();
    for (index, ((processor, block), answer)) in cases().zip(answers.lines()).enumerate() {
        let ours = processor.occupancy(&block);
        let number = processor.number;
        if std::env::var_os("PTXKIT_RECORD").is_none() {
            assert_eq!(
                ours.blocks.to_string(),
                answer,
                "sm_{number} {block:?} {ours:?}"
            );
        } else if index as u64 % EACH < 50 {
            let carveout = block.carveout.map_or(-1, u32::cast_signed);
            let BlockResources {
                threads,
                registers,
                shared,
                barriers,
                ..
            } = block;
            recorded += &format!(
                "{number} {threads} {registers} {shared} {barriers} {carveout} {answer}\n"
            );
        }
    }
    if !recorded.is_empty() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/recorded.txt");
        std::fs::write(path, recorded).unwrap();
    }
}
