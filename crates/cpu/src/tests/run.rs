//! How kernels run on the CPU device: threads that wait for each other, and
//! what stops a launch.

use std::sync::Arc;

use crate::CompileOptions;
use crate::abi::FaultKind;
use crate::memory::{DeviceMemory, Purpose};
use crate::module::LoadedModule;
use crate::run::{Engine, Fault, LaunchConfig};
use crate::source::compile_image;

/// An engine, a module with one kernel `k(out)`, and its output.
struct Bench {
    engine: Engine,
    module: LoadedModule,
    out: u64,
    words: usize,
}

impl Bench {
    /// A kernel with `body`; `%out` is the address of the output, `%t`, `%cta`,
    /// `%n` and `%gid` are what their names say, `buffer` 4 KiB of shared memory.
    fn new(workers: u32, words: usize, body: &str) -> Bench {
        let source = format!(
            ".version 9.0\n.target sm_90a\n.address_size 64\n\
             .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a); \
             .extern .func free(.param .b64 p);\n\
             .global .align 1 .b8 text[8] = {{37, 100, 44, 10, 0}};\n\
             .visible .entry k(.param .u64 k_out) {{\n\
             .reg .b64 %out, %at, %d<8>;\n.reg .b32 %t, %cta, %n, %gid, %r<16>;\n.reg .pred %p<8>;\n\
             .shared .align 4 .b8 buffer[4096];\n\
             ld.param.u64 %out, [k_out];\nmov.u32 %t, %tid.x;\nmov.u32 %cta, %ctaid.x;\nmov.u32 %n, %ntid.x;\n\
             mad.lo.u32 %gid, %cta, %n, %t;\nmul.wide.u32 %at, %gid, 4;\nadd.u64 %at, %at, %out;\n\
             // The body begins in line 19.\n\
             {body}\nret;\n}}\n"
        );
        let body_line = source
            .lines()
            .position(|line| line.contains("The body begins"));
        assert_eq!(body_line, Some(17));
        let image = compile_image(&source, &CompileOptions::default())
            .unwrap_or_else(|error| panic!("{error}"));
        let memory = Arc::new(DeviceMemory::with_size(32 << 20).unwrap());
        let module = LoadedModule::of_image(image, &memory).unwrap();
        let out = memory
            .allocate(4 * words as u64, 256, Purpose::Device)
            .unwrap();
        // SAFETY: the allocation made above.
        unsafe { std::ptr::write_bytes(out as *mut u8, 0, 4 * words) };
        Bench {
            engine: Engine::with_workers(memory, workers),
            module,
            out,
            words,
        }
    }

    fn launch(&self, grid: u32, block: u32) -> Result<Vec<u32>, Box<Fault>> {
        let config = LaunchConfig {
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            shared_bytes: 0,
            cluster: [1; 3],
        };
        self.engine
            .launch(&self.module, 0, config, &self.out.to_le_bytes())?;
        // SAFETY: the output's allocation, which no kernel uses now.
        let words = unsafe { std::slice::from_raw_parts(self.out as *const u32, self.words) };
        Ok(words.to_vec())
    }
}

fn run(words: usize, grid: u32, block: u32, body: &str) -> Result<Vec<u32>, Box<Fault>> {
    let one = Bench::new(1, words, body).launch(grid, block);
    let two = Bench::new(2, words, body).launch(grid, block);
    match (&one, &two) {
        (Ok(one), Ok(two)) => assert_eq!(one, two, "one and two threads differ"),
        (Err(one), Err(two)) => assert_eq!(one.kind, two.kind),
        _ => panic!("{one:?} but {two:?}"),
    }
    one
}

#[test]
fn the_first_element_of_an_array_has_its_address() {
    let body = "mov.u32 %r1, buffer;\nmov.u32 %r2, buffer[0];\nsub.u32 %r3, %r2, %r1;\n\
        add.u32 %r3, %r3, 7;\nst.global.u32 [%at], %r3;";
    assert_eq!(Bench::new(1, 1, body).launch(1, 1).unwrap(), [7]);
}

#[test]
fn a_tree_of_barriers_adds_up_a_block() {
    let body = "mov.u32 %r0, buffer; mad.lo.u32 %r1, %t, 4, %r0; st.shared.u32 [%r1], %t;
        shr.u32 %r2, %n, 1;
        loop: bar.sync 0; setp.ge.u32 %p0, %t, %r2; @%p0 bra next;
        shl.b32 %r3, %r2, 2; add.u32 %r3, %r3, %r1; ld.shared.u32 %r4, [%r3]; ld.shared.u32 %r5, [%r1];
        add.u32 %r4, %r4, %r5; st.shared.u32 [%r1], %r4;
        next: shr.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra loop;
        setp.ne.u32 %p2, %t, 0; @%p2 ret; ld.shared.u32 %r6, [buffer];
        mul.wide.u32 %d0, %cta, 4; add.u64 %d0, %d0, %out; st.global.u32 [%d0], %r6;";
    for block in [2, 64, 512, 1024] {
        let sums = run(20, 20, block, body).unwrap();
        assert_eq!(sums, vec![block * (block - 1) / 2; 20]);
    }
}

#[test]
fn threads_that_have_left_are_not_waited_for() {
    let body = "and.b32 %r0, %t, 3; setp.eq.u32 %p0, %r0, 1; @%p0 ret;
        mov.u32 %r1, buffer; mad.lo.u32 %r1, %t, 4, %r1; st.shared.u32 [%r1], %t; bar.sync 0;
        xor.b32 %r2, %t, 2; mov.u32 %r3, buffer; mad.lo.u32 %r3, %r2, 4, %r3;
        setp.eq.u32 %p1, %r0, 3; @!%p1 ld.shared.u32 %r4, [%r3]; @%p1 mov.u32 %r4, 7; st.global.u32 [%at], %r4;";
    let words = run(96, 1, 96, body).unwrap();
    for (i, word) in words.into_iter().enumerate() {
        let expected = [i ^ 2, 0, i ^ 2, 7][i % 4];
        assert_eq!(word as usize, expected, "thread {i}");
    }
}

#[test]
fn barriers_in_different_places_meet() {
    let body = "mov.u32 %r1, buffer; mad.lo.u32 %r1, %t, 4, %r1; st.shared.u32 [%r1], %t;
        setp.lt.u32 %p0, %t, 40; @%p0 bra low;
        barrier.sync 0; ld.shared.u32 %r2, [buffer+4]; bra done;
        low: barrier.sync 0; ld.shared.u32 %r2, [buffer+252];
        done: st.global.u32 [%at], %r2;";
    let words = run(64, 1, 64, body).unwrap();
    assert!(words[..40].iter().all(|&w| w == 63) && words[40..].iter().all(|&w| w == 1));
}

#[test]
fn names_of_deeply_nested_blocks_are_their_own() {
    let depth = 400;
    let body = format!(
        "mov.u32 %r0, 0; {} {} st.global.u32 [%at], %r0;",
        "{ .reg .b32 %own; add.u32 %own, %r0, 3; bra next; add.u32 %own, %own, 1; next: mov.u32 %r0, %own;"
            .repeat(depth),
        "add.u32 %r0, %r0, %own; }".repeat(depth),
    );
    // The block at depth i has 3 * i in its register, and adds it when it closes.
    let depth = depth as u32;
    let sum = 3 * depth + 3 * depth * (depth + 1) / 2;
    assert_eq!(run(4, 1, 4, &body).unwrap(), [sum; 4]);
}

/// As ptxas has it: all digits at the end of a name are the number, vectors have numbers
/// too, and a block may have a table of labels of its own.
#[test]
fn names_with_numbers() {
    let body = "{ .reg .b32 %a<12>, %a1<2>, %b4; .reg .v2 .b32 %v<3>;
        mov.b32 %a07, 7; mov.b32 %a11, 11; add.u32 %a7, %a7, %a11; mov.b32 %b4, 100;
        mov.b32 %v0.y, 1; mov.b32 %v1.x, 2; mov.b32 %v1.y, 3; mov.b32 %v2.x, 4;
        add.u32 %a7, %a7, %b4; add.u32 %a7, %a7, %v1.y; add.u32 %a7, %a7, %v0.y;
        and.b32 %r1, %t, 1; to: .branchtargets even, odd; brx.idx %r1, to;
        even: { .reg .b32 %a<12>; mov.b32 %a7, 9; add.u32 %b4, %a7, 0; } bra done;
        odd: mov.b32 %b4, 1;
        done: add.u32 %a7, %a7, %b4; st.global.u32 [%at], %a7; }";
    assert_eq!(run(2, 1, 2, body).unwrap(), [131, 123]);
}

#[test]
fn one_warp_may_shuffle_while_others_wait() {
    let body = "setp.ge.u32 %p0, %t, 32; mov.u32 %r0, %t; @%p0 bra wait;
        mov.u32 %r2, 16;
        again: shfl.sync.bfly.b32 %r1, %r0, %r2, 31, -1; add.u32 %r0, %r0, %r1;
        shr.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra again; st.shared.u32 [buffer], %r0;
        wait: bar.sync 0; ld.shared.u32 %r3, [buffer]; st.global.u32 [%at], %r3;";
    assert_eq!(run(100, 1, 100, body).unwrap(), vec![496; 100]);
}

/// A barrier counts the threads of a warp that have exited, once each.
#[test]
fn threads_that_arrive_and_exit_count_once() {
    let body = |last: &str| {
        format!(
            "shr.u32 %r2, %t, 5; setp.eq.u32 %p1, %r2, 0; @%p1 bra W0; setp.eq.u32 %p2, %r2, 1; @%p2 bra W1;
            bar.warp.sync -1; bar.warp.sync -1; st.shared.u32 [buffer], 7; {last} 1, 96; ret;
            W0: bar.arrive 1, 96; ret;
            W1: bar.warp.sync -1; bar.sync 1, 96; ld.shared.u32 %r4, [buffer]; st.global.u32 [%at], %r4;"
        )
    };
    for last in ["bar.arrive", "bar.sync"] {
        let words = run(96, 1, 96, &body(last)).unwrap();
        assert_eq!(words[32..64], [7; 32], "{last}");
    }
}

/// It counts warps, of which the last one may lack threads.
#[test]
fn barriers_count_the_threads_that_a_warp_lacks() {
    for body in [
        "setp.ge.u32 %p1, %t, 32; @%p1 bra A; bar.warp.sync -1; A: bar.sync 1, 64; st.global.u32 [%at], 1;",
        "st.global.u32 [%at], 1; setp.lt.u32 %p1, %t, 16; @%p1 bra A; bar.sync 1, 64; A:",
        // A count that is none of warps is one of threads.
        "setp.lt.u32 %p1, %t, 16; @%p1 bra A; barrier.sync 1, %n; ld.shared.u32 %r4, [buffer];
        st.global.u32 [%at], %r4; bra B; A: bar.warp.sync 65535; st.shared.u32 [buffer], 1;
        barrier.sync 1, %n; st.global.u32 [%at], 1; B:",
        "setp.lt.u32 %p1, %t, 40; bar.red.popc.u32 %r5, 1, 64, %p1; sub.u32 %r5, %r5, 39; st.global.u32 [%at], %r5;",
    ] {
        assert_eq!(run(48, 1, 48, body).unwrap(), [1; 48], "{body}");
    }
}

/// What a poll decides may be where the loop goes on, not a value.
#[test]
fn waits_that_count_what_they_see() {
    let poll = "L: ld.acquire.gpu.global.u32 %r2, [%out]; setp.eq.u32 %p2, %r2, 0;";
    for rest in [
        "@%p2 bra N; add.u32 %r8, %r8, 1; N: setp.lt.u32 %p3, %r8, 2; @%p3 bra L;",
        "@%p2 bra N; mov.u32 %r8, 1; N: setp.eq.u32 %p3, %r8, 0; @%p3 bra L;",
        "T: .branchtargets L, E, E, E, E, E; brx.idx %r2, T;",
    ] {
        let body = format!(
            "setp.ge.u32 %p1, %t, 32; @%p1 bra W; mov.u32 %r8, 0; {poll} {rest} bra E;
            W: st.volatile.global.u32 [%out], 5; E:"
        );
        assert_eq!(run(1, 1, 64, &body).unwrap(), [5], "{rest}");
    }
}

#[test]
fn producers_arrive_and_consumers_wait() {
    // The first warp fills for the second, four times.
    let body = "mov.u32 %r5, 0; mov.u32 %r6, 0; setp.ge.u32 %p0, %t, 32; @%p0 bra consumer;
        produce: bar.sync 1, 64; mov.u32 %r0, buffer; mad.lo.u32 %r0, %t, 4, %r0; mad.lo.u32 %r1, %r5, 100, %t;
        st.shared.u32 [%r0], %r1; bar.arrive 2, 64; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 4; @%p1 bra produce; ret;
        consumer: bar.arrive 1, 64; bar.sync 2, 64; sub.u32 %r2, %t, 32; mov.u32 %r0, buffer;
        mad.lo.u32 %r0, %r2, 4, %r0; ld.shared.u32 %r1, [%r0]; add.u32 %r6, %r6, %r1; add.u32 %r5, %r5, 1;
        setp.lt.u32 %p1, %r5, 4; @%p1 bra consumer; st.global.u32 [%at], %r6;";
    let words = run(64, 1, 64, body).unwrap();
    let expected: Vec<u32> = (0..32).map(|i| 600 + 4 * i).collect();
    assert_eq!(words[32..], expected);
}

#[test]
fn a_lock_in_a_warp_lets_every_thread_in_once() {
    let body = "add.u64 %d0, %out, 4;
        take: atom.global.cas.b32 %r0, [%out], 0, 1; setp.ne.u32 %p0, %r0, 0; @%p0 bra take;
        ld.volatile.global.u32 %r1, [%d0]; add.u32 %r1, %r1, 1; st.volatile.global.u32 [%d0], %r1;
        membar.gl; atom.global.exch.b32 %r0, [%out], 0;";
    assert_eq!(run(2, 10, 64, body).unwrap(), [0, 640]);
}

#[test]
fn a_barrier_of_the_whole_grid() {
    // Every block adds itself, waits for all, and reads the sum.
    let body = "setp.ne.u32 %p0, %t, 0; @%p0 bra together;
        add.u64 %d0, %out, 8192; add.u32 %r0, %cta, 1; red.global.add.u32 [%d0+4], %r0; membar.gl;
        atom.global.add.u32 %r1, [%d0], 1; mov.u32 %r2, %nctaid.x;
        spin: ld.acquire.gpu.global.u32 %r1, [%d0]; setp.lt.u32 %p1, %r1, %r2; @%p1 bra spin;
        together: bar.sync 0; ld.volatile.global.u32 %r3, [%out+8196]; st.global.u32 [%at], %r3;";
    let words = run(2050, 64, 32, body).unwrap();
    assert!(words[..2048].iter().all(|&word| word == 64 * 65 / 2));
}

#[test]
fn a_barrier_of_the_whole_grid_at_which_one_thread_of_each_block_polls() {
    // Thread 0 reads, and tells the others through shared memory.
    let body = "setp.eq.u32 %p0, %t, 0; add.u64 %d0, %out, 4096; mov.u32 %r2, %nctaid.x;
        @%p0 red.release.gpu.global.add.u32 [%d0], 1;
        spin: bar.sync 0; @%p0 ld.acquire.gpu.global.u32 %r1, [%d0];
        @%p0 st.shared.u32 [buffer], %r1; bar.sync 0; ld.shared.u32 %r3, [buffer];
        setp.lt.u32 %p1, %r3, %r2; @%p1 bra spin; st.global.u32 [%at], %r3;";
    let words = run(1025, 16, 64, body).unwrap();
    assert!(words[..1024].iter().all(|&word| word == 16));
}

#[test]
fn weak_loads_that_wait() {
    // A barrier of the grid, and a lock that is tried once it looks free.
    for load in ["ld.global.cg.u32", "ld.global.u32", "ld.u32"] {
        let barrier = format!(
            "setp.ne.u32 %p0, %t, 0; @%p0 bra together;
            atom.global.add.u32 %r1, [%out+8192], 1; mov.u32 %r2, %nctaid.x; add.u64 %d1, %out, 8000;
            spin: add.u64 %d0, %d1, 192; {load} %r1, [%d0]; sub.u32 %r3, %r2, %r1;
            setp.ne.u32 %p1, %r3, 0; @%p1 bra spin;
            together: bar.sync 0; ld.global.u32 %r3, [%out+8192]; st.global.u32 [%at], %r3;"
        );
        let words = run(2050, 64, 32, &barrier).unwrap();
        assert!(words[..2048].iter().all(|&word| word == 64), "{load}");
        let lock = format!(
            "take: {load} %r0, [%out]; setp.ne.u32 %p0, %r0, 0; @%p0 bra take;
            atom.global.cas.b32 %r0, [%out], 0, 1; setp.ne.u32 %p0, %r0, 0; @%p0 bra take;
            mov.u32 %r2, 0;
            work: nanosleep.u32 50; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 3; @%p1 bra work;
            ld.volatile.global.u32 %r1, [%out+4]; add.u32 %r1, %r1, 1;
            st.volatile.global.u32 [%out+4], %r1; membar.gl; atom.global.exch.b32 %r0, [%out], 0;"
        );
        assert_eq!(run(2, 4, 32, &lock).unwrap(), [0, 128], "{load}");
    }
}

#[test]
fn a_kernel_that_sleeps_takes_its_time() {
    // `%clock64` counts nanoseconds.
    let body = "mov.u64 %d0, %clock64; nanosleep.u32 1000000; nanosleep.u32 1000000;
        mov.u64 %d1, %clock64; sub.u64 %d1, %d1, %d0; setp.ge.u64 %p0, %d1, 2000000;
        selp.u32 %r0, 1, 0, %p0; st.global.u32 [%at], %r0;";
    assert_eq!(run(70, 1, 70, body).unwrap(), [1; 70]);
}

#[test]
fn every_grid_has_a_workspace_of_zeros_that_its_blocks_share() {
    let body = "mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2; mov.b64 %d0, {%r2, %r1};
        atom.global.add.u32 %r3, [%d0+4], 1; mov.u32 %r4, %nctaid.x; mul.lo.u32 %r4, %r4, %n;
        spin: ld.volatile.global.u32 %r3, [%d0+4]; setp.lt.u32 %p1, %r3, %r4; @%p1 bra spin;
        st.global.u32 [%at], %r3;";
    let bench = Bench::new(2, 160, body);
    for _ in 0..3 {
        assert_eq!(bench.launch(5, 32).unwrap(), [160; 160]);
    }
}

#[test]
fn a_flag_set_by_a_later_thread_of_the_same_warp() {
    let body = "setp.eq.u32 %p0, %t, 31; @%p0 st.volatile.global.u32 [%out], 5; @%p0 bra done;
        wait: ld.volatile.global.u32 %r0, [%out]; setp.eq.u32 %p1, %r0, 0; @%p1 bra wait;
        add.u64 %at, %at, 4; st.global.u32 [%at], %r0; done:";
    assert_eq!(run(33, 1, 32, body).unwrap()[..32], [5; 32]);
}

#[test]
fn matching_and_voting_in_part_of_a_warp() {
    let body = "setp.lt.u32 %p0, %t, 12; @%p0 bra low;
        and.b32 %r0, %t, 3; match.any.sync.b32 %r1, %r0, 0xfffff000; bra done;
        low: setp.gt.u32 %p1, %t, 5; vote.sync.ballot.b32 %r1, %p1, 0xfff;
        done: st.global.u32 [%at], %r1;";
    let words = run(32, 1, 32, body).unwrap();
    assert_eq!((words[0], words[13]), (0xfc0, 0x2222_2000));
}

#[test]
fn out_of_bounds_names_all_that_helps() {
    let bench = Bench::new(2, 256, "st.global.u32 [%at+36], %t;");
    let fault = bench.launch(2, 128).unwrap_err();
    assert_eq!((fault.kind, fault.line), (FaultKind::OutOfBounds, Some(19)));
    assert_eq!((fault.block, fault.thread), ([1, 0, 0], [119, 0, 0]));
    assert_eq!(
        fault.message,
        format!(
            "kernel k, block (1,0,0), thread (119,0,0): out-of-bounds write of 4 bytes at {:#x}, \
             just past the end of the 1024-byte allocation at {:#x}; PTX line 19",
            bench.out + 1024,
            bench.out
        )
    );
}

#[test]
fn a_load_reads_the_bytes_that_are_used() {
    let body = |pragma: &str| {
        format!(
            "st.global.u32 [%out], 7;\nst.global.u32 [%out+8], 9;\n{pragma}\n\
             ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%out];\n\
             st.global.u32 [%out+4], %r3;"
        )
    };
    // The vector has 16 bytes, the buffer 12.
    for mask in ["0xf0f", "3855"] {
        let pragma = format!(".pragma \"used_bytes_mask {mask}\";");
        let words = run(3, 1, 1, &body(&pragma));
        assert_eq!(words.expect("the end of the vector is not used"), [7, 9, 9]);
    }
    let fault = run(3, 1, 1, &body("")).unwrap_err();
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
    // The address is read before the first part is written.
    let own = "st.global.v2.u32 [%out], {5, 0};\nst.global.v2.u32 [%out+8], {6, 0};\nmov.u64 %at, %out;\n\
        .pragma \"used_bytes_mask 0xffff\";\nld.global.v2.b64 {%at, %d0}, [%at];\nadd.u64 %d0, %d0, %at;\n\
        st.global.u64 [%out], %d0;";
    assert_eq!(run(4, 1, 1, own).expect("the loads are in bounds")[0], 11);
}

#[test]
fn accesses_that_are_wrong_are_faults() {
    let cases = [
        (
            "ld.global.u32 %r0, [%out+2];",
            FaultKind::Misaligned,
            "misaligned read of 4 bytes",
        ),
        (
            "mov.u64 %d0, 0; ld.global.u32 %r0, [%d0];",
            FaultKind::OutOfBounds,
            "a null pointer",
        ),
        (
            "mov.u64 %d0, -4; ld.u32 %r0, [%d0];",
            FaultKind::OutOfBounds,
            "out-of-bounds read of 4 bytes",
        ),
        (
            "st.shared.u64 [buffer+4096], %out;",
            FaultKind::OutOfBounds,
            "shared",
        ),
        (
            "mov.u32 %r0, -8; st.shared.u64 [%r0], %out;",
            FaultKind::OutOfBounds,
            "shared",
        ),
        (
            "atom.global.add.u32 %r0, [%out+64], 1;",
            FaultKind::OutOfBounds,
            "of 4 bytes",
        ),
        (
            "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%out+56];",
            FaultKind::Misaligned,
            "misaligned read of 16 bytes",
        ),
        (
            "cvta.shared.u64 %d0, 0; st.u32 [%d0+4096], %t;",
            FaultKind::OutOfBounds,
            "shared memory",
        ),
        ("trap;", FaultKind::Trap, "trap"),
        (
            "call.uni free, (%out);",
            FaultKind::BadFree,
            "which malloc did not return",
        ),
        (
            "bar.sync 1, 64;",
            FaultKind::Deadlock,
            "32 threads wait at barrier 1 for 64 threads in line 19",
        ),
        (
            "mov.u32 %r0, 16; bar.sync %r0;",
            FaultKind::IllegalInstruction,
            "barrier 16",
        ),
    ];
    for (body, kind, words) in cases {
        let fault = run(16, 1, 32, body).unwrap_err();
        assert_eq!(
            (fault.kind, fault.line),
            (kind, Some(19)),
            "{body}: {fault}"
        );
        assert!(fault.message.contains(words), "{body}: {fault}");
    }
}

#[test]
fn a_deadlock_names_every_place() {
    let body = "setp.lt.u32 %p0, %t, 10; @%p0 bra low;
        bar.warp.sync 0xffffffff; bra done;
        low: shfl.sync.idx.b32 %r0, %t, 0, 31, 0xffffffff;
        done:";
    let fault = run(1, 1, 32, body).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Deadlock);
    assert!(
        fault.message.contains(
            "10 threads wait at shfl.sync with mask 0xffffffff in line 21, \
             22 threads wait at bar.warp.sync with mask 0xffffffff in line 20"
        ),
        "{fault}"
    );
}

#[test]
fn freed_memory_is_no_memory() {
    let bench = Bench::new(
        1,
        64,
        "ld.global.u32 %r0, [%out]; st.global.u32 [%out+4], %r0;",
    );
    bench.launch(1, 1).unwrap();
    bench.engine.memory().free(bench.out).unwrap();
    let fault = bench.launch(1, 1).unwrap_err();
    assert!(
        fault
            .message
            .contains("0 bytes into a freed 256-byte allocation"),
        "{fault}"
    );
}

#[test]
fn registered_host_memory_can_be_used() {
    let bench = Bench::new(
        1,
        16,
        "ld.global.u64 %d0, [%out]; st.global.u32 [%d0], 77; st.global.u32 [%d0+12], 78;",
    );
    let mut host = [0_u32; 4];
    let address = &raw mut host as u64;
    // SAFETY: the output's allocation.
    unsafe { (bench.out as *mut u64).write(address) };
    assert_eq!(bench.launch(1, 1).unwrap_err().kind, FaultKind::OutOfBounds);
    // SAFETY: the memory outlives the launch, and nobody else uses it meanwhile.
    unsafe { bench.engine.memory().register(address, 16) }.unwrap();
    bench.launch(1, 1).unwrap();
    // SAFETY: the array above, written by the kernel through its address.
    assert_eq!(unsafe { (&raw const host).read_volatile() }, [77, 0, 0, 78]);
}

#[test]
fn printing_gives_the_text_and_the_number_of_arguments() {
    let body = ".local .align 8 .b8 args[8]; mov.u32 %r1, args; st.local.u32 [%r1], %gid;
        cvta.local.u64 %d1, args; cvta.global.u64 %d0, text; call.uni (%r0), vprintf, (%d0, %d1);
        st.global.u32 [%at], %r0;";
    let bench = Bench::new(1, 6, body);
    assert_eq!(bench.launch(2, 3).unwrap(), [1; 6]);
    assert_eq!(
        bench.engine.output().take_printed(),
        b"0,\n1,\n2,\n3,\n4,\n5,\n"
    );
}

#[test]
fn launches_leave_no_memory_behind() {
    let bench = Bench::new(2, 64, "st.shared.u32 [buffer], %t; bar.sync 0; trap;");
    let free = bench.engine.memory().free_bytes();
    for _ in 0..20 {
        assert!(bench.launch(8, 64).is_err());
    }
    assert_eq!(bench.engine.memory().free_bytes(), free);
}

const WARP_GROUP: &str = "shl.b32 %r0, %t, 4; mov.u32 %r1, buffer; add.u32 %r0, %r0, %r1;
    mov.b32 %r8, 0x3C003C00; st.shared.v4.b32 [%r0], {%r8, %r8, %r8, %r8};
    setp.lt.u32 %p0, %t, 16; @%p0 st.shared.v4.b32 [%r0+2048], {%r8, %r8, %r8, %r8}; bar.sync 0;
    shr.u32 %r2, %t, 5; setp.eq.u32 %p1, %r2, 3; @%p1 nanosleep.u32 1;
    setp.eq.u32 %p2, %r2, 4; @%p2 bra other;
    shr.u32 %r3, %r1, 4; cvt.u64.u32 %d0, %r3;
    add.u64 %d1, %d0, 524416; add.u64 %d0, %d0, 34363932672;
    mov.b32 %r4, 0; mov.b32 %r5, 0; mov.b32 %r6, 0; mov.b32 %r7, 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r4, %r5, %r6, %r7}, %d0, %d1, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    setp.ne.u32 %p3, %r2, 0; @%p3 bra done; mul.lo.u32 %r9, %t, 48; add.u32 %r0, %r0, %r9;
    mov.b32 %r8, 0; st.shared.v4.b32 [%r0], {%r8, %r8, %r8, %r8};
    st.shared.v4.b32 [%r0+16], {%r8, %r8, %r8, %r8}; st.shared.v4.b32 [%r0+32], {%r8, %r8, %r8, %r8};
    st.shared.v4.b32 [%r0+48], {%r8, %r8, %r8, %r8}; bra done;
    other: mov.b32 %r4, 7; mov.b32 %r7, 7;
    done: and.b32 %r4, %r4, %r7; st.global.u32 [%at], %r4;";

/// The first warp overwrites A when it has its part: the others have theirs by then.
#[test]
fn a_product_is_of_its_four_warps() {
    let sixteen = 16.0_f32.to_bits();
    assert_eq!(run(128, 1, 128, WARP_GROUP).unwrap(), [sixteen; 128]);
    // A fifth warp does something else.
    let words = run(160, 1, 160, WARP_GROUP).unwrap();
    assert_eq!(words[..128], [sixteen; 128]);
    assert_eq!(words[128..], [7; 32]);
}

#[test]
fn a_warp_group_that_lacks_a_warp_is_a_fault() {
    let fault = run(64, 1, 64, WARP_GROUP).unwrap_err();
    assert_eq!(fault.kind, FaultKind::IllegalInstruction);
}
