//! Hot kernels are compiled a second time, and what was compiled is found again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::lanes;
use crate::abi::FaultKind;
use crate::blob::Image;
use crate::memory::{DeviceMemory, Purpose};
use crate::module::LoadedModule;
use crate::run::{Engine, Fault, LaunchConfig};
use crate::source::compile_image;
use crate::{CodeStore, CompileOptions, Variant, Vectorization};

/// Numbers that differ from thread to thread, after a loop that takes a while.
const PTX: &str = "
.version 6.0 .target sm_50 .address_size 64
.visible .entry k(.param .u64 out, .param .u64 out2) {
    .reg .b32 %t, %i, %x; .reg .b64 %out, %at; .reg .pred %p;
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %x, %t;
    mov.u32 %i, 2000;
more:
    mad.lo.u32 %x, %x, 1664525, 1013904223;
    sub.u32 %i, %i, 1;
    setp.ne.u32 %p, %i, 0;
    @%p bra more;
    mul.wide.u32 %at, %t, 4;
    add.u64 %at, %at, %out;
    st.global.u32 [%at], %x;
    ret;
}";

/// A module on an engine of its own, and 64 numbers for its kernel.
struct Loaded {
    engine: Engine,
    module: LoadedModule,
    out: u64,
}

const CONFIG: LaunchConfig = LaunchConfig {
    grid: [1; 3],
    block: [64, 1, 1],
    shared_bytes: 0,
    cluster: [1; 3],
};

impl Loaded {
    fn new(image: Image, store: Option<&Store>) -> Loaded {
        let memory = Arc::new(DeviceMemory::with_size(16 << 20).unwrap());
        let module = LoadedModule::of_image(image, &memory).unwrap();
        if let Some(store) = store {
            module.code().set_store(|| Box::new(store.clone()));
        }
        let out = memory.allocate(256, 256, Purpose::Device).unwrap();
        Loaded {
            engine: Engine::with_workers(memory, 1),
            module,
            out,
        }
    }

    fn launch(&self) -> Vec<u32> {
        // SAFETY: 256 bytes of the allocation made above, which no kernel writes now.
        unsafe { std::ptr::write_bytes(self.out as *mut u8, 0, 256) };
        self.launch_to(self.out).unwrap();
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.out as *const u32, 64) }.to_vec()
    }

    fn launch_to(&self, address: u64) -> Result<(), Box<Fault>> {
        let params = address.to_le_bytes();
        self.engine.launch(&self.module, 0, CONFIG, &params)
    }

    /// Launches until the optimized code is there.
    fn heat(&self) {
        let start = Instant::now();
        while !self.module.code().is_hot(0, CONFIG.block) {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "it never gets hot"
            );
            assert_eq!(self.launch()[7], seventh());
        }
    }
}

/// What the seventh thread stores.
fn seventh() -> u32 {
    (0..2000).fold(7_u32, |x, _| {
        x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
    })
}

fn first_code() -> Image {
    compile_image(PTX, &CompileOptions::default()).unwrap()
}

/// What the tests launch.
const VARIANT: Variant = Variant {
    kernel: 0,
    block: Some(CONFIG.block),
};

/// What processes share.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    code: HashMap<Variant, Vec<u8>>,
    compiles: usize,
    texts: usize,
    discarded: Vec<String>,
}

impl Store {
    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.0.lock().unwrap()
    }

    /// How often a kernel was compiled, and the text was asked for.
    fn counts(&self) -> (usize, usize) {
        let kept = self.kept();
        (kept.compiles, kept.texts)
    }
}

impl CodeStore for Store {
    fn text(&self) -> Option<String> {
        self.kept().texts += 1;
        Some(PTX.to_owned())
    }

    fn find(&self, variant: Variant) -> Option<Vec<u8>> {
        self.kept().code.get(&variant).cloned()
    }

    fn find_or_compile(
        &self,
        variant: Variant,
        name: &str,
        compile: &mut dyn FnMut() -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        assert_eq!(name, "k");
        if let Some(found) = self.find(variant) {
            return Some(found);
        }
        let code = compile()?;
        self.kept().compiles += 1;
        self.kept().code.insert(variant, code.clone());
        Some(code)
    }

    fn discard(&self, variant: Variant, why: &str) {
        self.kept().code.remove(&variant);
        self.kept().discarded.push(why.to_owned());
    }
}

#[test]
fn a_hot_kernel_is_compiled_again_and_computes_the_same() {
    let image = first_code();
    assert!(
        image.kernels[0].vector.is_none(),
        "the first code runs one thread at a time"
    );
    let loaded = Loaded::new(image, None);
    assert!(!loaded.module.code().is_hot(0, CONFIG.block));
    let cold = loaded.launch();
    assert_eq!(cold[7], seventh());
    loaded.heat();
    assert_eq!(loaded.launch(), cold);
}

#[test]
fn what_one_process_compiles_runs_in_the_next_from_the_first_launch() {
    let store = Store::default();
    let image = Image {
        ptx: String::new(),
        ..first_code()
    };
    let first = Loaded::new(image.clone(), Some(&store));
    let cold = first.launch();
    first.heat();
    assert_eq!(store.counts(), (1, 1));

    let second = Loaded::new(image, Some(&store));
    assert_eq!(second.launch(), cold);
    assert!(second.module.code().is_hot(0, CONFIG.block));
    let code = second.module.code().fastest(0, CONFIG.block).unwrap();
    assert!(code.vector().is_some(), "it is not the optimized code");
    assert_eq!(store.counts(), (1, 1));
    // A fault has its place from what was stored.
    let (cold, hot) = (Loaded::new(first_code(), None), second);
    let [cold, hot] = [cold, hot].map(|loaded| loaded.launch_to(64).unwrap_err());
    assert_eq!(hot.message, cold.message);
    assert_eq!((hot.line, hot.address), (Some(16), Some(64)));
}

/// Each size of blocks has code of its own, up to a number of them.
#[test]
fn code_is_compiled_for_a_size_of_blocks() {
    let store = Store::default();
    let loaded = Loaded::new(first_code(), Some(&store));
    loaded.heat();
    let code = loaded.module.code().fastest(0, CONFIG.block).unwrap();
    assert_eq!(code.image().block, Some(CONFIG.block));
    let sizes = [1, 2, 3, 4, 5].map(|x| [x * 8, 1, 1]);
    for block in sizes {
        let config = LaunchConfig { block, ..CONFIG };
        let start = Instant::now();
        while !loaded.module.code().is_hot(0, block) {
            assert!(start.elapsed() < Duration::from_secs(60), "{block:?}");
            let params = loaded.out.to_le_bytes();
            loaded
                .engine
                .launch(&loaded.module, 0, config, &params)
                .unwrap();
        }
    }
    let of = |block| {
        loaded
            .module
            .code()
            .fastest(0, block)
            .unwrap()
            .image()
            .block
    };
    assert_eq!(
        sizes.map(of),
        [Some(sizes[0]), Some(sizes[1]), Some(sizes[2]), None, None]
    );
    assert_eq!(store.kept().code.len(), 5);
    assert_eq!(loaded.launch()[7], seventh());
}

#[test]
fn what_is_damaged_or_of_another_kernel_is_discarded() {
    let mut other = first_code();
    other.kernels[0].name = "other".into();
    let mut longer = first_code();
    longer.kernels[0].params.pop();
    let mut larger = first_code();
    larger.kernels[0].block = Some([128, 1, 1]);
    let mut foreign = first_code();
    foreign.arch = "sparc64".into();
    for (bad, why) in [
        (b"PTXKCPU1 and nothing else".to_vec(), "format"),
        (other.write(), "another kernel"),
        (longer.write(), "another kernel"),
        (larger.write(), "another kernel"),
        (foreign.write(), "sparc64"),
    ] {
        let store = Store::default();
        // Found by the first launch, and by the thread that compiles the hot kernel.
        store.kept().code.insert(VARIANT, bad.clone());
        let loaded = Loaded::new(first_code(), Some(&store));
        assert_eq!(loaded.launch()[7], seventh());
        assert!(!loaded.module.code().is_hot(0, CONFIG.block));
        store.kept().code.insert(VARIANT, bad);
        loaded.heat();
        let kept = store.kept();
        assert_eq!(kept.discarded.len(), 2, "{why}");
        for said in &kept.discarded {
            assert!(said.contains(why), "{said}");
        }
        assert_eq!(kept.compiles, 1);
    }
}

#[test]
fn a_module_without_tier_up_asks_for_no_store() {
    let image = Image {
        tier_up: false,
        ..first_code()
    };
    let loaded = Loaded::new(image, None);
    let code = loaded.module.code();
    code.set_store(|| unreachable!("its kernels are not compiled again"));
    assert_eq!(loaded.launch()[7], seventh());
}

/// Thunks check the accesses of the first code, and inline code those of the optimized.
#[test]
fn both_codes_find_the_same_faults() {
    // The allocation has 16384 bytes.
    for (size, access) in [
        (1_i64, "ld.global.u8 %r3, [%x0]"),
        (2, "st.global.u16 [%x0], %r0"),
        (4, "ld.global.u32 %r3, [%x0]"),
        (8, "st.global.u64 [%x0], 9"),
        (16, "ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%x0]"),
    ] {
        let mut faults = 0;
        for at in [
            -256,
            -1,
            0,
            1,
            255,
            16383,
            16384 - size,
            16385 - size,
            16384,
            1 << 50,
        ] {
            let body = format!("add.u64 %x0, %out, {at};\n{access};\nst.global.u32 [%out], 7;");
            let run =
                |vectorization| lanes::run(&lanes::kernel(&body), vectorization, 1, [1; 3], 0);
            let [first, optimized] = [Vectorization::WhenHot, Vectorization::Never].map(run);
            assert_eq!(first, optimized, "{body}");
            faults += usize::from(first.is_err());
        }
        assert!((3..10).contains(&faults), "{access}");
    }
}

#[test]
fn the_first_code_accesses_registered_memory() {
    let loaded = Loaded::new(
        compile_image(PTX, &CompileOptions::default()).unwrap(),
        None,
    );
    let mut host = vec![0_u32; 64];
    let address = host.as_mut_ptr() as u64;
    // SAFETY: nobody else uses the vector until the end of the registration.
    unsafe { loaded.engine.memory().register(address, 256) }.unwrap();
    loaded.launch_to(address).unwrap();
    loaded.engine.memory().unregister(address).unwrap();
    assert_eq!(host, loaded.launch());
    let fault = loaded.launch_to(address).unwrap_err();
    assert_eq!(fault.kind, FaultKind::OutOfBounds);
}
