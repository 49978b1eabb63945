//! Long modules: each kernel is compiled when it is first asked for.

use std::ffi::CString;
use std::ptr::null_mut;

use ptxkit::driver::api::{CUfunction, CUmodule};

use crate::entry::{Current, NOT_SUPPORTED, detail, download, isolated, upload};
use crate::kernels::{kernel, launch, load};

const KERNELS: usize = 500;

/// Five hundred kernels, each of which stores its number. In the 400th stands `extra`.
fn module(extra: &str) -> CString {
    let kernels = (0..KERNELS).map(|number| {
        let extra = if number == 400 { extra } else { "" };
        format!(
            ".visible .entry k{number}(.param .u64 out)\n{{\n.reg .b32 %r; .reg .b64 %a;\n\
             ld.param.u64 %a, [out];\nmov.u32 %r, {number};\n{extra}\nst.global.u32 [%a], %r;\n\
             ret;\n}}\n"
        )
    });
    let head = ".version 8.0\n.target sm_90a\n.address_size 64\n";
    CString::new(head.to_owned() + &kernels.collect::<String>()).unwrap()
}

/// The line of `extra`.
const LINE: usize = 3 + 400 * 9 + 6;

fn functions(module: CUmodule) -> Vec<CUfunction> {
    let mut functions = vec![null_mut(); KERNELS];
    ok!(cuModuleEnumerateFunctions(
        functions.as_mut_ptr(),
        KERNELS as u32,
        module
    ));
    functions
}

/// How many of a module's kernels are compiled.
fn compiled(module: CUmodule) -> usize {
    let is_loaded = |function: &CUfunction| {
        let mut loaded = 7;
        ok!(cuFuncIsLoaded(&mut loaded, *function));
        loaded == 1
    };
    functions(module).into_iter().filter(is_loaded).count()
}

fn number_of(function: CUfunction) -> u32 {
    let mut out = upload(&[0]);
    let launched = launch(function, 1, 0, null_mut(), &mut [(&raw mut out).cast()]);
    assert_eq!(launched, 0, "{}", detail());
    download(out, 1)[0]
}

#[test]
fn a_kernel_of_a_long_module_is_compiled_when_it_is_asked_for() {
    let _context = Current::new();
    let mut mode = 0;
    ok!(cuModuleGetLoadingMode(&mut mode));
    assert_eq!(mode, 2, "CU_MODULE_LAZY_LOADING");
    let module = load(&module(""));
    assert_eq!(compiled(module), 0);
    let k7 = kernel(module, c"k7");
    assert_eq!(compiled(module), 1);
    assert_eq!(number_of(k7), 7);
    // The first launch of a kernel that nobody asked for by name.
    assert_eq!(number_of(functions(module)[123]), 123);
    assert_eq!(compiled(module), 2);
    ok!(cuFuncLoad(functions(module)[124]));
    let mut threads = 0;
    ok!(cuFuncGetAttribute(&mut threads, 0, functions(module)[125]));
    assert_eq!((compiled(module), threads), (4, 1024));
}

#[test]
fn a_fault_has_the_line_of_the_source() {
    isolated("lazy::a_fault_has_the_line_of_the_source", &[], || {
        let _context = Current::new();
        let text = module(".loc 1 7 1\nst.global.u32 [%a+2], %r;");
        let text = text.into_string().unwrap() + ".file 1 \"k400.cu\"\n";
        let module = load(&CString::new(text).unwrap());
        let k400 = kernel(module, c"k400");
        let mut out = upload(&[0]);
        let launched = launch(k400, 1, 0, null_mut(), &mut [(&raw mut out).cast()]);
        assert_eq!(launched, 0);
        assert_eq!(
            cu!(cuCtxSynchronize()),
            716,
            "CUDA_ERROR_MISALIGNED_ADDRESS"
        );
        let line = format!("; PTX line {} (k400.cu:7)", LINE + 1);
        assert!(detail().ends_with(&line), "{}", detail());
    });
}

#[test]
fn contexts_share_what_a_library_compiles() {
    let text = module("");
    ok!(cuInit(0));
    let (mut library, mut k9, mut in_context) = (null_mut(), null_mut(), null_mut());
    ok!(cuLibraryLoadData(
        &mut library,
        text.as_ptr().cast(),
        null_mut(),
        null_mut(),
        0,
        null_mut(),
        null_mut(),
        0
    ));
    let contexts = [Current::new(), Current::new()];
    ok!(cuLibraryGetModule(&mut in_context, library));
    assert_eq!(compiled(in_context), 0);
    ok!(cuLibraryGetKernel(&mut k9, library, c"k9".as_ptr()));
    assert_eq!(compiled(in_context), 1);
    for context in &contexts {
        ok!(cuCtxSetCurrent(context.0));
        assert_eq!(number_of(k9.cast()), 9);
        ok!(cuLibraryGetModule(&mut in_context, library));
        assert_eq!(compiled(in_context), 1);
    }
    ok!(cuLibraryUnload(library));
}

#[test]
fn what_the_device_cannot_run_is_told_by_its_kernel_in_lines_of_the_text() {
    let _context = Current::new();
    let (pair, all) = ("{%r, %r}", "{%r, %r, %r, %r, %r, %r, %r, %r}");
    let module = load(&module(&format!(
        "mma.sync.aligned.m8n8k4.row.col.f32.bf16.bf16.f32 {all}, {pair}, {pair}, {all};"
    )));
    assert_eq!(number_of(kernel(module, c"k399")), 399);
    let mut function = null_mut();
    for _ in 0..2 {
        assert_eq!(
            cu!(cuModuleGetFunction(&mut function, module, c"k400".as_ptr())),
            NOT_SUPPORTED
        );
        let message = format!("line {LINE}: the CPU device cannot run `mma.sync");
        assert!(detail().starts_with(&message), "{}", detail());
    }
    let k400 = functions(module)[400];
    assert_eq!(
        launch(k400, 1, 0, null_mut(), &mut [null_mut()]),
        NOT_SUPPORTED
    );
    assert_eq!(compiled(module), 1);
}

#[test]
fn a_mistake_in_any_kernel_is_told_by_the_load() {
    let _context = Current::new();
    let mut module_handle = null_mut();
    for mistake in ["add.u32 %r, %r, %none;", "nonsense;"] {
        let text = module(mistake);
        let code = cu!(cuModuleLoadData(&mut module_handle, text.as_ptr().cast()));
        assert_eq!(code, 218, "{mistake}");
        assert!(
            detail().starts_with(&format!("line {LINE}: ")),
            "{}",
            detail()
        );
    }
}
