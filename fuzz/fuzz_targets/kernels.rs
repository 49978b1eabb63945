//! A kernel that the input chooses gives the same results one thread at a time and in vectors.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use ptxkit_fuzz_kernels::device::Device;
use ptxkit_fuzz_kernels::generate::generate_of_bytes;
use ptxkit_fuzz_kernels::job::Job;
use ptxkit_fuzz_kernels::mode::Mode;

thread_local! {
    static DEVICES: RefCell<[Device; 2]> = RefCell::new(
        [Mode::Baseline, Mode::Vectors].map(|mode| Device::new(mode).expect("the CPU device")),
    );
}

fuzz_target!(|bytes: &[u8]| {
    let job = Job::new(&generate_of_bytes(bytes));
    DEVICES.with_borrow_mut(|devices| {
        let [first, vectors] = devices.each_mut().map(|device| device.run(&job));
        match (first, vectors) {
            (Ok(first), Ok(vectors)) => assert_eq!(first, vectors, "{}", job.ptx),
            (first, vectors) => panic!("{first:?}, {vectors:?}\n{}", job.ptx),
        }
    });
});
