//! What has no peer in C: a launch of one block, and the time to compile a kernel.

use std::fmt::Write;
use std::time::Instant;

use ptxkit::cpu::{CompileOptions, compile};
use ptxkit::driver::LaunchConfig;

use super::{Bench, Outcome};

const EMPTY: &[u8] =
    b".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty() { ret; }\n";

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Launches of one block, in bursts and each waited for.
pub fn launches(bench: &Bench<'_>) -> Outcome {
    let title = "launch of one empty block";
    if bench.skips(title) {
        return Ok(());
    }
    let (kernel, stream) = bench.kernel("empty", EMPTY)?;
    for (what, waits) in [("in a burst", false), ("each waited for", true)] {
        let burst = 1000;
        let mut times = Vec::new();
        for _ in 0..31 {
            let start = Instant::now();
            for _ in 0..burst {
                let config = LaunchConfig::new([1, 1, 1], [1, 1, 1]);
                // SAFETY: the kernel accesses nothing.
                unsafe { kernel.launch(config, &stream, ()) }?;
                if waits {
                    stream.synchronize()?;
                }
            }
            stream.synchronize()?;
            times.push(start.elapsed().as_secs_f64() / f64::from(burst));
        }
        println!("{title}, {what}: {:.2} us, goal 2", median(times) * 1e6);
    }
    Ok(())
}

/// A kernel of some length, and whether the time grows with it.
pub fn compilation(bench: &Bench<'_>) -> Outcome {
    let title = "first compilation";
    if bench.skips(title) {
        return Ok(());
    }
    let options = CompileOptions::default();
    // The first time, and the median.
    let time = |ptx: &str, times: u32| {
        let times = (0..times).map(|_| {
            let start = Instant::now();
            compile(ptx, &options).expect("it compiles");
            start.elapsed().as_secs_f64()
        });
        let times: Vec<f64> = times.collect();
        (times[0], median(times))
    };
    // As often as the comparisons run. The first compilation also reads rows of the table of
    // instructions, and enters the compiler's pages.
    let (first, heat) = time(include_str!("../kernels/heat.ptx"), 31);
    println!(
        "{title}, 103 instructions: {:.3} ms, goal 0.5; the first in this process {:.2} ms",
        heat * 1e3,
        first * 1e3
    );
    let mut before = None;
    for instructions in [8_000, 16_000, 32_000] {
        let (_, seconds) = time(&long(instructions), 9);
        let growth = before.map_or_else(String::new, |before: f64| {
            format!(", {:.2} times as long as half of it", seconds / before)
        });
        println!(
            "{title}, {instructions} instructions: {:.1} ms{growth}",
            seconds * 1e3
        );
        before = Some(seconds);
    }
    Ok(())
}

/// A kernel with loads, branches and stores, of about so many instructions.
fn long(instructions: usize) -> String {
    let mut ptx = String::from(
        ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry long(.param .u64 data) {\n\
         .reg .b64 %a; .reg .b32 %x<8>; .reg .pred %p;\nld.param.u64 %a, [data];\nmov.u32 %x0, %tid.x;\n",
    );
    for part in 0..instructions / 8 {
        let (a, b) = (part % 7 + 1, part * 3 % 7 + 1);
        let _ = writeln!(
            ptx,
            "ld.global.u32 %x{a}, [%a+{}];\nmad.lo.u32 %x{b}, %x{a}, 5, %x0;\nxor.b32 %x0, %x{b}, %x{a};\n\
             shr.u32 %x{a}, %x0, 3;\nsetp.lt.u32 %p, %x{a}, {part};\n@%p bra L{part};\n\
             st.global.u32 [%a+{}], %x0;\nL{part}:\nadd.u32 %x0, %x0, %x{b};",
            4 * (part % 64),
            4 * (part % 32),
        );
    }
    ptx + "ret;\n}\n"
}
