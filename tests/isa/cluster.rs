//! Clusters: blocks that reach each other's shared memory, and wait for each other.

use ptxkit::driver::{
    Context, ContextFlags, CudaError, DeviceBuffer, DriverKind, LaunchConfig, Module, Stream,
};

use crate::block::{THREADS, kernel, launch};
use crate::kernels::device;
use crate::parts::Parts;

/// A kernel that is launched in clusters of so many blocks.
fn in_clusters(blocks: u32, inputs: usize, outputs: usize, body: &str) -> String {
    let text = kernel(inputs, outputs, body);
    let body = format!(")\n.explicitcluster\n.reqnctapercluster {blocks}, 1, 1\n{{");
    text.replacen(") {", &body, 1)
}

/// The global index of a thread and the place of its output.
const INDEX: &str = "mov.u32 %r0, %ctaid.x; mul.lo.u32 %r1, %r0, 64; add.u32 %r1, %r1, %t;\n\
     mul.wide.u32 %x0, %r0, 256; add.u64 %out, %out, %x0;\n";

#[test]
fn blocks_know_their_cluster() {
    let body = format!(
        "{INDEX}mov.u32 %r2, %clusterid.x; mov.u32 %r3, %nclusterid.x;\n\
         mov.u32 %r4, %cluster_ctaid.x; mov.u32 %r5, %cluster_nctaid.x;\n\
         mov.u32 %r6, %cluster_ctarank; mov.u32 %r7, %cluster_nctarank;\n\
         mov.pred %p0, %is_explicit_cluster; selp.u32 %r8, 1, 0, %p0;\n\
         mad.lo.u32 %r9, %r2, 10, %r3; mad.lo.u32 %r9, %r9, 10, %r4; mad.lo.u32 %r9, %r9, 10, %r5;\n\
         mad.lo.u32 %r9, %r9, 10, %r6; mad.lo.u32 %r9, %r9, 10, %r7; mad.lo.u32 %r9, %r9, 10, %r8;\n\
         st.global.u32 [%out], %r9;"
    );
    let text = in_clusters(4, 1, 1, &body);
    let found = launch(&text, 8, &[0; THREADS], 8 * THREADS);
    for (at, number) in found.into_iter().enumerate() {
        let block = at / THREADS;
        let (cluster, rank) = (block / 4, block % 4);
        let digits = [cluster, 2, rank, 4, rank, 4, 1];
        let expected = digits.into_iter().fold(0, |sum, digit| 10 * sum + digit);
        assert_eq!(number as usize, expected, "block {block}");
    }
}

/// Each block reads what the next one of its cluster has written, and adds to a counter of
/// the first.
#[test]
fn blocks_reach_each_others_memory() {
    let wait = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";
    let head = format!(
        "{INDEX}shl.b32 %r2, %t, 2; mov.u32 %r3, memory; add.u32 %r2, %r2, %r3;\n\
         st.shared.u32 [%r2+16], %r1; mov.u32 %r4, 0;\nst.shared.u32 [%r3], %r4;\n{wait}\
         mov.u32 %r5, %cluster_ctarank; add.u32 %r5, %r5, 1; and.b32 %r5, %r5, 3;\n"
    );
    // By an address of the cluster, and by a generic one.
    for read in [
        "mapa.shared::cluster.u32 %r6, %r2, %r5; ld.shared::cluster.u32 %r7, [%r6+16];\n\
         mapa.shared::cluster.u32 %r8, %r3, 0; atom.shared::cluster.add.u32 %r9, [%r8], 1;\n\
         getctarank.shared::cluster.u32 %r10, %r6;\n",
        "cvt.u64.u32 %x1, %r2; cvta.shared.u64 %x1, %x1; mapa.u64 %x1, %x1, %r5;\n\
         ld.u32 %r7, [%x1+16];\ncvt.u64.u32 %x2, %r3; cvta.shared.u64 %x2, %x2;\n\
         mapa.u64 %x2, %x2, 0; atom.add.u32 %r9, [%x2], 1;\ngetctarank.u64 %r10, %x1;\n",
        "cvt.u64.u32 %x1, %r2; cvta.shared.u64 %x1, %x1; mapa.u64 %x1, %x1, %r5;\n\
         cvta.to.shared::cluster.u64 %x2, %x1; cvt.u32.u64 %r6, %x2;\n\
         ld.shared::cluster.u32 %r7, [%r6+16];\nisspacep.shared::cluster %p1, %x1;\n\
         mapa.shared::cluster.u32 %r8, %r3, 0; @%p1 red.shared::cluster.add.u32 [%r8], 1;\n\
         cvta.shared::cluster.u64 %x3, %x2; getctarank.u64 %r10, %x3;\n",
    ] {
        let body = format!(
            "{head}{read}{wait}ld.shared.u32 %r9, [%r3];\n\
             mad.lo.u32 %r7, %r10, 1000, %r7; mad.lo.u32 %r7, %r9, 10000, %r7;\n\
             st.global.u32 [%out], %r7;\n{wait}"
        );
        let text = in_clusters(4, 1, 1, &body);
        let found = launch(&text, 8, &[0; THREADS], 8 * THREADS);
        for (at, number) in found.into_iter().enumerate() {
            let (block, thread) = (at / THREADS, at % THREADS);
            let next = block / 4 * 4 + (block + 1) % 4;
            let counter = if block % 4 == 0 { 4 * THREADS } else { 0 };
            let expected = next * THREADS + thread + 1000 * (next % 4) + 10000 * counter;
            assert_eq!(
                number as usize, expected,
                "block {block}, thread {thread}: {body}"
            );
        }
    }
}

/// A thread that has arrived goes on before others have; one that has exited counts.
#[test]
fn arrivals_do_not_wait() {
    let body = format!(
        "{INDEX}mov.u32 %r3, memory; setp.ge.u32 %p0, %t, 40; @%p0 ret;\n\
         mov.u32 %r5, %cluster_ctarank; mapa.shared::cluster.u32 %r6, %r3, 1;\n\
         setp.eq.u32 %p1, %r5, 1; @!%p1 bra OTHER;\n\
         barrier.cluster.arrive; mov.u32 %r7, 11; bra WAIT;\n\
         OTHER: st.shared::cluster.u32 [%r6], %r1; mov.u32 %r7, 22; barrier.cluster.arrive;\n\
         WAIT: barrier.cluster.wait;\nbarrier.cluster.arrive.release; barrier.cluster.wait.acquire;\n\
         st.global.u32 [%out], %r7;"
    );
    let found = launch(&in_clusters(2, 1, 1, &body), 4, &[0; THREADS], 4 * THREADS);
    for (at, number) in found.into_iter().enumerate() {
        let (block, thread) = (at / THREADS, at % THREADS);
        let expected = match (thread < 40, block % 2) {
            (false, _) => 0,
            (true, 1) => 11,
            _ => 22,
        };
        assert_eq!(number, expected, "block {block}, thread {thread}");
    }
}

/// A block signals a barrier of another, which waits for it.
#[test]
fn blocks_signal_each_others_barriers() {
    let body = format!(
        "{INDEX}mov.u32 %r3, memory; setp.eq.u32 %p0, %t, 0;\n\
         @%p0 mbarrier.init.shared.b64 [%r3], {THREADS};\n\
         fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;\n\
         mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1;\n\
         shl.b32 %r2, %t, 2; add.u32 %r2, %r2, %r3; mapa.shared::cluster.u32 %r6, %r2, %r5;\n\
         st.shared::cluster.u32 [%r6+16], %r1; mapa.shared::cluster.u32 %r6, %r3, %r5;\n\
         mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\n\
         L: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p1, [%r3], 0; @!%p1 bra L;\n\
         ld.shared.u32 %r7, [%r2+16]; st.global.u32 [%out], %r7;\n\
         barrier.cluster.arrive; barrier.cluster.wait;"
    );
    let found = launch(&in_clusters(2, 1, 1, &body), 4, &[0; THREADS], 4 * THREADS);
    for (at, number) in found.into_iter().enumerate() {
        assert_eq!(number as usize, at ^ THREADS);
    }
}

/// A block stores in the memory of the other, and adds there; the other's barrier counts the
/// bytes.
#[test]
fn barriers_count_what_another_block_stores() {
    let body = format!(
        "{INDEX}mov.u32 %r3, memory; mov.u32 %r4, 0; setp.eq.u32 %p0, %t, 0;\n\
         @%p0 mbarrier.init.shared.b64 [%r3], 1;\n@%p0 st.shared.u32 [%r3+1024], %r4;\n\
         fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;\n\
         @%p0 mbarrier.arrive.expect_tx.shared.b64 %x1, [%r3], {};\n\
         mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1;\n\
         shl.b32 %r2, %t, 3; add.u32 %r2, %r2, %r3; mapa.shared::cluster.u32 %r6, %r2, %r5;\n\
         mapa.shared::cluster.u32 %r8, %r3, %r5; not.b32 %r9, %r1;\n\
         st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r6+16], {{%r1, %r9}}, [%r8];\n\
         red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r8+1024], %t, [%r8];\n\
         L: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p1, [%r3], 0; @!%p1 bra L;\n\
         ld.shared.v2.u32 {{%r7, %r9}}, [%r2+16]; ld.shared.u32 %r4, [%r3+1024];\n\
         not.b32 %r9, %r9; sub.u32 %r7, %r7, %r9; add.u32 %r9, %r9, %r7; mad.lo.u32 %r9, %r4, 1000, %r9;\n\
         st.global.u32 [%out], %r9;\nbarrier.cluster.arrive; barrier.cluster.wait;",
        THREADS * 12
    );
    let found = launch(&in_clusters(2, 1, 1, &body), 4, &[0; THREADS], 4 * THREADS);
    let sum = THREADS * (THREADS - 1) / 2;
    for (at, number) in found.into_iter().enumerate() {
        assert_eq!(number as usize, (at ^ THREADS) + 1000 * sum);
    }
}

/// One block copies to some of its cluster, each of which has a barrier.
#[test]
fn copies_go_to_several_blocks() {
    let body = format!(
        "{INDEX}mov.u32 %r3, memory; setp.eq.u32 %p0, %t, 0; mov.u32 %r7, 77;\n\
         @%p0 mbarrier.init.shared.b64 [%r3], 1;\n\
         fence.mbarrier_init.release.cluster; barrier.cluster.arrive; barrier.cluster.wait;\n\
         mov.u32 %r5, %cluster_ctarank; setp.eq.u32 %p2, %r5, 2; @%p2 bra END;\n\
         @%p0 mbarrier.arrive.expect_tx.shared.b64 %x1, [%r3], 256;\n\
         or.b32 %r6, %r5, %t; setp.ne.u32 %p2, %r6, 0; @%p2 bra WAIT;\n\
         {{ .reg .b16 %mask; mov.b16 %mask, 11;\n\
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster \
         [%r3+128], [%in], 256, [%r3], %mask; }}\n\
         WAIT: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p1, [%r3], 0; @!%p1 bra WAIT;\n\
         shl.b32 %r2, %t, 2; add.u32 %r2, %r2, %r3; ld.shared.u32 %r7, [%r2+128];\n\
         END: st.global.u32 [%out], %r7;\nbarrier.cluster.arrive; barrier.cluster.wait;"
    );
    let input: Vec<u32> = (0..THREADS as u32).map(|n| 5 * n + 1).collect();
    let found = launch(&in_clusters(4, 1, 1, &body), 8, &input, 8 * THREADS);
    for (at, number) in found.into_iter().enumerate() {
        let expected = match at / THREADS % 4 {
            2 => 77,
            _ => input[at % THREADS],
        };
        assert_eq!(number, expected, "block {}", at / THREADS);
    }
}

/// `cp.reduce.async.bulk` from each block into the memory of the next, whose barrier counts it.
#[test]
fn a_block_adds_to_the_memory_of_the_next() {
    let body = format!(
        "{INDEX}mov.u32 %r3, memory; mov.u32 %r5, %cluster_ctarank;\n\
         setp.ne.u32 %p0, %t, 0; @%p0 bra READY;\n\
         mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;\n\
         add.u32 %r4, %r5, 1; st.shared.v4.b32 [%r3+16], {{%r4, %r4, %r4, %r4}};\n\
         mov.u32 %r4, 100; st.shared.v4.b32 [%r3+32], {{%r4, %r4, %r4, %r4}};\n\
         mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16; fence.proxy.async;\nREADY:\n\
         barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n\
         @%p0 bra WAIT;\n\
         add.u32 %r6, %r5, 1; and.b32 %r6, %r6, 1; mapa.shared::cluster.u32 %r7, %r3, %r6;\n\
         add.u32 %r8, %r7, 32; add.u32 %r9, %r3, 16;\n\
         cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 \
         [%r8], [%r9], 16, [%r7];\n\
         WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0; @!%p1 bra WAIT;\n\
         ld.shared.u32 %r4, [%r3+32]; st.global.u32 [%out], %r4;\n\
         barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    );
    let found = launch(&in_clusters(2, 1, 1, &body), 4, &[0; THREADS], 4 * THREADS);
    for (at, number) in found.into_iter().enumerate() {
        let rank = at / THREADS % 2;
        assert_eq!(number as usize, 100 + (1 - rank) + 1, "thread {at}");
    }
}

/// Copies between blocks fault in a grid without clusters, as on an H200. The test runs on the CPU
/// device only, because other tests of the process cannot use a GPU after a fault.
#[test]
fn without_clusters_no_block_copies_to_another() {
    if device().driver().kind() != DriverKind::Cpu {
        return;
    }
    let body = "mov.u32 %r3, memory; setp.ne.u32 %p0, %t, 0; @%p0 bra END;\n\
         mbarrier.init.shared.b64 [%r3], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16;\n\
         add.u32 %r4, %r3, 16; add.u32 %r5, %r3, 32;\n\
         cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes \
         [%r5], [%r4], 16, [%r3];\nEND:";
    Parts::of("cluster::without_clusters_no_block_copies_to_another").run(|| {
        let context = Context::create(&device(), ContextFlags::default()).unwrap();
        let stream = Stream::new(&context).unwrap();
        let module = Module::load(&context, kernel(1, 1, body).as_bytes()).unwrap();
        let buffer = DeviceBuffer::<u32>::zeroed(&context, THREADS).unwrap();
        let config = LaunchConfig::for_elements(THREADS as u32, THREADS as u32);
        // SAFETY: the kernel accesses its shared memory alone.
        let launched = unsafe {
            module
                .kernel("k")
                .unwrap()
                .launch(config, &stream, (&buffer, &buffer))
        };
        let error = launched.and_then(|()| stream.synchronize()).unwrap_err();
        assert_eq!(error.code(), Some(CudaError(715)), "{error}");
        assert!(error.to_string().contains("without clusters"), "{error}");
    });
}
