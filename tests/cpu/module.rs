//! Modules, images, the linker and libraries.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use crate::entry::{Current, INVALID_CONTEXT, INVALID_HANDLE, detail, download, upload};
use crate::kernels::{PTX, kernel, launch, load};

#[test]
fn modules_have_kernels_and_variables() {
    let _context = Current::new();
    let module = load(PTX);
    let (mut function, mut owner) = (null_mut(), null_mut());
    assert_eq!(
        cu!(cuModuleGetFunction(&mut function, module, c"none".as_ptr())),
        500
    );
    assert!(detail().contains("add, small, spin"), "{}", detail());
    let (mut address, mut size, mut count) = (0, 0, 0);
    ok!(cuModuleGetGlobal_v2(
        &mut address,
        &mut size,
        module,
        c"counter".as_ptr()
    ));
    assert_eq!((size, download(address, 1)), (4, vec![7]));
    assert_eq!(
        cu!(cuModuleGetGlobal_v2(
            &mut address,
            &mut size,
            module,
            c"add".as_ptr()
        )),
        1
    );
    ok!(cuModuleGetFunctionCount(&mut count, module));
    let mut functions = [null_mut(); 3];
    ok!(cuModuleEnumerateFunctions(
        functions.as_mut_ptr(),
        3,
        module
    ));
    assert_eq!((count, functions[1]), (3, kernel(module, c"small")));
    let mut name = null();
    ok!(cuFuncGetName(&mut name, functions[2]));
    // SAFETY: the entry gave a string that lives as long as the module.
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"spin");
    ok!(cuFuncGetModule(&mut owner, functions[0]));
    assert_eq!(owner, module);
    ok!(cuModuleUnload(module));
    assert_eq!(cu!(cuModuleUnload(module)), INVALID_HANDLE);
    assert_eq!(
        launch(functions[1], 1, 0, null_mut(), &mut [null_mut()]),
        INVALID_HANDLE
    );
}

#[test]
fn images_are_refused_for_what_they_are_and_the_log_says_where() {
    let _context = Current::new();
    let mut module = null_mut();
    let mut load = |image: &CStr| {
        let mut log = [0_u8; 400];
        let mut numbers = [5, 6]; // CU_JIT_ERROR_LOG_BUFFER, _SIZE_BYTES
        let mut values = [log.as_mut_ptr().cast(), 400_usize as *mut c_void];
        let code = cu!(cuModuleLoadDataEx(
            &mut module,
            image.as_ptr().cast(),
            2,
            numbers.as_mut_ptr(),
            values.as_mut_ptr()
        ));
        let log = CStr::from_bytes_until_nul(&log).unwrap();
        assert_eq!(values[1] as usize, log.count_bytes());
        (code, log.to_string_lossy().into_owned())
    };
    let (code, log) =
        load(c".version 8.0\n.target sm_90\n.address_size 64\n.entry k()\n{ nonsense; ret; }\n");
    assert_eq!(code, 218);
    assert!(
        log.starts_with("ptxas application ptx input, line 5; error   : "),
        "{log}"
    );
    let (code, log) = load(c".version 99.0\n.target sm_90\n");
    assert_eq!(code, 222);
    assert!(log.contains("line 1") && log.contains("99.0"), "{log}");
    assert_eq!(load(c"\x7fELF\x02\x01\x01").0, 200);
    assert_eq!(load(c"hello").0, 200);
    assert_eq!(load(PTX), (0, String::new()));
}

#[test]
fn the_linker_makes_a_binary_that_loads() {
    let _context = Current::new();
    let (mut session, mut binary, mut size) = (null_mut(), null_mut(), 0);
    ok!(cuLinkCreate_v2(0, null_mut(), null_mut(), &mut session));
    ok!(cuLinkComplete(session, &mut binary, &mut size));
    assert!(size > 0, "a module without kernels");
    let add = |bytes: &[u8]| {
        cu!(cuLinkAddData_v2(
            session,
            1,
            bytes.as_ptr().cast_mut().cast(),
            bytes.len(),
            c"test".as_ptr(),
            0,
            null_mut(),
            null_mut()
        ))
    };
    assert_eq!(add(PTX.to_bytes_with_nul()), 0);
    ok!(cuLinkComplete(session, &mut binary, &mut size));
    // SAFETY: the linker gave the address and the size of its result.
    let kept = unsafe { std::slice::from_raw_parts(binary.cast::<u8>(), size) }.to_vec();
    assert!(kept.starts_with(b"PTXKCPU1"));
    // A second module of the same kernel: the names are defined twice.
    assert_eq!(add(PTX.to_bytes_with_nul()), 300);
    assert_eq!(cu!(cuLinkComplete(session, &mut binary, &mut size)), 300);
    ok!(cuLinkDestroy(session));
    assert_eq!(cu!(cuLinkDestroy(session)), INVALID_HANDLE);

    let mut module = null_mut();
    ok!(cuModuleLoadData(&mut module, kept.as_ptr().cast()));
    let small = kernel(module, c"small");
    assert_eq!(launch(small, 1, 0, null_mut(), &mut [null_mut()]), 0);
    ok!(cuCtxSynchronize());
    let mut damaged = kept;
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(
        cu!(cuModuleLoadData(&mut module, damaged.as_ptr().cast())),
        200
    );
}

#[test]
fn a_library_is_there_in_every_context_that_asks() {
    ok!(cuInit(0));
    let mut library = null_mut();
    let image = PTX.as_ptr().cast();
    ok!(cuLibraryLoadData(
        &mut library,
        image,
        null_mut(),
        null_mut(),
        0,
        null_mut(),
        null_mut(),
        0
    ));
    let (mut add, mut function, mut module) = (null_mut(), null_mut(), null_mut());
    ok!(cuLibraryGetKernel(&mut add, library, c"add".as_ptr()));
    assert_eq!(
        cu!(cuLibraryGetKernel(&mut add, library, c"sub".as_ptr())),
        500
    );
    assert_eq!(
        cu!(cuKernelGetFunction(&mut function, add)),
        INVALID_CONTEXT
    );
    let mut modules = Vec::new();
    let mut contexts = Vec::new();
    for value in [3_u32, 4] {
        contexts.push(Current::new());
        let (mut out, mut value, mut half) = (upload(&[0]), value, 0_u16);
        let mut arguments = [
            (&raw mut out).cast(),
            (&raw mut value).cast(),
            (&raw mut half).cast(),
        ];
        // A launch takes the library's kernel itself, or its function here.
        assert_eq!(launch(add.cast(), 1, 0, null_mut(), &mut arguments), 0);
        assert_eq!(download(out, 1), [value]);
        ok!(cuKernelGetFunction(&mut function, add));
        assert_eq!(launch(function, 1, 0, null_mut(), &mut arguments), 0);
        ok!(cuLibraryGetModule(&mut module, library));
        assert_eq!(kernel(module, c"add"), function);
        modules.push(module);
    }
    assert_ne!(modules[0], modules[1]);
    ok!(cuLibraryUnload(library));
    assert_eq!(cu!(cuLibraryUnload(library)), INVALID_HANDLE);
    assert_eq!(cu!(cuKernelGetFunction(&mut function, add)), INVALID_HANDLE);
    assert_eq!(cu!(cuModuleUnload(modules[1])), INVALID_HANDLE);
    while contexts.pop().is_some() {}
}

#[test]
fn an_endless_file_is_no_image() {
    let _context = Current::new();
    let mut module = null_mut();
    let code = cu!(cuModuleLoad(&mut module, c"/dev/zero".as_ptr()));
    assert_eq!(code, 301, "{}", detail());
}
